"""What is in an envelope is ordered by its JSON, the last first, whatever its keys are called."""

from __future__ import annotations

import itertools

from corral.core.meta import Obj
from corral.decide.placement.envelopes import unpack


def config(name: str, value: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "app"},
        "data": {"a": value},
    }


def envelope(**data: Obj) -> Obj:
    return {"kind": "ResourceEnvelope", "metadata": {"name": "all", "namespace": "app"}, "data": data}


def test_wrapped_objects_come_by_their_json_the_last_first() -> None:
    one, two, other = config("conf", "1"), config("conf", "2"), config("zeta", "1")
    account: Obj = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "app"}}
    for keyed in itertools.permutations([one, two, other, account]):
        found = unpack(envelope(**dict(zip("abcd", keyed, strict=True))), lambda obj: True)
        assert found == [account, two, other, one]
