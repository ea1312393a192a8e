"""Whoever the API server in front vouches for is believed, nobody else, and may do what the cluster's roles say."""

from __future__ import annotations

import pytest

from corral.clusters.access_reviews import require
from corral.clusters.webhooks.front_proxy import FrontProxy
from corral.core.admission import UserInfo
from corral.core.errors import Forbidden, Unauthorized
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.server.access.rbac import Attributes
from corral.server.http.message import Request

CONFIG: Obj = {
    "data": {
        "requestheader-client-ca-file": "PEM",
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
}
FIELDS = [
    ("x-remote-user", "alice"),
    ("x-remote-group", "team"),
    ("x-remote-group", "others"),
    ("x-remote-extra-scopes%2fx", "read"),
]


def request(peer: str, fields: list[tuple[str, str]]) -> Request:
    made = Request("GET", "/apis", UserInfo(peer) if peer else None)
    made.fields, made.headers = fields, dict(fields)
    return made


def test_the_server_in_front_says_who_is_asking() -> None:
    user = FrontProxy.read(CONFIG).identify(request("front-proxy-client", FIELDS))
    assert user.name == "alice"
    assert user.groups == ("team", "others", "system:authenticated")
    assert user.extra == {"scopes/x": ["read"]}


@pytest.mark.parametrize(
    ("config", "peer", "fields"),
    [
        (CONFIG, "", FIELDS),
        (CONFIG, "somebody", FIELDS),
        (CONFIG, "front-proxy-client", []),
        ({}, "front-proxy-client", FIELDS),
    ],
)
def test_nobody_else_is_believed(config: Obj, peer: str, fields: list[tuple[str, str]]) -> None:
    with pytest.raises(Unauthorized):
        FrontProxy.read(config).identify(request(peer, fields))


class Roles:
    """A cluster that lets alice read one queue."""

    def __init__(self) -> None:
        self.asked: list[Obj] = []

    async def create(self, resource: Resource, obj: Obj, **options: object) -> Obj:
        self.asked.append(obj["spec"])
        attributes = obj["spec"].get("resourceAttributes") or {}
        return {**obj, "status": {"allowed": attributes.get("name") == "mine"}}


async def test_roles_of_the_cluster_decide() -> None:
    roles, alice = Roles(), UserInfo("alice", ("team",))
    wanted = Attributes("get", "visibility.kueue.x-k8s.io", "clusterqueues", "pendingworkloads", name="mine")
    await require(roles, alice, wanted)  # type: ignore[arg-type]  # only `create` is called
    assert roles.asked[0]["user"] == "alice"
    assert roles.asked[0]["groups"] == ["team"]
    assert roles.asked[0]["resourceAttributes"]["subresource"] == "pendingworkloads"
    with pytest.raises(Forbidden, match='User "alice" cannot get resource "clusterqueues/pendingworkloads"'):
        await require(roles, alice, wanted._replace(name="yours"))  # type: ignore[arg-type]
    with pytest.raises(Forbidden, match='cannot get path "/openapi/v2"'):
        await require(roles, alice, Attributes("get", path="/openapi/v2"))  # type: ignore[arg-type]
