"""What workers say about a Workload, as values and in events: for `corral explain` on a manager."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.dispatching import run_on_fleet

from corral.core.admission import AdmissionRequest
from corral.core.errors import Cause, invalid
from corral.core.meta import Key, Obj, key_of, labels_of, owner_references_of, status_of
from corral.decide.dispatch.reasons import REFUSED, TOO_LARGE
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import EVENTS
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, names
from corral.simulate.fleet import SimulatedFleet

CONFIGURATION: Obj = {"integrations": {"frameworks": ["batch/job"]}}


def job(name: str, cpu: str, priority: str = "") -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": "100000"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    labels = {names.QUEUE_NAME: "user-queue", **({names.PRIORITY_CLASS: priority} if priority else {})}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"suspend": True, "template": template},
    }


async def workload_of(fleet: SimulatedFleet, name: str) -> Obj:
    found = (await fleet.manager.client.list(WORKLOADS)).items
    return next(one for one in found if any(owner["name"] == name for owner in owner_references_of(one)))


async def answers_about(fleet: SimulatedFleet, name: str) -> list[tuple[str, str, str]]:
    key = key_of(await workload_of(fleet, name))
    return [(answer.worker, answer.detail, answer.why) for answer in await fleet.manager.answers.of(key)]


def test_a_workload_that_waits_on_the_manager_is_known_to_be_too_large_for_every_worker() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for name in ("one", "two"):
            await fleet.manager.client.create(JOBS, job(name, "8"))
        await asyncio.sleep(5)
        await fleet.manager.client.create(JOBS, job("large", "9"))
        await fleet.manager.client.create(JOBS, job("small", "2"))
        await asyncio.sleep(5)
        why = "can never give so much cpu"
        assert await answers_about(fleet, "large") == [("worker1", TOO_LARGE, why), ("worker2", TOO_LARGE, why)]
        assert await answers_about(fleet, "small") == [("worker1", "", ""), ("worker2", "", "")]
        assert await answers_about(fleet, "one") == []
        assert await fleet.manager.answers.of(Key("default", "nobody")) == ()

    run_on_fleet(check, CONFIGURATION)


def test_a_workload_that_no_worker_can_take_has_their_own_words() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("large", "9"))
        await asyncio.sleep(5)
        for worker, detail, why in await answers_about(fleet, "large"):
            assert (worker[:-1], detail) == ("worker", TOO_LARGE)
            assert "maximum capacity (8)" in why
        fleet.links["worker2"].set(cut=True)
        await asyncio.sleep(60)
        assert [detail for _, detail, _ in await answers_about(fleet, "large")] == [TOO_LARGE, ""]

    run_on_fleet(check, CONFIGURATION)


class NoRuntime:
    """A worker that does not accept one field of what managers send."""

    name = "no-runtime"

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" and request.resource.plural == "jobs"

    async def mutate(self, request: AdmissionRequest) -> Obj:
        assert request.obj is not None
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        if names.MULTIKUEUE_ORIGIN in labels_of(request.obj or {}):
            raise invalid("Job", "a", [Cause("FieldValueInvalid", "any words", "spec.runtimeRef")])


def test_a_refusal_names_the_fields_that_are_refused() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for worker in fleet.workers.values():
            worker.api.chain.plugins.append(NoRuntime())
        await fleet.manager.client.create(JOBS, job("a", "1"))
        await asyncio.sleep(8)
        found = await fleet.manager.answers.of(key_of(await workload_of(fleet, "a")))
        refused = [answer for answer in found if answer.detail == REFUSED]
        assert refused
        assert {answer.fields for answer in refused} == {("spec.runtimeRef",)}

    multikueue = {"dispatcherName": "corral.dev/late-binding"}
    run_on_fleet(check, {**CONFIGURATION, "multiKueue": multikueue, "corral": {}})


async def allow_preemption(fleet: SimulatedFleet) -> None:
    for cluster in (fleet.manager, *fleet.workers.values()):
        await cluster.client.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
        for queue in (await cluster.client.list(CLUSTER_QUEUES)).items:
            spec: dict[str, Any] = {**queue["spec"], "preemption": {"withinClusterQueue": "LowerPriority"}}
            await cluster.client.update(CLUSTER_QUEUES, {**queue, "spec": spec})


def test_a_preemption_on_a_worker_is_told_on_the_manager_with_the_preemptor() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await allow_preemption(fleet)
        await fleet.manager.client.create(JOBS, job("low", "8"))
        await asyncio.sleep(10)
        cluster = status_of(await workload_of(fleet, "low"))["clusterName"]
        await fleet.manager.client.create(JOBS, job("high", "8", "high"))
        await asyncio.sleep(30)
        events = (await fleet.manager.client.list(EVENTS)).items
        (told,) = [event["message"] for event in events if event["reason"] == "EvictedOnWorker"]
        assert told.startswith(f"Evicted on cluster {cluster} (Preempted): Preempted to accommodate a workload (UID: ")
        assert told.endswith(f"; the preemptor is Workload {key_of(await workload_of(fleet, 'high'))}")

    run_on_fleet(check, CONFIGURATION, workers=("worker1",))
