"""Indexes and owner routes of informers: what is found, and who is told, follows every change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from corral.core.meta import Key, Obj, labels_of, name_of
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.runtime.informer import Informer
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

KEY = Key("default", "a")


def config(**metadata: Any) -> Obj:
    return {"metadata": {"name": KEY.name, "namespace": KEY.namespace, **metadata}}


def colours(obj: Obj) -> Iterable[str]:
    return labels_of(obj).get("colours", "").split(".") if labels_of(obj) else ()


def owned_by(*kinds: str) -> Obj:
    owner = {"apiVersion": "v1", "name": "owner", "uid": "u"}
    return config(
        ownerReferences=[{**owner, "kind": kind, "controller": at == 0} for at, kind in enumerate(kinds)] or None
    )


@pytest.mark.parametrize(
    "lives",
    [
        pytest.param([None, "red"], id="added"),
        pytest.param(["red", "blue"], id="moved"),
        pytest.param(["red.blue", "blue.green"], id="partly moved"),
        pytest.param(["red", None], id="gone"),
        pytest.param(["red", ""], id="without labels"),
        pytest.param(["red.red", "red"], id="named twice"),
        pytest.param(["", "red", "red", None, "green"], id="comes back"),
    ],
)
def test_an_index_shows_the_last_state(lives: list[str | None]) -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            informer = Informer(cluster.client, CONFIG_MAPS, cluster.clock, Random(0))
            informer.add_index("colour", colours)
            for life in lives:
                labels = {"colours": life} if life else {}
                informer._store(KEY, None if life is None else config(labels=labels))
            last = lives[-1]
            wanted = sorted(set(last.split("."))) if last else []
            assert list(informer.index_values("colour")) == wanted
            for colour in ("red", "green", "blue"):
                assert [name_of(obj) for obj in informer.by_index("colour", colour)] == ["a"] * (colour in wanted)

    run_virtual(main)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param(None, owned_by("Job"), ["Job"], id="made by a Job"),
        pytest.param(owned_by("Job"), owned_by("Job"), ["Job"], id="changed"),
        pytest.param(owned_by("Job"), None, ["Job"], id="gone"),
        pytest.param(owned_by("Job"), owned_by("Set"), ["Job", "Set"], id="handed over"),
        pytest.param(owned_by("Job"), owned_by(), ["Job"], id="let go"),
        pytest.param(None, owned_by("Other", "Job"), [], id="an owner that does not control"),
        pytest.param(None, owned_by(), [], id="nobody's"),
    ],
)
def test_owners_hear_of_their_children_only(old: Obj | None, new: Obj | None, told: list[str]) -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            informer = Informer(cluster.client, CONFIG_MAPS, cluster.clock, Random(0))
            heard: list[str] = []
            if old is not None:
                informer._store(KEY, old)
            for kind in ("Job", "Set"):
                informer.on_change(lambda old, new, kind=kind: heard.append(kind), owner=kind)  # type: ignore[misc]
            heard.clear()
            informer._store(KEY, new)
            assert heard == told

    run_virtual(main)
