"""Many jobs at once: busy servers, lost answers, refusals; and waiting for many with one watch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from corral.client.http import HttpClient
from corral.client.protocol import ObjectList, WatchEvent
from corral.core.errors import AlreadyExists, ApiError, ConnectionFailed, Expired, Forbidden, TooManyRequests
from corral.core.meta import Obj, name_of
from corral.jobs.batch_job.kind import JOBS
from corral.runtime.virtual import run_virtual
from corral.sdk.endings import endings
from corral.sdk.many import BATCH, _create

JOB: Obj = {"metadata": {"name": "sweep-0", "namespace": "default", "labels": {BATCH: "sweep"}}}


class Server:
    """Answers creates with what it is given; what it is asked to create is there if it was lost on the way back."""

    def __init__(self, *answers: Exception | None, there: Obj | None = None) -> None:
        self._answers = list(answers)
        self._there = there

    async def create(self, resource: Any, job: Obj, *, manager: str) -> Obj:
        answer = self._answers.pop(0)
        if answer is not None:
            raise answer
        return job

    async def get(self, resource: Any, name: str, namespace: str) -> Obj:
        assert self._there is not None
        return self._there


def created(server: Server) -> Obj:
    async def main() -> Obj:
        return await _create(cast(HttpClient, server), JOBS, JOB)

    return run_virtual(main)


def test_a_busy_server_is_given_time_and_a_lost_answer_is_looked_for() -> None:
    assert created(Server(TooManyRequests("busy"), ConnectionFailed("gone"), None)) == JOB
    assert created(Server(ConnectionFailed("gone"), AlreadyExists("there"), there={**JOB, "uid": "1"}))["uid"] == "1"


@pytest.mark.parametrize(
    ("server", "error"),
    [
        (Server(AlreadyExists("there")), AlreadyExists),
        (Server(ConnectionFailed("gone"), AlreadyExists("there"), there={"metadata": {"labels": {}}}), AlreadyExists),
        (Server(Forbidden("no")), Forbidden),
        (Server(*[TooManyRequests("busy")] * 5), TooManyRequests),
    ],
)
def test_what_is_not_ours_or_not_allowed_is_an_error(server: Server, error: type[ApiError]) -> None:
    with pytest.raises(error):
        created(server)


def job(name: str, *conditions: str) -> Obj:
    status = {"conditions": [{"type": kind, "status": "True"} for kind in conditions]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "status": status}


class Cluster:
    """Lists and streams, one after the other; a stream may break."""

    def __init__(self, *looks: tuple[list[Obj], list[WatchEvent | Exception]]) -> None:
        self._looks = list(looks)

    async def list(self, resource: Any, namespace: str, *, fields: str) -> ObjectList:
        return ObjectList(self._looks[0][0], "1")

    async def watch(
        self, resource: Any, namespace: str, *, fields: str, resource_version: str
    ) -> AsyncIterator[WatchEvent]:
        for event in self._looks.pop(0)[1]:
            if isinstance(event, Exception):
                raise event
            yield event


def test_each_ending_is_told_once_also_when_the_stream_breaks_or_a_job_is_deleted() -> None:
    a, b, c = job("a", "Complete"), job("b", "Failed"), job("c")
    cluster = Cluster(
        ([a, job("b"), c], [WatchEvent("MODIFIED", job("x", "Complete")), WatchEvent("MODIFIED", c), Expired("old")]),
        ([a, b, c], [WatchEvent("DELETED", c)]),
    )

    async def main() -> list[tuple[str, bool | None]]:
        found = endings(cast(HttpClient, cluster), JOBS, "default", {"a", "b", "c"})
        return [ending async for ending in found]

    assert run_virtual(main) == [("a", True), ("b", False), ("c", None)]
    assert name_of(a) == "a"
