"""Scheduling through the real API and controllers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from laboratory import (
    Lab,
    Made,
    cohort,
    condition,
    flavor,
    lab,
    pod_set,
    priority_class,
    queue,
    quota,
    workload,
)

from corral.configuration.queueing import QueueingConfig
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.decide.queueing.model.settings import AdmissionFairSharing, Transformation
from corral.kinds.kueue import CLUSTER_QUEUES, COHORTS, TOPOLOGIES, WORKLOADS, names

LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
LOWER = {"preemption": {"withinClusterQueue": "LowerPriority"}}


async def reserved_in(world: Lab, name: str = "q") -> dict[str, str]:
    """What a ClusterQueue says is reserved of its one flavor."""
    await world.counted()
    found = await world.client.get(CLUSTER_QUEUES, name)
    (entry,) = found["status"]["flavorsReservation"]
    return {resource["name"]: resource["total"] for resource in entry["resources"]}


async def pending_in(world: Lab, name: str = "q") -> int:
    await world.counted()
    return int((await world.client.get(CLUSTER_QUEUES, name))["status"]["pendingWorkloads"])


# Priorities, reclaim, borrowing


@lab(PriorityBoost=True)
async def test_a_boost_lets_a_waiting_workload_preempt(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="3"), **LOWER))
    await world.submit(
        workload("mid-1", "q", cpu="2", priority=10),
        workload("mid-2", "q", cpu="2", priority=10),
        workload("low", "q", cpu="2"),
    )
    assert await world.reserved() == {"mid-1": "q"}
    boost = {"metadata": {"annotations": {names.PRIORITY_BOOST: "100"}}}
    await world.client.patch(WORKLOADS, "low", "default", boost)
    await world.settle()
    assert await world.leaving() == ["mid-1"]
    await world.release("mid-1")
    assert await world.reserved() == {"low": "q"}
    assert "mid-2" in await world.waiting()


@lab()
async def test_reclaimed_pods_are_not_counted_at_admission(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="5")))
    await world.submit(workload("x", "q", pod_set(count=2, requests={"cpu": "3"})))
    assert await world.reserved() == {}
    assert await pending_in(world) == 1
    await world.write(
        "x",
        lambda found, now: {**found, "status": {**found["status"], "reclaimablePods": [{"name": "main", "count": 1}]}},
    )
    await world.settle()
    assert await world.reserved() == {"x": "q"}
    (assigned,) = (await world.get("x"))["status"]["admission"]["podSetAssignments"]
    assert assigned["count"] == 1
    assert await reserved_in(world) == {"cpu": "3"}


@lab()
async def test_zero_of_an_unknown_resource_does_not_stop_borrowing_from_the_cohort(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="0"), cohortName="c"), cohort("c", quota(cpu="10")))
    await world.submit(workload("x", "q", cpu="5", more={"example.com/gpu": "0"}))
    assert await world.reserved() == {"x": "q"}
    assert await world.flavors("x") == {"cpu": "default"}
    assert await world.usage("x") == [{"cpu": "5"}]


@lab()
async def test_a_raised_lending_limit_lets_others_borrow(world: Lab) -> None:
    await world.make(flavor())
    for name in ("prod", "dev"):
        await world.make(*queue(name, quota(cpu=("5", None, "0")), cohortName="all"))
    await world.submit(workload("one", "prod", cpu="5"), workload("two", "prod", cpu="5"))
    assert await world.reserved() == {"one": "prod"}
    assert await pending_in(world, "prod") == 1
    generous = [{"coveredResources": ["cpu"], "flavors": [quota(cpu=("5", None, "5"))]}]
    await world.edit(CLUSTER_QUEUES, "dev", {"resourceGroups": generous})
    assert await world.counts() == {"prod": 2}
    assert await pending_in(world, "prod") == 0


@lab()
async def test_a_strict_head_blocks_its_own_quota_only(world: Lab) -> None:
    await world.make(flavor())
    await world.make(*queue("strict", quota(cpu=("5", "0")), cohortName="all", queueingStrategy="StrictFIFO"))
    await world.make(*queue("team", quota(cpu="5"), cohortName="all"))
    await world.make(*queue("shared", quota(cpu="5"), cohortName="all"))
    await world.submit(workload("runs-1", "strict", cpu="3", priority=10), workload("runs-2", "team", cpu="5"))
    assert len(await world.reserved()) == 2
    await world.edit(CLUSTER_QUEUES, "team", {"stopPolicy": "Hold"})
    await world.submit(
        workload("head", "strict", cpu="3", priority=99),
        workload("borrows", "team", cpu="5", priority=11),
        workload("blocked", "team", cpu="1", priority=10),
    )
    await world.edit(CLUSTER_QUEUES, "team", {"stopPolicy": "None"})
    assert await world.reserved() == {"runs-1": "strict", "runs-2": "team", "borrows": "team"}
    assert await world.waiting() == ["blocked", "head"]


@lab()
async def test_a_strict_queue_counts_all_that_wait_behind_its_head(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="5"), queueingStrategy="StrictFIFO"))
    await world.submit(workload("one", "q", cpu="2", priority=100), workload("two", "q", cpu="5", priority=10))
    assert await world.reserved() == {"one": "q"}
    assert await pending_in(world) == 1
    assert world.metric("kueue_pending_workloads", cluster_queue="q", status="active") == {(): 1}
    await world.submit(workload("three", "q", cpu="1", priority=1))
    assert await world.reserved() == {"one": "q"}
    assert await pending_in(world) == 2
    assert world.metric("kueue_pending_workloads", cluster_queue="q", status="active") == {(): 2}
    await world.finish("one")
    assert await world.reserved() == {"two": "q"}
    assert await pending_in(world) == 1
    await world.finish("two")
    await world.finish("three")
    assert await pending_in(world) == 0
    assert world.metric("kueue_reserving_active_workloads", cluster_queue="q") == {(): 0}


@lab()
async def test_a_cohort_that_may_not_borrow_lends_all_the_same(world: Lab) -> None:
    await world.make(flavor(), cohort("root", quota(cpu="0")))
    await world.make(cohort("research", quota(cpu=("0", "0")), parent="root"))
    await world.make(cohort("production", quota(cpu="0"), parent="root"))
    for name in ("research", "production"):
        await world.make(*queue(name, quota(cpu="1"), cohortName=name))
    for index in range(3):
        await world.submit(workload(f"p-{index}", "production", cpu="500m"))
    assert await world.counts() == {"production": 3}
    await world.finish("p-0", "p-1", "p-2")
    for index in range(3):
        await world.submit(workload(f"r-{index}", "research", cpu="500m"))
    assert await world.counts() == {"research": 2}
    assert await pending_in(world, "research") == 1


@lab()
async def test_a_queue_at_the_root_borrows_what_isolated_cohorts_leave(world: Lab) -> None:
    await world.make(flavor(), cohort("root", quota(cpu="0")))
    for name in ("a", "b"):
        await world.make(cohort(name, quota(cpu=("0", "0")), parent="root"))
        await world.make(*queue(name, quota(cpu="1"), cohortName=name))
    await world.make(*queue("burst", quota(cpu="0"), cohortName="root"))
    for index in range(3):
        await world.submit(workload(f"a-{index}", "a", cpu="500m"))
    assert await world.counts() == {"a": 2}
    for index in range(2):
        await world.submit(workload(f"burst-{index}", "burst", cpu="500m"))
    assert await world.counts() == {"a": 2, "burst": 2}
    assert await world.waiting() == ["a-2"]


@lab()
async def test_a_slice_counts_unchanged_pod_sets_once(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="10")))

    def sized(coordinators: int) -> list[Obj]:
        return [
            pod_set("worker", 2, requests={"cpu": "1"}),
            pod_set("coordinator", coordinators, requests={"cpu": "2"}),
        ]

    elastic = {names.ELASTIC_JOB: "true"}
    await world.submit(workload("first", "q", *sized(1), annotations=elastic))
    assert await reserved_in(world) == {"cpu": "4"}
    grown = {**elastic, names.WORKLOAD_SLICE_REPLACEMENT_FOR: "default/first"}
    await world.submit(workload("second", "q", *sized(3), annotations=grown))
    assert await world.reserved() == {"second": "q"}
    assert await reserved_in(world) == {"cpu": "8"}
    await world.submit(workload("fits", "q", cpu="2"), workload("waits", "q", cpu="2"))
    assert await reserved_in(world) == {"cpu": "10"}
    assert await world.waiting() == ["waits"]


@lab()
async def test_a_preemption_decided_while_the_admission_is_being_written(world: Lab) -> None:
    """The write of an admission is held up; its workload is chosen as a victim meanwhile. Nobody waits for ever."""
    await world.make(flavor(), *queue("q", quota(cpu="1"), **LOWER))
    held, client, apply, update = asyncio.Event(), world.client, world.client.apply, world.client.update

    def slow(write: Any) -> Any:
        async def later(resource: Resource, obj: Obj, **options: Any) -> Obj:
            mine = resource == WORKLOADS and obj["metadata"]["name"] == "low" and options.get("subresource") == "status"
            found = condition(obj, "QuotaReserved")
            if mine and found is not None and found[0] == "True" and condition(obj, "Evicted") is None:
                await held.wait()
            result: Obj = await write(resource, obj, **options)
            return result

        return later

    client.apply, client.update = slow(apply), slow(update)  # type: ignore[method-assign]
    await client.create(*workload("low", "q", cpu="1", priority=-10))
    await asyncio.sleep(1)
    await client.create(*workload("high", "q", cpu="1", priority=10))
    await asyncio.sleep(1)
    assert await world.reserved() == {}
    held.set()
    await asyncio.sleep(1)
    await world.settle()
    assert await world.leaving() == ["low"]
    await world.release("low")
    assert await world.reserved() == {"high": "q"}
    assert await world.waiting() == ["low"]


@lab()
async def test_gated_workloads_wait_until_the_gate_is_gone(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="5")))
    gate = {names.ADMISSION_GATED_BY: "example.com/controller1"}
    await world.submit(workload("x", "q", cpu="1", annotations=gate))
    assert "admission" not in (await world.get("x"))["status"]
    held = condition(await world.get("x"), "QuotaReserved")
    assert held == ("False", "AdmissionGated", "Admission is gated by: example.com/controller1")
    assert condition(await world.get("x"), "Admitted") is None
    await world.client.patch(WORKLOADS, "x", "default", {"metadata": {"annotations": {names.ADMISSION_GATED_BY: None}}})
    await world.settle()
    assert (condition(await world.get("x"), "Admitted") or ())[0] == "True"
    reasons = [reason for reason, _ in await world.events_of("x")]
    assert reasons.count("AdmissionGated") == 1
    assert reasons.count("AdmissionGateCleared") == 1


# Limit ranges, runtime classes, resources of whole pods


def limits(kind: str = "Container", name: str = "limits", **entry: str) -> Made:
    """A LimitRange for cpu."""
    spec = {"limits": [{"type": kind, **{field: {"cpu": amount} for field, amount in entry.items()}}]}
    return LIMIT_RANGES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def of_pods(requests: str = "", limit: str = "", inner: str = "") -> Obj:
    """A pod set whose pods declare resources as a whole."""
    whole = {field: {"cpu": amount} for field, amount in (("requests", requests), ("limits", limit)) if amount}
    own = {"cpu": inner} if inner else {}
    return pod_set(requests=own, limits=own, resources=whole)


REFUSED = "resources didn't satisfy LimitRange constraints:"


@pytest.mark.parametrize(
    ("ranges", "pods", "why"),
    [
        pytest.param(
            [limits(min="3")], pod_set(requests={"cpu": "2"}), REFUSED, id="ISC-45 below the container's minimum"
        ),
        pytest.param(
            [limits(min="1", max="3")], pod_set(requests={"cpu": "2"}, limits={"cpu": "3"}), "", id="ISC-46 valid"
        ),
        pytest.param(
            [], of_pods("3", "2", "1"), "resources validation failed:", id="ISC-47 above the pod's own limits"
        ),
        pytest.param([limits("Pod", max="1")], of_pods("2", "3", "500m"), REFUSED, id="ISC-48 above the pod's maximum"),
        pytest.param([limits("Pod", min="3")], of_pods("2", "3", "500m"), REFUSED, id="ISC-49 below the pod's minimum"),
        pytest.param(
            [limits("Pod", min="1", max="4")], of_pods("2", "3", "500m"), "", id="ISC-50 pod within its range"
        ),
    ],
)
def test_limits_of_a_namespace(ranges: list[Made], pods: Obj, why: str) -> None:
    @lab()
    async def scenario(world: Lab) -> None:
        await world.make(flavor(), *queue("q", quota(cpu="5")), *ranges)
        await world.submit(workload("x", "q", pods))
        if why:
            assert await world.reserved() == {}
            assert why in await world.why("x")
        else:
            assert await world.reserved() == {"x": "q"}

    scenario()


def kata(cpu: str) -> Made:
    overhead = {"podFixed": {"cpu": cpu}}
    return RUNTIME_CLASSES, {"metadata": {"name": "kata"}, "handler": "kata", "overhead": overhead}


def in_kata(cpu: str) -> Obj:
    return pod_set(requests={"cpu": cpu}, runtimeClassName="kata")


@lab()
async def test_an_unknown_runtime_class_adds_nothing(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="5")))
    await world.submit(workload("x", "q", in_kata("1")))
    assert await reserved_in(world) == {"cpu": "1"}


@lab()
async def test_a_changed_runtime_class_counts_for_those_who_wait(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="5")), kata("2"))
    await world.submit(workload("one", "q", in_kata("1")), workload("two", "q", in_kata("1")))
    assert await world.reserved() == {"one": "q"}
    await world.client.patch(RUNTIME_CLASSES, "kata", "", {"overhead": {"podFixed": {"cpu": "1"}}})
    await world.settle()
    assert await world.counts() == {"q": 2}
    assert await reserved_in(world) == {"cpu": "5"}


@lab()
async def test_defaults_of_a_limit_range_count_where_nothing_is_asked_for(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="5")), limits(defaultRequest="3", default="4"))
    await world.submit(workload("x", "q", pod_set()))
    assert await reserved_in(world) == {"cpu": "3"}
    assert (await world.get("x"))["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] == {}


@lab()
async def test_defaults_of_a_limit_range_do_not_count_where_something_is_asked_for(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="5")), limits(defaultRequest="3", default="4"))
    await world.submit(workload("x", "q", cpu="1"))
    assert await reserved_in(world) == {"cpu": "1"}


@lab()
async def test_limits_of_whole_pods_stand_in_for_their_requests(world: Lab) -> None:
    both = queue("q", quota(cpu="5"))
    await world.make(flavor(), both[0])
    await world.submit(workload("x", "q", of_pods(limit="2")))
    assert await world.reserved() == {}
    before = (await world.get("x"))["spec"]
    await world.make(both[1])
    assert await reserved_in(world) == {"cpu": "2"}
    assert (await world.get("x"))["spec"] == before


@lab()
async def test_a_changed_limit_range_counts_for_those_who_wait(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="5")), limits(defaultRequest="3", default="3"))
    await world.submit(workload("one", "q", pod_set()), workload("two", "q", pod_set()))
    assert await world.reserved() == {"one": "q"}
    spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "3"}}]}
    await world.edit(LIMIT_RANGES, "limits", spec, "default")
    assert await world.counts() == {"q": 2}
    assert await reserved_in(world) == {"cpu": "5"}


@lab()
async def test_limits_of_whole_pods_go_before_defaults_of_containers(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="5")), limits(defaultRequest="1", default="1"))
    await world.submit(workload("one", "q", of_pods(limit="4")), workload("two", "q", of_pods(limit="4")))
    assert await world.reserved() == {"one": "q"}
    assert await pending_in(world) == 1
    assert await reserved_in(world) == {"cpu": "4"}
    spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "500m"}, "default": {"cpu": "1"}}]}
    await world.edit(LIMIT_RANGES, "limits", spec, "default")
    assert await world.reserved() == {"one": "q"}


@pytest.mark.parametrize(
    "cpu", [pytest.param("1", id="ISC-81 admissible"), pytest.param("7", id="ISC-82 not admissible")]
)
def test_a_workload_deleted_while_its_limits_change_leaves_nothing(cpu: str) -> None:
    @lab()
    async def scenario(world: Lab) -> None:
        await world.make(flavor(), *queue("q", quota(cpu="5")), limits(defaultRequest="3", default="3"))
        await world.client.create(*workload("x", "q", cpu=cpu))
        spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "2"}}]}
        await world.client.patch(LIMIT_RANGES, "limits", "default", {"spec": spec})
        await world.client.delete(WORKLOADS, "x", "default")
        assert await reserved_in(world) == {"cpu": "0"}
        assert await pending_in(world) == 0
        assert (await world.client.get(CLUSTER_QUEUES, "q"))["status"]["reservingWorkloads"] == 0

    scenario()


# Reasons


@pytest.mark.parametrize(
    ("nominal", "first", "reason"),
    [
        pytest.param("15", "10", "WaitingForQuota", id="ISC-86 one flavor is full, the other tainted"),
        pytest.param("5", "", "ExceedsMaxQuota", id="ISC-87 one flavor is too small, the other tainted"),
    ],
)
def test_reasons_over_several_flavors(nominal: str, first: str, reason: str) -> None:
    @lab(UnadmittedWorkloadsObservability=True)
    async def scenario(world: Lab) -> None:
        taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
        await world.make(flavor("spot", nodeTaints=[taint]), flavor("on-demand"))
        await world.make(*queue("q", quota("spot", cpu="20"), quota("on-demand", cpu=nominal)))
        if first:
            await world.submit(workload("first", "q", cpu=first))
            assert await world.flavors("first") == {"cpu": "on-demand"}
        await world.submit(workload("x", "q", cpu="10"))
        held = condition(await world.get("x"), "QuotaReserved")
        assert held is not None
        assert held[:2] == ("False", reason)

    scenario()


# Work for nothing


def attempts(world: Lab) -> float:
    return sum(world.metric("kueue_admission_attempts_total", result="inadmissible").values())


@pytest.mark.parametrize(
    "kind", [pytest.param("queue", id="ISC-93 a queue"), pytest.param("cohort", id="ISC-94 a cohort")]
)
def test_changes_in_quick_succession_are_tried_together(kind: str) -> None:
    @lab()
    async def scenario(world: Lab) -> None:
        await world.make(flavor(), *queue("q", quota(cpu="1"), cohortName="c"), cohort("c", quota(cpu="0")))
        await world.submit(workload("x", "q", cpu="2"))
        assert 1 <= attempts(world) <= 2
        before = attempts(world)
        resource, name, base = (CLUSTER_QUEUES, "q", 1000) if kind == "queue" else (COHORTS, "c", 0)
        for step in range(1, 11):
            group = {"coveredResources": ["cpu"], "flavors": [quota(cpu=f"{base + step}m")]}
            await world.client.patch(resource, name, "", {"spec": {"resourceGroups": [group]}})
        await world.counted()
        assert 1 <= attempts(world) - before <= 5
        assert await world.reserved() == {}
        assert await pending_in(world) == 1

    scenario()


# Excluded, undeclared and transformed resources

EXCLUDED = QueueingConfig(excluded_prefixes=("example.com/",))


async def two_nodes(world: Lab) -> None:
    for name in ("n1", "n2"):
        amounts = {"cpu": "4", "pods": "10", "example.com/chip": "2"}
        node = {"metadata": {"name": name, "labels": {"group": "t", "kubernetes.io/hostname": name}}}
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
        made = await world.client.create(NODES, node)
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
        await world.client.update(NODES, {**made, "status": status}, subresource="status")
    levels = {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}
    await world.make((TOPOLOGIES, {"metadata": {"name": "hosts"}, "spec": levels}))
    await world.make(flavor(nodeLabels={"group": "t"}, topologyName="hosts"), *queue("q", quota(cpu="10")))


def with_chip(count: int) -> Obj:
    wish = {"preferred": "kubernetes.io/hostname"}
    return pod_set(count=count, requests={"cpu": "100m", "example.com/chip": "1"}, topology=wish)


async def places(world: Lab, name: str) -> dict[str, int]:
    """How many pods of a Workload are to run on which node."""
    (assigned,) = (await world.get(name))["status"]["admission"]["podSetAssignments"]
    found: dict[str, int] = {}
    for part in assigned["topologyAssignment"]["slices"]:
        values = part["valuesPerLevel"][-1]
        individual = values.get("individual") or {}
        prefix, suffix = individual.get("prefix", ""), individual.get("suffix", "")
        hosts = [f"{prefix}{root}{suffix}" for root in individual.get("roots") or ()]
        hosts = hosts or [values["universal"]] * part["domainCount"]
        counts = part["podCounts"]
        each = counts.get("individual") or [counts["universal"]] * len(hosts)
        for host, count in zip(hosts, each, strict=True):
            found[host] = found.get(host, 0) + count
    return found


@lab(EXCLUDED)
async def test_excluded_resources_count_for_placement(world: Lab) -> None:
    await two_nodes(world)
    await world.submit(workload("x", "q", with_chip(4)))
    assert await places(world, "x") == {"n1": 2, "n2": 2}
    assert await world.usage("x") == [{"cpu": "400m"}]


@lab(EXCLUDED)
async def test_excluded_resources_count_for_placement_of_later_workloads(world: Lab) -> None:
    await two_nodes(world)
    total: dict[str, int] = {}
    for index in range(4):
        await world.submit(workload(f"x-{index}", "q", with_chip(1)))
        for host, count in (await places(world, f"x-{index}")).items():
            total[host] = total.get(host, 0) + count
        assert await world.usage(f"x-{index}") == [{"cpu": "100m"}]
    assert total == {"n1": 2, "n2": 2}
    await world.submit(workload("too-many", "q", with_chip(1)))
    assert await world.waiting() == ["too-many"]


IGNORING = QueueingConfig(
    ignore_undeclared=True,
    admission_fair_sharing=AdmissionFairSharing(half_life_s=100.0, sampling_interval_s=10.0, resource_weights={}),
)
MODE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


@lab(IGNORING)
async def test_undeclared_resources_count_neither_for_quota_nor_for_penalties(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="10"), **MODE))
    await world.submit(workload("x", "q", cpu="2", more={"example.com/gpu": "100"}))
    assert await world.usage("x") == [{"cpu": "2"}]
    assert await reserved_in(world) == {"cpu": "2"}
    ledger = world.queueing.state.world.ledger
    history, _ = ledger.consumed("default/q")
    assert set(history) == {"cpu"}


@lab(IGNORING, QuotaCheckStrategy=False)
async def test_undeclared_resources_are_not_ignored_when_the_gate_is_off(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="10")))
    await world.submit(workload("x", "q", cpu="2", more={"example.com/gpu": "100"}))
    assert await world.reserved() == {}
    assert "example.com/gpu" in await world.why("x")


TRANSFORMED = QueueingConfig(
    transformations=(
        Transformation(
            input="nvidia.com/mig-1g.5gb",
            outputs={"example.com/memory": "5120", "example.com/credits": "10"},
            retain=False,
        ),
        Transformation(
            input="nvidia.com/gpucores",
            outputs={"nvidia.com/total-gpucores": "1"},
            retain=False,
            multiply_by="nvidia.com/gpu",
        ),
    )
)


@lab(TRANSFORMED)
async def test_every_pod_set_is_transformed_for_itself(world: Lab) -> None:
    covered = ("example.com/memory", "example.com/credits", "nvidia.com/gpu", "nvidia.com/total-gpucores")
    await world.make(flavor(), *queue("q", quota(more=dict.fromkeys(covered, "100000"))))
    sets = [
        pod_set("one", 1, requests={"nvidia.com/mig-1g.5gb": "2"}),
        pod_set("two", 2, requests={"nvidia.com/gpu": "1", "nvidia.com/gpucores": "10"}),
    ]
    await world.submit(workload("x", "q", *sets))
    assert await world.usage("x") == [
        {"example.com/memory": "10240", "example.com/credits": "20"},
        {"nvidia.com/gpu": "2", "nvidia.com/total-gpucores": "20"},
    ]


CREDITS = QueueingConfig(transformations=(Transformation(input="cpu", outputs={"cpu_credits": "1"}),))


async def three_for_two(world: Lab) -> None:
    """Credits for two workloads, cpu for more."""
    await world.make(flavor("on-demand"), flavor("spot"), flavor("credits"))
    await world.make(priority_class("high", 1000), priority_class("low", 100))
    offers = (quota("on-demand", cpu="9"), quota("spot", cpu="9"), quota("credits", cpu_credits="8"))
    await world.make(*queue("q", *offers, **LOWER))
    reference = {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}}
    for name in ("one", "two", "three"):
        await world.submit(workload(name, "q", cpu="3", priority=1000, spec=reference))
    assert await world.counts() == {"q": 2}
    assert await world.waiting() == ["three"]


@lab(CREDITS)
async def test_credits_come_back_with_the_finished(world: Lab) -> None:
    await three_for_two(world)
    await world.finish("one")
    assert await world.reserved() == {"two": "q", "three": "q"}


@lab(CREDITS)
async def test_credits_come_back_with_the_preempted(world: Lab) -> None:
    await three_for_two(world)
    found = await world.get("one")
    reference = {**found["spec"]["priorityClassRef"], "name": "low"}
    spec = {**found["spec"], "priorityClassRef": reference, "priority": 100}
    await world.client.update(WORKLOADS, {**found, "spec": spec})
    await world.settle()
    assert await world.leaving() == ["one"]
    await world.release("one")
    assert await world.reserved() == {"two": "q", "three": "q"}
