"""How many Workloads are not admitted, and why. Ids are those of the upstream scenario list."""

from __future__ import annotations

import pytest

from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.context import Caches
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.workloads.waiting_counts import UnadmittedCounts
from corral.core.meta import Obj
from corral.kinds.kueue import LOCAL_QUEUES, WORKLOADS
from corral.kinds.kueue.gates import FeatureGates
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

from .test_metrics import scrape
from .workload_cases import ADMISSION, POD_SETS, cond
from .world import JOBS, World, cluster_queue, condition, fill, flavor, job, local_queue

GATE = "UnadmittedWorkloadsObservability"
GRANULAR = QueueingConfig(gates=FeatureGates({GATE: True}))
EXPLICIT = QueueingConfig(gates=FeatureGates({GATE: True, "UnadmittedWorkloadsExplicitStatus": True}))

Shown = tuple[dict[tuple[str, ...], float], dict[tuple[str, ...], float]]
NOTHING: Shown = ({}, {})


def shown(cluster: VirtualCluster) -> Shown:
    """By ClusterQueue and by LocalQueue."""
    return scrape(cluster, "kueue_unadmitted_workloads"), scrape(cluster, "kueue_local_queue_unadmitted_workloads")


def one(reason: str, cause: str) -> Shown:
    return {("cq", reason, cause): 1}, {("cq", "lq", "default", reason, cause): 1}


def set_up(manager: Manager) -> None:
    UnadmittedCounts(Caches(manager), QueueingMetrics(manager.metrics)).connect()


# Conditions of a Workload, and the reason and cause it counts under.
STATUSES: dict[str, tuple[list[Obj], str, str]] = {
    "QUE-106 nothing is known yet": ([], "NoReservation", "PendingEvaluation"),
    "QUE-107 told to wait for quota": (
        [cond("QuotaReserved", "False", "WaitingForQuota")],
        "NoReservation",
        "WaitingForQuota",
    ),
    "QUE-108 checks are missing": (
        [cond("QuotaReserved"), cond("Admitted", "False", "UnsatisfiedAdmissionChecks")],
        "UnsatisfiedAdmissionChecks",
        "",
    ),
    "QUE-109 places are missing": (
        [cond("QuotaReserved"), cond("Admitted", "False", "PendingDelayedTopologyRequests")],
        "PendingDelayedTopologyRequests",
        "",
    ),
}


@pytest.mark.parametrize("name", STATUSES)
def test_where_a_workload_counts_until_it_is_admitted(name: str) -> None:
    held, reason, cause = STATUSES[name]

    async def main() -> None:
        async with VirtualCluster([set_up], lifecycle=False) as cluster:
            client = cluster.client
            for resource, obj in (cluster_queue(), local_queue()):
                await client.create(resource, obj)
            metadata = {"name": "w", "namespace": "default"}
            created = await client.create(
                WORKLOADS, {"metadata": metadata, "spec": {"podSets": POD_SETS, "queueName": "lq"}}
            )

            async def say(conditions: list[Obj], **more: Obj) -> None:
                now = {"lastTransitionTime": cluster.clock.timestamp()}
                dated = [{**{k: v for k, v in entry.items() if k != "ago"}, **now} for entry in conditions]
                current = await client.get(WORKLOADS, created["metadata"]["name"], "default")
                await client.update(
                    WORKLOADS, {**current, "status": {"conditions": dated, **more}}, subresource="status"
                )
                await cluster.settle()

            has_quota = any(entry["type"] == "QuotaReserved" and entry["status"] == "True" for entry in held)
            await say(held, **({"admission": ADMISSION} if has_quota else {}))
            assert shown(cluster) == one(reason, cause)
            await say([cond("QuotaReserved"), cond("Admitted")], admission=ADMISSION)
            assert shown(cluster) == NOTHING

    run_virtual(main)


def test_counts_follow_what_waits() -> None:
    """ISC-88."""

    async def main() -> None:
        async with World(EXPLICIT) as world:
            await fill(world, flavor(), cluster_queue(cpu="1", queueingStrategy="StrictFIFO"), local_queue())
            await fill(world, job("runs", cpu="1"))
            assert shown(world) == NOTHING
            await fill(world, job("waits", cpu="1"))
            assert (condition(await world.workload_of("waits"), "QuotaReserved") or ())[1] == "WaitingForQuota"
            assert shown(world) == one("NoReservation", "WaitingForQuota")
            await world.client.delete(JOBS, "waits", "default", propagation="Background")
            await world.advance(1)
            assert shown(world) == NOTHING

    run_virtual(main)


def test_counts_go_with_their_queue() -> None:
    async def main() -> None:
        async with World(GRANULAR) as world:
            await fill(world, flavor(), cluster_queue(cpu="1"), local_queue(), job("large", cpu="2"))
            assert shown(world) == one("NoReservation", "ExceedsMaxQuota")
            await world.client.delete(LOCAL_QUEUES, "lq", "default")
            await world.advance(1)
            assert shown(world) == NOTHING
            await fill(world, local_queue())
            assert sum(shown(world)[0].values()) == 1

    run_virtual(main)


def test_what_nobody_looked_at_counts_too() -> None:
    """ISC-89: without explicit status there is no condition yet."""

    async def main() -> None:
        async with World(GRANULAR) as world:
            await fill(world, flavor(), cluster_queue(cpu="1", queueingStrategy="StrictFIFO"), local_queue())
            await fill(world, job("first", cpu="2"))
            await world.advance(1)
            await fill(world, job("second", cpu="1"))
            assert condition(await world.workload_of("second"), "QuotaReserved") is None
            by_queue, _ = shown(world)
            assert by_queue == {
                ("cq", "NoReservation", "ExceedsMaxQuota"): 1,
                ("cq", "NoReservation", "PendingEvaluation"): 1,
            }

    run_virtual(main)


def test_without_the_gate_nothing_is_counted() -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(cpu="1"), local_queue(), job("large", cpu="2"))
            assert shown(world) == NOTHING

    run_virtual(main)
