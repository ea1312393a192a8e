"""What a write to the status subresource fills in is what a write of the whole object would."""

import pytest

from corral.core.meta import Obj
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.machinery.decoding import decode
from corral.kinds.machinery.definition import KindDef
from corral.kinds.machinery.gotypes import go_type_of

KINDS = [kind for kind in builtin_registry() if kind.builtin and kind.storage_version.status]
STATUSES: dict[str, list[Obj]] = {
    "Pod": [{"podIP": "10.0.0.1"}, {"podIPs": [{"ip": "10.0.0.2"}]}],
    "Node": [{"capacity": {"cpu": "4"}}],
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_status_gets_the_defaults_it_has_in_a_whole_object(kind: KindDef) -> None:
    version = kind.storage_version
    for status in ({}, *STATUSES.get(kind.kind, ())):
        whole: Obj = decode(go_type_of(version.definition), {"metadata": {"name": "a"}, "status": status})[0]
        alone: Obj = decode(go_type_of(version.definition), {"status": status})[0]
        kind.default({"apiVersion": kind.api_version(version.name), **whole})
        alone = {"metadata": {}, "status": alone["status"]}
        kind.default_status(alone)
        assert alone["status"] == whole["status"]
