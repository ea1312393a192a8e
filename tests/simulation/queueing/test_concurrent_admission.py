"""Jobs tried on every flavor at once, through the real API and controllers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from corral.configuration.queueing import QueueingConfig
from corral.core import conditions
from corral.core.meta import Obj, name_of, status_of
from corral.kinds.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, WORKLOADS
from corral.kinds.kueue import WORKLOAD_PRIORITY_CLASSES as PRIORITIES
from corral.kinds.kueue.gates import FeatureGates
from corral.runtime.virtual import run_virtual
from corral.workload import workload as wl

from .world import JOBS, World, cluster_queue, condition, fill, flavor, job, local_queue

CONFIG = QueueingConfig(gates=FeatureGates({"ConcurrentAdmission": True}))
FLAVORS = ("reserved", "on-demand", "spot")
ALLOWED = "kueue.x-k8s.io/workload-allowed-resource-flavors"


def policy(mode: str = "TryPreferredFlavors", last: str = "") -> Obj:
    constraints = {"constraints": {"lastAcceptableFlavorName": last}} if last else {}
    return {"concurrentAdmissionPolicy": {"migration": {"mode": mode, **constraints}}}


def run(scenario: Callable[[World], Awaitable[None]], **queue: Any) -> None:
    async def main() -> None:
        async with World(CONFIG) as world:
            for name in FLAVORS:
                await fill(world, flavor(name, nodeLabels={"pool": name}))
            await fill(world, cluster_queue(cpu="2", flavors=FLAVORS, **(queue or policy())), local_queue())
            await scenario(world)

    run_virtual(main)


async def variants_of(world: World, name: str) -> dict[str, Obj]:
    """Variants of a job's workload by flavor, in the order of flavors."""
    parent = await world.workload_of(name)
    found = {
        workload["metadata"]["annotations"][ALLOWED]: workload
        for workload in await world.workloads()
        if any(owner["name"] == name_of(parent) for owner in workload["metadata"].get("ownerReferences") or [])
    }
    return {flavor: found[flavor] for flavor in FLAVORS if flavor in found}


def states(variants: dict[str, Obj]) -> dict[str, str]:
    """How every variant stands: admitted, waiting or off."""
    return {
        flavor: "admitted" if wl.is_admitted(variant) else "waiting" if wl.is_active(variant) else "off"
        for flavor, variant in variants.items()
    }


async def flavor_in_use(world: World, name: str) -> str | None:
    admission = status_of(await world.workload_of(name)).get("admission")
    return admission["podSetAssignments"][0]["flavors"]["cpu"] if admission else None


async def occupy(world: World, flavor: str) -> str:
    """A job that can only run on one flavor takes all of it."""
    name = f"on-{flavor}"
    await fill(world, job(name, cpu="2", pod={"nodeSelector": {"pool": flavor}}))
    assert await flavor_in_use(world, name) == flavor
    return name


def test_a_job_is_tried_on_every_flavor_and_runs_on_the_first_that_has_room() -> None:
    async def scenario(world: World) -> None:
        busy = await occupy(world, "reserved")
        await fill(world, job(cpu="2"))
        await world.advance(2)
        parent = await world.workload_of("sample")
        assert parent["metadata"]["labels"]["kueue.x-k8s.io/concurrent-admission-parent"] == "true"
        variants = await variants_of(world, "sample")
        assert states(variants) == {"reserved": "waiting", "on-demand": "admitted", "spot": "off"}
        assert await flavor_in_use(world, "sample") == "on-demand"
        name = name_of(variants["on-demand"])
        assert condition(parent, "Admitted") == ("True", "Admitted", f"The variant {name} is admitted")
        started = await world.job("sample")
        assert started["spec"]["suspend"] is False
        assert started["spec"]["template"]["spec"]["nodeSelector"]["pool"] == "on-demand"
        queue = await world.client.get(CLUSTER_QUEUES, "cq")
        used = {entry["name"]: entry["resources"][0]["total"] for entry in queue["status"]["flavorsUsage"]}
        assert used == {"reserved": "2", "on-demand": "2", "spot": "0"}, "the parent holds no quota of its own"
        assert [reason for reason, _ in await world.events_of(name_of(parent))].count("CreatedVariant") == 3
        assert await flavor_in_use(world, busy) == "reserved"

    run(scenario)


def test_it_moves_to_a_preferred_flavor_that_comes_free() -> None:
    async def scenario(world: World) -> None:
        busy = await occupy(world, "reserved")
        await fill(world, job(cpu="2"))
        await world.advance(2)
        await world.finish_job(busy)
        await world.advance(5)
        variants = await variants_of(world, "sample")
        assert states(variants) == {"reserved": "admitted", "on-demand": "off", "spot": "off"}
        moved = conditions.find(variants["on-demand"], "Evicted")
        assert moved is not None
        assert (moved["reason"], await flavor_in_use(world, "sample")) == ("FlavorMigration", "reserved")
        evicted = conditions.find(await world.workload_of("sample"), "Evicted")
        assert evicted is not None
        assert (evicted["status"], evicted["message"]) == ("False", "Previously: Admitted variant was evicted")
        started = await world.job("sample")
        assert started["spec"]["suspend"] is False
        assert started["spec"]["template"]["spec"]["nodeSelector"]["pool"] == "reserved"

    run(scenario)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            policy("RetainFirstAdmission"), {"reserved": "off", "on-demand": "off", "spot": "admitted"}, id="retain"
        ),
        pytest.param(
            policy(last="reserved"), {"reserved": "waiting", "on-demand": "off", "spot": "admitted"}, id="last"
        ),
        pytest.param(policy(), {"reserved": "waiting", "on-demand": "waiting", "spot": "admitted"}, id="all"),
    ],
)
def test_who_goes_on_trying_is_the_policy_of_the_queue(spec: Obj, expected: dict[str, str]) -> None:
    async def scenario(world: World) -> None:
        await occupy(world, "reserved")
        await occupy(world, "on-demand")
        await fill(world, job(cpu="2"))
        await world.advance(2)
        assert states(await variants_of(world, "sample")) == expected

    run(scenario, **spec)


def test_variants_go_with_their_parent() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job(cpu="2"))
        await world.advance(2)
        assert len(await variants_of(world, "sample")) == 3
        await world.finish_job("sample")
        await world.advance(2)
        assert all(wl.is_finished(variant) for variant in (await variants_of(world, "sample")).values())
        await fill(world, job("other", cpu="2"))
        await world.advance(2)
        assert await flavor_in_use(world, "other") == "reserved", "a finished variant holds nothing"

    run(scenario)


def test_variants_are_gone_with_a_deleted_job() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job(cpu="2"))
        await world.advance(2)
        assert len(await world.workloads()) == 4
        await world.client.delete(JOBS, "sample", "default", propagation="Background")
        await world.advance(30)
        assert await world.workloads() == []
        queue = await world.client.get(CLUSTER_QUEUES, "cq")
        assert queue["status"]["reservingWorkloads"] == 0

    run(scenario)


def test_checks_are_passed_by_the_variant_before_the_job_starts() -> None:
    async def scenario(world: World) -> None:
        active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
        check = {"metadata": {"name": "check"}, "spec": {"controllerName": "example.com/check"}}
        made = await world.client.create(ADMISSION_CHECKS, check)
        now = world.clock.timestamp()
        status = {"conditions": [{**active, "lastTransitionTime": now}]}
        await world.client.update(ADMISSION_CHECKS, {**made, "status": status}, subresource="status")
        await world.settle()
        await fill(world, job(cpu="2"))
        await world.advance(2)
        variant = (await variants_of(world, "sample"))["reserved"]
        assert (wl.has_quota(variant), wl.is_admitted(variant)) == (True, False)
        parent = await world.workload_of("sample")
        assert (wl.has_quota(parent), status_of(parent).get("admissionChecks") or []) == (False, [])
        ready = {"name": "check", "state": "Ready", "message": "", "lastTransitionTime": now}
        held = {**variant, "status": {**variant["status"], "admissionChecks": [ready]}}
        await world.client.update(WORKLOADS, held, subresource="status")
        await world.advance(2)
        assert wl.is_admitted(await world.workload_of("sample"))
        assert (await world.job("sample"))["spec"]["suspend"] is False

    run(scenario, **policy(), admissionChecksStrategy={"admissionChecks": [{"name": "check"}]})


def test_a_deactivated_parent_switches_its_variants_off_and_on_again() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job(cpu="2"))
        await world.advance(2)
        parent = name_of(await world.workload_of("sample"))
        await world.client.patch(WORKLOADS, parent, "default", {"spec": {"active": False}})
        await world.advance(5)
        assert states(await variants_of(world, "sample")) == dict.fromkeys(FLAVORS, "off")
        assert await flavor_in_use(world, "sample") is None
        assert (await world.job("sample"))["spec"]["suspend"] is True
        await world.client.patch(WORKLOADS, parent, "default", {"spec": {"active": True}})
        await world.advance(5)
        assert await flavor_in_use(world, "sample") == "reserved"
        assert (await world.job("sample"))["spec"]["suspend"] is False

    run(scenario)


def test_flavors_come_and_go() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job(cpu="4"))
        await world.advance(2)
        before = await variants_of(world, "sample")
        assert list(before) == list(FLAVORS)
        queue = await world.client.get(CLUSTER_QUEUES, "cq")
        group = queue["spec"]["resourceGroups"][0]
        kept = [entry for entry in group["flavors"] if entry["name"] != "spot"]
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"resourceGroups": [{**group, "flavors": kept}]}})
        await world.advance(5)
        assert list(await variants_of(world, "sample")) == ["reserved", "on-demand"]

    run(scenario)


def test_one_variant_at_a_time_may_preempt() -> None:
    async def scenario(world: World) -> None:
        for name in FLAVORS:
            await occupy(world, name)
        urgent = {"kueue.x-k8s.io/priority-class": "urgent"}
        await world.client.create(PRIORITIES, {"metadata": {"name": "urgent"}, "value": 100})
        await fill(world, job(cpu="2", labels=urgent))
        await world.advance(20)
        assert await flavor_in_use(world, "sample") == "reserved"
        assert [await flavor_in_use(world, f"on-{name}") for name in FLAVORS] == [None, "on-demand", "spot"]

    run(scenario, **policy(), preemption={"withinClusterQueue": "LowerPriority"})
