"""Orchestrated preemption: which worker may preempt, and that no two do it for one job."""

from __future__ import annotations

import asyncio

import pytest

from corral.core import conditions
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.timestamps import format_time
from corral.decide.dispatch.workload_copy import ALONE_S, GATE, SETTLE_S, Opening, gated, next_opening, opened
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet

NOW = 1_000_000.0


def copy(*, blocked: float | None = None, open_since: float | None = None) -> Obj:
    status: Obj = {"conditions": []}
    if blocked is not None:
        entry = {"type": "BlockedOnPreemptionGates", "status": "True", "lastTransitionTime": format_time(NOW - blocked)}
        status["conditions"].append(entry)
    position = "Closed" if open_since is None else "Open"
    since = format_time(NOW - (open_since or 0))
    status["preemptionGates"] = [{"name": GATE, "position": position, "lastTransitionTime": since}]
    return {"metadata": {"name": "w"}, "spec": {"preemptionGates": [{"name": GATE}]}, "status": status}


@pytest.mark.parametrize(
    ("copies", "wanted"),
    [
        ({"w1": copy(), "w2": copy()}, Opening()),
        ({"w1": copy(), "w2": copy(blocked=5)}, Opening("w2", ALONE_S)),
        ({"w1": copy(), "w2": copy(blocked=1)}, Opening(again_after=SETTLE_S - 1)),
        ({"w2": copy(blocked=1)}, Opening("w2", ALONE_S)),
        ({"w1": copy(blocked=5), "w2": copy(blocked=9)}, Opening("w2", ALONE_S)),
        ({"w1": copy(blocked=9, open_since=100), "w2": copy(blocked=5)}, Opening(again_after=200.0)),
        ({"w1": copy(blocked=900, open_since=300), "w2": copy(blocked=5)}, Opening("w2", ALONE_S)),
        ({"w1": copy(blocked=900, open_since=300), "w2": copy()}, Opening()),
    ],
    ids=[
        "nobody has to preempt",
        "one has to: it may",
        "one has to, and another may be about to have room",
        "there is no other",
        "the one that has waited longest comes first",
        "the first has not had its time",
        "the first has had its time: the second may",
        "the second does not have to preempt",
    ],
)
def test_the_next_gate_to_open(copies: dict[str, Obj], wanted: Opening) -> None:
    assert next_opening(copies, NOW) == wanted


def test_a_copy_is_gated_by_the_manager_alone() -> None:
    made = gated({"metadata": {}, "spec": {"queueName": "q", "preemptionGates": [{"name": "mine"}]}})
    assert spec_of(made) == {"queueName": "q", "preemptionGates": [{"name": GATE}]}
    assert status_of(opened(made, "now"))["preemptionGates"] == [
        {"name": GATE, "position": "Open", "lastTransitionTime": "now"}
    ]


def _job(name: str, priority: str) -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "8"}}}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue", "kueue.x-k8s.io/priority-class": priority}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": "10000"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"metadata": metadata, "spec": {"suspend": True, "template": template}}


async def _prepare(cluster: SimulatedCluster) -> None:
    for name, value in (("low", 1), ("high", 10)):
        await cluster.client.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    patch = {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
    await cluster.client.patch(CLUSTER_QUEUES, "cluster-queue", "", patch)


async def _preempted(cluster: SimulatedCluster) -> bool:
    listed = (await cluster.client.list(WORKLOADS)).items
    return any(conditions.is_true(item, "Preempted") for item in listed if "local" in name_of(item))


def test_one_job_preempts_once_where_all_jobs_are_the_managers() -> None:
    """The manager makes room in its own queue, and a copy must not make room on another worker besides."""

    async def main() -> None:
        gates = {"featureGates": {"MultiKueueOrchestratedPreemption": True}}
        async with SimulatedFleet(configuration=gates, worker_configuration=gates) as fleet:
            await fleet.introduce()
            await fleet.set_up_queues()
            for cluster in fleet.clusters:
                await _prepare(cluster)
            for name in ("one", "two"):
                await fleet.manager.client.create(JOBS, _job(name, "low"))
            await asyncio.sleep(10)
            await fleet.manager.client.create(JOBS, _job("urgent", "high"))
            await asyncio.sleep(60)
            held = {name_of(item).split("-")[1]: item for item in (await fleet.manager.client.list(WORKLOADS)).items}
            running = {name for name, item in held.items() if conditions.is_true(item, "Admitted")}
            assert "urgent" in running
            assert len(running) == 2
            (kept,) = running - {"urgent"}
            assert conditions.find(held[kept], "Evicted") is None

    run_virtual(main)


def test_two_workers_are_not_both_preempted_for_one_job() -> None:
    async def main() -> None:
        gates = {"featureGates": {"MultiKueueOrchestratedPreemption": True}}
        async with SimulatedFleet(configuration=gates, worker_configuration=gates) as fleet:
            await fleet.introduce()
            await fleet.set_up_queues()
            for cluster in fleet.clusters:
                await _prepare(cluster)
            for worker in fleet.workers.values():
                await worker.client.create(JOBS, _job("local", "low"))
            await asyncio.sleep(5)
            await fleet.manager.client.create(JOBS, _job("urgent", "high"))
            await asyncio.sleep(60)
            assert sorted([await _preempted(worker) for worker in fleet.workers.values()]) == [False, True]
            (held,) = (await fleet.manager.client.list(WORKLOADS)).items
            assert conditions.is_true(held, "Admitted")

    run_virtual(main)
