"""Peace with the queue on a member: what the queue writes is its own, what ended stays ended, progress is told."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.member.test_works import IF_NOT_DRIFTED, job
from tests.simulation.member.world import NAMESPACE, MemberWorld, about, config_map, in_world, reasons, told

from corral.configuration.member import MemberSettings
from corral.core.meta import Obj, status_of, uid_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import WORKS
from corral.kinds.kueue import WORKLOADS

FRIENDLY = {"corral.dev/queue-friendly": "true"}


async def admit(world: MemberWorld) -> None:
    """What a queue does to a job it starts."""
    template = {
        "metadata": {
            "labels": {"kueue.x-k8s.io/podset": "main"},
            "annotations": {"kueue.x-k8s.io/workload": "job-train"},
        },
        "spec": {"nodeSelector": {"pool": "spot"}},
    }
    await world.edit({"spec": {"suspend": False, "template": template}}, "train", JOBS)


async def finish(world: MemberWorld, kind: str = "Complete") -> Obj:
    """The job controller says that the job has ended."""
    live = await world.live("train", JOBS)
    assert live is not None
    now = world.member.clock.timestamp()
    criteria = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    entries = [
        {"type": one, "status": "True", "reason": "R", "message": "", "lastTransitionTime": now}
        for one in (criteria, kind)
    ]
    status = {"conditions": entries, "startTime": now, "succeeded": 1 if kind == "Complete" else 0}
    if kind == "Complete":
        status["completionTime"] = now
    else:
        status["failed"] = 1
    return await world.member.client.update(
        JOBS, {**live, "status": {**status_of(live), **status}}, subresource="status"
    )


@pytest.mark.parametrize("strategy", [{}, IF_NOT_DRIFTED], ids=["Always", "IfNotDrifted"])
def test_what_the_queue_writes_is_neither_drift_nor_put_back(strategy: Obj) -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job(**FRIENDLY), strategy=strategy)
        await admit(world)
        before = await world.live("train", JOBS)
        await asyncio.sleep(60)
        work = await world.work()
        assert reasons(work) == {"Applied": ("True", "AllManifestsApplied"), "Available": ("True", "WorkNotTrackable")}
        assert "driftDetails" not in told(work)
        assert await world.live("train", JOBS) == before

    in_world(check)


def test_an_edit_that_is_not_the_queues_is_drift_but_no_failure() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job(**FRIENDLY), strategy=IF_NOT_DRIFTED)
        await admit(world)
        await world.edit({"spec": {"backoffLimit": 9}}, "train", JOBS)
        await asyncio.sleep(10)
        work = await world.work()
        assert reasons(work)["Applied"] == ("True", "AllManifestsApplied")
        assert about(work)[:2] == ("True", "DriftTolerated")
        assert [one["path"] for one in told(work)["driftDetails"]["observedDrifts"]] == ["/spec/backoffLimit"]

    in_world(check)


def test_a_queued_job_under_always_is_not_suspended_again() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job())
        await admit(world)
        await asyncio.sleep(60)
        live = await world.live("train", JOBS)
        assert live is not None
        assert live["spec"]["suspend"] is False
        assert live["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "spot"}

    in_world(check)


def test_differences_that_users_named_are_left_alone() -> None:
    async def check(world: MemberWorld) -> None:
        manifest = config_map()
        manifest["metadata"]["annotations"] = {"corral.dev/ignore-differences": "/data/a"}
        await world.send(manifest)
        await world.edit({"data": {"a": "9", "b": "9"}})
        await asyncio.sleep(10)
        live = await world.live()
        assert live is not None
        assert live["data"] == {"a": "9", "b": "2"}

    in_world(check)


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_a_job_that_ended_is_not_created_again(kind: str) -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job())
        await finish(world, kind)
        await asyncio.sleep(1)
        await world.member.client.delete(JOBS, "train", "ns", propagation="Background")
        await asyncio.sleep(60)
        assert await world.live("train", JOBS) is None
        work = await world.work()
        assert about(work) == ("True", "Finished", "The job has finished and is not created again")
        assert reasons(work)["Available"] == ("True", "WorkNotTrackable")

        await world.restart_agent()
        await asyncio.sleep(60)
        assert await world.live("train", JOBS) is None

        again = job()
        again["spec"]["backoffLimit"] = 5
        await world.send(again)
        assert await world.live("train", JOBS) is not None

    in_world(check)


def test_a_job_that_did_not_end_comes_back_when_somebody_deletes_it() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job())
        await world.member.client.delete(JOBS, "train", "ns", propagation="Background")
        await asyncio.sleep(6)
        assert await world.live("train", JOBS) is not None

    in_world(check)


def test_upstream_runs_it_again() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job())
        before = await finish(world)
        await world.member.client.delete(JOBS, "train", "ns", propagation="Background")
        await asyncio.sleep(6)
        live = await world.live("train", JOBS)
        assert live is not None
        assert uid_of(live) != uid_of(before)

    in_world(check, MemberSettings.upstream())


def test_progress_of_job_and_workload_reaches_the_hub_as_it_happens() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job(**FRIENDLY))
        live = await world.live("train", JOBS)
        assert live is not None
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid_of(live), "controller": True}
        container = {"name": "c", "image": "i"}
        sets = [
            {"name": "main", "count": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
        ]
        body = {
            "metadata": {"name": "job-train", "namespace": "ns", "ownerReferences": [owner]},
            "spec": {"queueName": "local-queue", "podSets": sets},
        }
        workload = await world.member.client.create(WORKLOADS, body)
        waiting = {
            "type": "QuotaReserved",
            "status": "False",
            "reason": "Pending",
            "message": "no quota",
            "lastTransitionTime": world.member.clock.timestamp(),
        }
        await world.member.client.update(
            WORKLOADS, {**workload, "status": {"conditions": [waiting]}}, subresource="status"
        )
        await asyncio.sleep(0.2)
        report = told(await world.work())["backReportedStatus"]["observedStatus"]
        assert report["workload"]["conditions"][0]["message"] == "no quota"
        await finish(world)
        await asyncio.sleep(0.2)
        report = told(await world.work())["backReportedStatus"]["observedStatus"]
        assert report["status"]["succeeded"] == 1

    in_world(check)


def test_a_work_made_anew_runs_its_job_anew() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job())
        await finish(world)
        await asyncio.sleep(1)
        await world.hub.client.delete(WORKS, "w", NAMESPACE)
        await asyncio.sleep(10)
        assert await world.live("train", JOBS) is None
        await world.send(job())
        assert await world.live("train", JOBS) is not None

    in_world(check)


def test_a_work_can_ask_for_peace_for_all_it_carries() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job(), strategy=IF_NOT_DRIFTED)
        await admit(world)
        await asyncio.sleep(6)
        assert about(await world.work())[1] == "FoundDriftsInDegradedMode"
        await world.hub.client.patch(WORKS, "w", NAMESPACE, {"metadata": {"annotations": FRIENDLY}})
        await asyncio.sleep(0.5)
        assert about(await world.work())[1] == "Applied"

    in_world(check)
