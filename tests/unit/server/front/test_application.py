"""What a front process answers itself, and what it hands on to the owner of the store."""

from __future__ import annotations

from functools import partial

import pytest

from corral.core.admission import UserInfo
from corral.core.meta import Obj
from corral.jobs.framework.served_kinds import builtin_registry
from corral.runtime.clock import WallClock
from corral.runtime.random import Random
from corral.server.api import Api
from corral.server.front.application import FrontApp
from corral.server.http.message import Answer, Request, Response
from corral.server.lifecycle.served_definitions import ServedDefinitions
from corral.server.server import ApiServer
from corral.store import Homeless, ObjectKey
from corral.store.replica import Replica
from corral.store.replication import Change, Progress

HANDED_ON = Response(299, b"the owner's")
ADMIN = UserInfo("admin", ("system:masters",))


class Owner:
    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def answer(self, request: Request) -> Answer:
        self.asked.append(request)
        return HANDED_ON


class Followed:
    shown_by_owner = frozenset({("metrics.k8s.io", "pods"), ("", "endpoints")})
    writes = True


def stored(store_kind: str, namespace: str, name: str, revision: int = 5) -> Change:
    raw = b'{"apiVersion":"v1","kind":"X","metadata":{"name":"%b","resourceVersion":"%d"}}' % (name.encode(), revision)
    return Change(revision, store_kind, namespace, name, False, raw)


def front(owner: Owner, followed: Followed | None = None) -> FrontApp:
    progress = Progress()
    progress.revision = 10
    objects = [
        stored("namespaces", "", "default"),
        stored("namespaces", "", "limited"),
        stored("configmaps", "default", "a", 9),
        stored("resourcequotas", "limited", "q"),
    ]
    replica = Replica(objects, 10, progress, lambda frame: None, mark="mark", now=lambda: 0.0, home=lambda key: None)
    api = Api(replica, builtin_registry(), clock=WallClock(), random=Random())
    ServedDefinitions(api.registry).follow(replica)
    server = ApiServer(api)
    app = server.application(
        partial(FrontApp, replica=replica, to_owner=owner, followed=followed or Followed())  # type: ignore[arg-type]
    )
    assert isinstance(app, FrontApp)
    return app


async def goes_to(method: str, target: str, followed: Followed | None = None, **headers: str) -> str:
    owner = Owner()
    request = Request(method, target, ADMIN)
    request.headers = headers
    request.body = b"" if method in ("GET", "DELETE") else b"not an object"
    answer = await front(owner, followed).answer(request)
    assert (answer is HANDED_ON) == bool(owner.asked)
    return "owner" if owner.asked else "here"


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("method", "target", "wanted"),
    [
        ("GET", f"{CONFIG_MAPS}/a", "here"),
        ("GET", CONFIG_MAPS, "here"),
        ("GET", f"{CONFIG_MAPS}?watch=1", "here"),
        ("GET", "/api/v1/nodes", "here"),
        ("GET", "/apis/batch/v1/namespaces/default/jobs/j/status", "here"),
        ("POST", CONFIG_MAPS, "here"),
        ("PUT", f"{CONFIG_MAPS}/a", "here"),
        ("PATCH", f"{CONFIG_MAPS}/a", "here"),
        ("POST", "/apis/batch/v1/namespaces/default/jobs", "here"),
        ("PATCH", "/apis/batch/v1/namespaces/default/jobs/j/status", "here"),
        ("PUT", "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads/w", "here"),
        ("DELETE", f"{CONFIG_MAPS}/a", "owner"),
        ("DELETE", CONFIG_MAPS, "owner"),
        ("POST", "/api/v1/namespaces/limited/configmaps", "owner"),
        ("POST", "/api/v1/namespaces", "owner"),
        ("POST", "/api/v1/namespaces/default/services", "owner"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", "owner"),
        ("PATCH", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/r", "owner"),
        ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "owner"),
        ("POST", "/api/v1/namespaces/default/pods/p/binding", "owner"),
        ("POST", "/api/v1/namespaces/default/pods/p/eviction", "owner"),
        ("GET", "/api/v1/namespaces/default/pods/p/log", "owner"),
        ("GET", "/api/v1/namespaces/default/pods/p/exec?command=ls", "owner"),
        ("GET", "/api/v1/namespaces/default/services/s/proxy/", "owner"),
        ("GET", "/api/v1/namespaces/default/endpoints", "owner"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "owner"),
        ("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods", "owner"),
        ("GET", "/apis/nobody.example/v1/things", "owner"),
        ("GET", "/api", "owner"),
        ("GET", "/version", "owner"),
        ("GET", "/healthz", "owner"),
        ("GET", "/openapi/v2", "owner"),
        ("GET", "/metrics", "owner"),
    ],
)
async def test_what_needs_only_what_is_stored_is_answered_here(method: str, target: str, wanted: str) -> None:
    assert await goes_to(method, target) == wanted


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("watch=1&resourceVersion=10", "here"),
        ("watch=1&resourceVersion=11", "here"),
        ("watch=1&resourceVersion=0", "here"),
        ("watch=1&resourceVersion=9", "owner"),
        ("watch=1&resourceVersion=x", "here"),
        ("resourceVersion=9&resourceVersionMatch=Exact", "owner"),
        ("resourceVersion=10&resourceVersionMatch=Exact", "here"),
        ("resourceVersion=9&resourceVersionMatch=NotOlderThan", "here"),
        ("resourceVersion=9", "here"),
        ("continue=garbage", "here"),
    ],
)
async def test_what_is_older_than_its_replica_is_asked_of_the_owner(query: str, wanted: str) -> None:
    assert await goes_to("GET", f"{CONFIG_MAPS}?{query}") == wanted


async def test_where_not_all_rules_are_here_writes_are_handed_on() -> None:
    followed = Followed()
    followed.writes = False
    assert await goes_to("POST", CONFIG_MAPS, followed) == "owner"
    assert await goes_to("GET", CONFIG_MAPS, followed) == "here"


async def test_who_may_not_ask_is_refused_here() -> None:
    owner = Owner()
    answer = await front(owner).answer(Request("DELETE", f"{CONFIG_MAPS}/a", UserInfo("nobody")))
    assert isinstance(answer, Response)
    assert answer.status == 403
    assert not owner.asked


async def test_nothing_is_answered_at_once_before_the_replica_is_current() -> None:
    app = front(Owner())
    request = Request("GET", f"{CONFIG_MAPS}/a", ADMIN)
    assert app.answer_now(request) is not None
    app._replica._progress.revision = 11
    assert app.answer_now(request) is None


async def test_a_namespace_that_goes_in_the_meantime_is_the_owners_to_tell() -> None:
    owner = Owner()
    app = front(owner)

    async def put(key: ObjectKey, obj: Obj, expected: int | None = None) -> None:
        raise Homeless("gone")

    app._replica.put = put  # type: ignore[assignment, method-assign]
    request = Request("POST", CONFIG_MAPS, ADMIN)
    request.headers = {"content-type": "application/json"}
    request.body = b'{"metadata":{"name":"b"}}'
    assert await app.answer(request) is HANDED_ON


async def test_what_the_owner_alone_can_show_is_not_answered_at_once_either() -> None:
    followed = Followed()
    followed.shown_by_owner = frozenset({("", "configmaps")})
    request = Request("GET", f"{CONFIG_MAPS}/a", ADMIN)
    assert front(Owner()).answer_now(request) is not None
    assert front(Owner(), followed).answer_now(request) is None


async def test_a_long_body_is_not_refused_by_rights_that_are_out_of_date() -> None:
    app = front(Owner())
    request = Request("POST", CONFIG_MAPS, UserInfo("nobody"))
    assert app.refuse_body(request) is not None
    app._replica._progress.revision = 11
    assert app.refuse_body(request) is None
