"""What MultiKueue's concept page promises and no other test shows: roles, quota, dispatch modes, the two status fields."""

from __future__ import annotations

import asyncio

import pytest
from tests.dispatching import Script, run_on_fleet

from corral.core import conditions
from corral.core.errors import Invalid
from corral.core.meta import Obj, annotations_of, labels_of, name_of, status_of
from corral.decide.dispatch.model import ALL_AT_ONCE, INCREMENTAL
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import ADMISSION_CHECKS, WORKLOADS, names
from corral.simulate.fleet import SimulatedFleet

FIVE = ("worker1", "worker2", "worker3", "worker4", "worker5")


def job(name: str = "a", cpu: str = "1", seconds: int = 100_000) -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": name, "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}}
    return {"metadata": metadata, "spec": {"suspend": True, "template": template}}


def on_fleet(
    test: Script,
    *,
    workers: tuple[str, ...] = ("worker1", "worker2"),
    dispatcher: str = ALL_AT_ONCE,
    manager_cpu: str = "16",
    gates: dict[str, bool] | None = None,
) -> None:
    configuration = {
        "featureGates": gates or {},
        "integrations": {"frameworks": ["batch/job"]},
        "multiKueue": {"dispatcherName": dispatcher, "gcInterval": "15s"},
    }
    run_on_fleet(test, configuration, workers=workers, manager_cpu=manager_cpu)


async def holders(fleet: SimulatedFleet) -> list[str]:
    """The workers that have a copy."""
    return [name for name, worker in fleet.workers.items() if (await worker.client.list(WORKLOADS)).items]


async def the_workload(fleet: SimulatedFleet) -> Obj:
    (found,) = (await fleet.manager.client.list(WORKLOADS)).items
    return found


def test_the_check_is_active_while_a_worker_is_connected() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        active = await fleet.manager.client.get(ADMISSION_CHECKS, "multikueue")
        assert conditions.is_true(active, "Active")
        for link in fleet.links.values():
            link.set(cut=True)
        await asyncio.sleep(60)
        assert conditions.is_false(await fleet.manager.client.get(ADMISSION_CHECKS, "multikueue"), "Active")

    on_fleet(check)


@pytest.mark.parametrize(("quota", "dispatched"), [("2", 2), ("16", 6)])
def test_the_managers_quota_says_how_many_jobs_are_dispatched_at_a_time(quota: str, dispatched: int) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for number in range(6):
            await fleet.manager.client.create(JOBS, job(f"j{number}"))
        await asyncio.sleep(10)
        copies = [
            name_of(copy) for worker in fleet.workers.values() for copy in (await worker.client.list(WORKLOADS)).items
        ]
        assert len(set(copies)) == dispatched

    on_fleet(check, manager_cpu=quota)


def test_a_worker_goes_on_with_its_own_jobs() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        worker = fleet.workers["worker1"]
        await worker.client.create(JOBS, job("own", seconds=5))
        await asyncio.sleep(20)
        assert conditions.is_true(await worker.client.get(JOBS, "own", "default"), "Complete")

    on_fleet(check)


def test_all_at_once_copies_to_every_worker_when_quota_is_reserved() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(cpu="12"))
        await asyncio.sleep(2)
        assert await holders(fleet) == list(FIVE)
        assert status_of(await the_workload(fleet))["nominatedClusterNames"] == list(FIVE)

    on_fleet(check, workers=FIVE)


def test_the_winner_gets_the_job_bound_to_the_copy_and_the_others_lose_theirs() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(5)
        workload = await the_workload(fleet)
        cluster = status_of(workload)["clusterName"]
        assert await holders(fleet) == [cluster]
        remote = await fleet.workers[cluster].client.get(JOBS, "a", "default")
        assert annotations_of(remote)[names.PREBUILT_WORKLOAD] == name_of(workload)
        assert labels_of(remote)[names.MULTIKUEUE_ORIGIN] == "multikueue"
        assert "nominatedClusterNames" not in status_of(workload)

    on_fleet(check, workers=FIVE)


def test_incremental_asks_three_and_after_five_minutes_three_more() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(cpu="12"))
        await asyncio.sleep(2)
        assert await holders(fleet) == list(FIVE[:3])
        await asyncio.sleep(290)
        assert await holders(fleet) == list(FIVE[:3])
        await asyncio.sleep(20)
        assert await holders(fleet) == list(FIVE)

    on_fleet(check, workers=FIVE, dispatcher=INCREMENTAL)


def test_a_round_goes_on_after_a_restart_of_the_manager() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(cpu="12"))
        await asyncio.sleep(200)
        await fleet.manager.crash()
        await asyncio.sleep(10)
        await fleet.manager.start()
        await asyncio.sleep(70)
        assert await holders(fleet) == list(FIVE[:3])
        await asyncio.sleep(40)
        assert await holders(fleet) == list(FIVE)

    on_fleet(check, workers=FIVE, dispatcher=INCREMENTAL)


def test_an_external_dispatcher_decides_alone() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(60)
        assert await holders(fleet) == []
        held = await the_workload(fleet)
        patch = {"status": {"nominatedClusterNames": ["worker2"]}}
        await fleet.manager.client.patch(WORKLOADS, name_of(held), "default", patch, subresource="status")
        await asyncio.sleep(5)
        assert status_of(await the_workload(fleet))["clusterName"] == "worker2"

    on_fleet(check, dispatcher="example.com/mine")


@pytest.mark.parametrize(
    "change",
    [{"clusterName": "worker2"}, {"nominatedClusterNames": ["worker1", "worker2"]}],
    ids=["cluster", "nomination"],
)
def test_the_chosen_cluster_is_final(change: Obj) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        fleet.links["worker2"].set(cut=True)
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(5)
        held = await the_workload(fleet)
        assert status_of(held)["clusterName"] == "worker1"
        with pytest.raises(Invalid):
            await fleet.manager.client.patch(
                WORKLOADS, name_of(held), "default", {"status": change}, subresource="status"
            )

    on_fleet(check)


def test_the_feature_gate_turns_dispatch_off() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(60)
        assert await holders(fleet) == []
        assert fleet.manager.remote("worker1") is None

    on_fleet(check, gates={"MultiKueue": False})
