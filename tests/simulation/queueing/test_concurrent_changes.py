"""Workloads that somebody else changes while the scheduler writes to them."""

from __future__ import annotations

from typing import Any

import pytest

from corral.configuration.queueing import QueueingConfig
from corral.core import conditions
from corral.core.errors import Conflict
from corral.core.meta import Obj, labels_of, name_of, namespace_of
from corral.core.resource import Resource
from corral.kinds.kueue import WORKLOAD_PRIORITY_CLASSES as PRIORITIES
from corral.kinds.kueue import WORKLOADS, names
from corral.kinds.kueue.gates import FeatureGates
from corral.runtime.virtual import run_virtual
from corral.workload import workload as wl

from .world import World, cluster_queue, condition, fill, flavor, job, local_queue

LABEL = {"changed": "meanwhile"}


def interfere(world: World, status: str, kind: str = "QuotaReserved") -> list[str]:
    """Label a Workload right before a condition of it is written for the first time; returns who was hit."""
    hit: list[str] = []

    def watched(write: Any) -> Any:
        async def call(resource: Resource, obj: Obj, **options: Any) -> Obj:
            found = conditions.find(obj, kind) if resource == WORKLOADS else None
            if found is not None and found["status"] == status and name_of(obj) not in hit:
                hit.append(name_of(obj))
                patch = {"metadata": {"labels": LABEL}}
                await world.client.patch(WORKLOADS, name_of(obj), namespace_of(obj), patch)
                with pytest.raises(Conflict):
                    await write(resource, obj, **options)
                raise Conflict("the workload changed")
            result: Obj = await write(resource, obj, **options)
            return result

        return call

    for verb in ("update", "apply"):
        setattr(world.client, verb, watched(getattr(world.client, verb)))
    return hit


@pytest.mark.parametrize(
    "merge_patch", [pytest.param(False, id="apply"), pytest.param(True, id="PRE-37 preempt lowest priority")]
)
def test_a_victim_that_changes_meanwhile_is_evicted_all_the_same(merge_patch: bool) -> None:
    async def main() -> None:
        config = QueueingConfig(gates=FeatureGates({"WorkloadRequestUseMergePatch": merge_patch}))
        async with World(config) as world:
            within = {"preemption": {"withinClusterQueue": "LowerPriority"}}
            await fill(world, flavor(), cluster_queue(cpu="4", **within), local_queue())
            for name, value in (("low", -10), ("high", 10)):
                await world.client.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
            low, high = ({names.PRIORITY_CLASS: name} for name in ("low", "high"))
            await fill(world, job("first", cpu="2"))
            await fill(world, job("victim", cpu="2", labels=low))
            hit = interfere(world, "True", "Evicted")
            await fill(world, job("urgent", cpu="2", labels=high))
            await world.advance(2)
            victim = await world.workload_of("victim")
            assert hit == [name_of(victim)]
            assert labels_of(victim)["changed"] == "meanwhile"
            assert (condition(victim, "Preempted") or ("",) * 3)[1] == "InClusterQueue"
            suspended = {name: (await world.job(name))["spec"]["suspend"] for name in ("first", "victim", "urgent")}
            assert suspended == {"first": False, "victim": True, "urgent": False}

    run_virtual(main)


@pytest.mark.parametrize(
    ("merge_patch", "cpu", "status"),
    [
        pytest.param(False, "2", "True", id="admit"),
        pytest.param(True, "2", "True", id="SCH-104 use patch in admit"),
        pytest.param(False, "9", "False", id="requeue"),
        pytest.param(True, "9", "False", id="SCH-105 use patch in requeueAndUpdate"),
    ],
)
def test_a_change_in_between_is_neither_lost_nor_in_the_way(merge_patch: bool, cpu: str, status: str) -> None:
    async def main() -> None:
        config = QueueingConfig(gates=FeatureGates({"WorkloadRequestUseMergePatch": merge_patch}))
        async with World(config) as world:
            await fill(world, flavor(), cluster_queue(cpu="4"), local_queue())
            hit = interfere(world, status)
            await fill(world, job(cpu=cpu))
            await world.advance(2)
            workload = await world.workload_of("sample")
            assert hit == [name_of(workload)]
            assert labels_of(workload)["changed"] == "meanwhile"
            found = condition(workload, "QuotaReserved")
            assert found is not None
            assert found[0] == status
            assert wl.is_admitted(workload) is (status == "True")
            assert (await world.job("sample"))["spec"]["suspend"] is (status == "False")

    run_virtual(main)
