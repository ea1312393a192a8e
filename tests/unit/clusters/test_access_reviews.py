"""Deputies of a real cluster ask its API server what a user may: for the kind, the place and the name in question."""

from __future__ import annotations

from typing import Any, cast

import pytest

from corral.client.protocol import Client
from corral.clusters.access_reviews import ReviewedRights
from corral.core.admission import UserInfo
from corral.core.meta import Obj
from corral.core.resource import Resource

ALICE = UserInfo("alice", ("people",))
SERVED = {
    ("", "ConfigMap"): Resource("", "v1", "configmaps", "ConfigMap", True),
    ("", "Namespace"): Resource("", "v1", "namespaces", "Namespace", False),
    ("rbac.authorization.k8s.io", "Role"): Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", True),
}


class Reviewing:
    """An API server that lets alice do what it is given, and keeps what it was asked."""

    def __init__(self, *allowed: tuple[str, str, str, str]) -> None:
        self.allowed = allowed
        self.asked: list[Obj] = []

    async def create(self, resource: Resource, obj: Obj) -> Obj:
        self.asked.append(obj["spec"])
        wanted = obj["spec"]["resourceAttributes"]
        what = tuple(wanted[part] for part in ("verb", "resource", "namespace", "name"))
        return {"status": {"allowed": what in self.allowed}}


async def find(group: str, version: str, kind: str) -> Resource | None:
    return SERVED.get((group, kind))


def of(server: Reviewing) -> ReviewedRights:
    return ReviewedRights(cast(Client, cast(Any, server)), find)


@pytest.mark.parametrize(
    ("api_version", "kind", "right"),
    [
        ("v1", "ConfigMap", ("create", "configmaps", "team", "")),
        ("v1", "Namespace", ("create", "namespaces", "", "")),
        ("example.com/v1", "Unserved", ("create", "*", "team", "")),
    ],
)
async def test_a_kind_is_asked_for_where_it_would_be_made(
    api_version: str, kind: str, right: tuple[str, str, str, str]
) -> None:
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one", "namespace": "elsewhere"}}
    server = Reviewing(right)
    assert await of(server).may_create(ALICE, obj, "team")
    assert server.asked[0]["user"] == "alice"
    assert server.asked[0]["groups"] == ["people"]
    assert not await of(Reviewing()).may_create(ALICE, obj, "team")


async def test_who_overrides_an_object_has_to_be_let_change_just_that() -> None:
    right = ("update", "configmaps", "team", "one")
    assert await of(Reviewing(right)).may_change(ALICE, "v1", "ConfigMap", "team", "one")
    assert not await of(Reviewing(right)).may_change(ALICE, "v1", "ConfigMap", "team", "two")


async def test_a_role_is_made_by_a_deputy_only_for_who_may_grant_anything() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "all"}}
    create = ("create", "roles", "team", "")
    grants = (("escalate", "roles", "team", ""), ("bind", "clusterroles", "team", ""))
    assert await of(Reviewing(create, *grants)).may_create(ALICE, role, "team")
    for rights in ((create,), (create, grants[0]), (create, grants[1]), grants):
        assert not await of(Reviewing(*rights)).may_create(ALICE, role, "team")
