"""Manager quota automation: the rules, and a fleet whose manager follows its workers."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from corral.core import conditions
from corral.core.meta import Obj, spec_of
from corral.decide.dispatch.quota import CONDITION, automated
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, MULTI_KUEUE_CONFIGS
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet

AUTOMATED: Obj = {"spec": {"quotaManagement": "Automated"}}


def queue(*flavors: dict[str, str], covered: str = "") -> Obj:
    entries = [
        {
            "name": f"f{position}",
            "resources": [{"name": n, "nominalQuota": q, "borrowingLimit": "1"} for n, q in quota.items()],
        }
        for position, quota in enumerate(flavors)
    ]
    names = covered.split() or list(flavors[0])
    return {"spec": {"resourceGroups": [{"coveredResources": names, "flavors": entries}], "cohortName": "c"}}


def quota_of(spec: Obj | None) -> dict[str, Any]:
    (group,) = (spec or {})["resourceGroups"]
    (flavor,) = group["flavors"]
    assert all(set(entry) == {"name", "nominalQuota"} for entry in flavor["resources"])
    return {entry["name"]: entry["nominalQuota"] for entry in flavor["resources"]}


@pytest.mark.parametrize(
    ("workers", "wanted"),
    [
        ([queue({"cpu": "3"}), queue({"cpu": "500m"})], {"cpu": "3500m", "memory": "0"}),
        ([queue({"cpu": "3"}, {"cpu": "4"}, covered="cpu")], {"cpu": "7", "memory": "0"}),
        ([queue({"cpu": "1", "memory": "1Gi"}), queue({"memory": "1Gi"})], {"cpu": "1", "memory": "2Gi"}),
        ([], {"cpu": "0", "memory": "0"}),
    ],
    ids=[
        "queues of workers add up",
        "flavors of one queue add up",
        "each resource by itself",
        "no worker has anything",
    ],
)
def test_the_quota_is_what_workers_have_together(workers: list[Obj], wanted: dict[str, str]) -> None:
    verdict = automated(queue({"cpu": "9", "memory": "9Gi"}), AUTOMATED, workers)
    assert (verdict.ok, verdict.reason) == (True, "QuotaAutomated")
    assert quota_of(verdict.spec) == wanted
    assert (verdict.spec or {})["cohortName"] == "c"


@pytest.mark.parametrize(
    ("manager", "config", "workers", "reason", "message"),
    [
        (queue({"cpu": "1"}), None, [], "UnsupportedConfiguration", "The referenced MultiKueueConfig was not found."),
        (queue({"cpu": "1"}), {"spec": {}}, [], "NotRequested", "MultiKueue manager quota automation has not been requested."),
        (queue({"cpu": "1"}, {"cpu": "1"}), AUTOMATED, [], "UnsupportedConfiguration", "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor"),
        (queue({"cpu": "1"}), AUTOMATED, [queue({"memory": "1", "gpu": "1", "cpu": "1"})], "UnsupportedConfiguration", "manager-side coveredResources is missing resources configured on workers: [gpu memory]"),
    ],
    ids=["no config", "not asked for", "two flavors", "resources the manager does not cover"],
)  # fmt: skip
def test_what_cannot_be_automated_is_told(
    manager: Obj, config: Obj | None, workers: list[Obj], reason: str, message: str
) -> None:
    verdict = automated(manager, config, workers)
    assert (verdict.ok, verdict.reason, verdict.message, verdict.spec) == (False, reason, message, None)


def test_the_manager_follows_its_workers() -> None:
    async def main() -> None:
        gate = {"featureGates": {"MultiKueueManagerQuotaAutomation": True}}
        async with SimulatedFleet(configuration=gate) as fleet:
            await fleet.introduce()
            await fleet.set_up_queues(manager_cpu="1", worker_cpu="8")
            client = fleet.manager.client

            async def quota() -> str:
                await asyncio.sleep(2)
                found = await client.get(CLUSTER_QUEUES, "cluster-queue")
                return str(quota_of(spec_of(found))["cpu"])

            assert await quota() == "1"
            held = await client.get(CLUSTER_QUEUES, "cluster-queue")
            assert (conditions.find(held, CONDITION) or {})["reason"] == "NotRequested"
            await client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", {"spec": {"quotaManagement": "Automated"}})
            assert await quota() == "16"
            worker = fleet.workers["worker1"].client
            groups = copy.deepcopy(spec_of(await worker.get(CLUSTER_QUEUES, "cluster-queue"))["resourceGroups"])
            groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "20"
            await worker.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"resourceGroups": groups}})
            assert await quota() == "28"
            await worker.delete(LOCAL_QUEUES, "user-queue", "default")
            assert await quota() == "8"
            held = await client.get(CLUSTER_QUEUES, "cluster-queue")
            assert conditions.is_true(held, CONDITION)
            assert conditions.is_true(held, "Active")

    run_virtual(main)
