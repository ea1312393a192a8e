"""Health is told to everybody, metrics and profiles to whom the cluster lets."""

from __future__ import annotations

from typing import Any

from corral.clusters.process.status_page import TRUSTED_S, StatusApplication
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.runtime.virtual import run_virtual
from corral.server.http.message import Request, Response
from corral.testing import VirtualCluster


class Reviewer:
    """An API server that knows one token, whose owner may read metrics, and counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def create(self, resource: Resource, obj: Obj) -> Obj:
        self.asked.append(resource.kind)
        spec = obj["spec"]
        if resource.kind == "TokenReview":
            known = spec["token"] == "good"
            return {"status": {"authenticated": known, "user": {"username": "scraper", "groups": ["g"]}}}
        assert spec["user"] == "scraper"
        return {"status": {"allowed": spec["nonResourceAttributes"] == {"verb": "get", "path": "/metrics"}}}


def application(cluster: VirtualCluster, reviewer: Reviewer, trouble: str = "") -> StatusApplication:
    return StatusApplication(reviewer, cluster.clock, lambda: trouble, lambda: b"metric 1")  # type: ignore[arg-type]


def asking(path: str, token: str = "") -> Request:
    request = Request("GET", path)
    if token:
        request.headers["authorization"] = f"Bearer {token}"
    return request


async def answer(subject: StatusApplication, path: str, token: str = "") -> Response:
    found: Any = await subject.answer(asking(path, token))
    assert isinstance(found, Response)
    return found


async def test_health_needs_no_token_and_says_what_a_process_waits_for() -> None:
    async with VirtualCluster() as cluster:
        ready, waiting = application(cluster, Reviewer()), application(cluster, Reviewer(), "no configuration yet")
        for path, subject, expected in (
            ("/healthz", ready, 200),
            ("/readyz", ready, 200),
            ("/livez", waiting, 200),
            ("/readyz", waiting, 503),
        ):
            found = subject.answer_now(asking(path))
            assert found is not None
            assert found.status == expected
        assert ready.answer_now(asking("/metrics")) is None


async def test_metrics_are_for_owners_of_tokens_that_may_get_them() -> None:
    async with VirtualCluster() as cluster:
        subject = application(cluster, Reviewer())
        assert (await answer(subject, "/metrics")).status == 401
        assert (await answer(subject, "/metrics", "bad")).status == 401
        refused = await answer(subject, "/debug/tasks", "good")
        assert refused.status == 403
        assert b"cannot get path" in refused.body
        found = await answer(subject, "/metrics", "good")
        assert (found.status, found.body) == (200, b"metric 1")
        assert (await answer(subject, "/secrets", "good")).status == 404


def test_an_answer_about_a_token_is_kept_for_a_while() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            reviewer = Reviewer()
            subject = application(cluster, reviewer)
            for _ in range(3):
                assert (await answer(subject, "/metrics", "good")).status == 200
            assert reviewer.asked == ["TokenReview", "SubjectAccessReview"]
            await cluster.clock.sleep(TRUSTED_S + 1)
            await answer(subject, "/metrics", "good")
            assert len(reviewer.asked) == 4

    run_virtual(scenario)
