"""A worker that admits a Workload and then refuses its job does not keep it: another is asked, or it is handed back."""

from __future__ import annotations

import asyncio

import pytest
from tests.dispatching import Script, run_on_fleet

from corral.core.admission import AdmissionRequest
from corral.core.errors import Forbidden
from corral.core.meta import Obj, labels_of, status_of
from corral.decide.dispatch.model import ALL_AT_ONCE, INCREMENTAL, LATE_BINDING
from corral.kinds.batch import JOBS
from corral.kinds.core import EVENTS
from corral.kinds.kueue import WORKLOADS, names
from corral.simulate.fleet import SimulatedFleet

WORDS = 'admission webhook "guard" denied the request: not on this cluster'


class Guard:
    """A worker's own policy against what managers send."""

    name = "guard"

    def __init__(self) -> None:
        self.on = True
        self.asked = 0

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" and request.resource.plural == "jobs" and self.on

    async def mutate(self, request: AdmissionRequest) -> Obj:
        assert request.obj is not None
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        if names.MULTIKUEUE_ORIGIN in labels_of(request.obj or {}):
            self.asked += 1
            raise Forbidden(WORDS)


def job() -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": "100000"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": "a", "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}}
    return {"metadata": metadata, "spec": {"suspend": True, "template": template}}


def on_fleet(test: Script, dispatcher: str = ALL_AT_ONCE) -> None:
    multikueue = {"workerLostTimeout": "60s", "gcInterval": "15s", "dispatcherName": dispatcher}
    configuration = {"integrations": {"frameworks": ["batch/job"]}, "multiKueue": multikueue}
    run_on_fleet(test, configuration)


def guard(fleet: SimulatedFleet, *workers: str) -> list[Guard]:
    guards = [Guard() for _ in workers]
    for name, plugin in zip(workers, guards, strict=True):
        fleet.workers[name].api.chain.plugins.append(plugin)
    return guards


async def the_workload(fleet: SimulatedFleet) -> Obj:
    (found,) = (await fleet.manager.client.list(WORKLOADS)).items
    return found


@pytest.mark.parametrize("dispatcher", [ALL_AT_ONCE, INCREMENTAL, LATE_BINDING])
def test_the_job_goes_to_another_worker(dispatcher: str) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        guard(fleet, "worker1")
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(20)
        assert status_of(await the_workload(fleet))["clusterName"] == "worker2"
        assert status_of(await fleet.manager.client.get(JOBS, "a", "default"))["active"] == 1
        assert (await fleet.workers["worker1"].client.list(WORKLOADS)).items == []

    on_fleet(check, dispatcher)


def test_a_job_nobody_accepts_is_handed_back_and_says_why() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        guards = guard(fleet, "worker1", "worker2")
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(20)
        workload = await the_workload(fleet)
        assert [entry["status"] for entry in status_of(workload)["conditions"] if entry["type"] == "QuotaReserved"] == [
            "False"
        ]
        events = (await fleet.manager.client.list(EVENTS)).items
        told = [event["message"] for event in events if event["reason"] == "HandedBack"]
        assert told
        assert told[0].startswith("No worker accepts the job: worker1: refuses the Job: ")
        assert WORDS in told[0]
        for worker in fleet.workers.values():
            assert (await worker.client.list(WORKLOADS)).items == []
        await asyncio.sleep(3600)
        assert max(entry.asked for entry in guards) < 15
        for entry in guards:
            entry.on = False
        await asyncio.sleep(700)
        assert status_of(await the_workload(fleet))["clusterName"]

    on_fleet(check)
