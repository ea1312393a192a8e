"""Preemption through the real API and controllers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from laboratory import (
    RECLAIM_ANY,
    Lab,
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
from tests.simulation.queueing.world import job

from corral.core.errors import InternalError
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import WORKLOADS, names
from corral.workload import workload as wl

WITHIN = {"preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority"}}
SEARCH = {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}}


async def uid(world: Lab, name: str) -> str:
    return str((await world.get(name))["metadata"]["uid"])


def preempted(uid: str, job: str, why: str, paths: tuple[str, str]) -> str:
    return (
        f"Preempted to accommodate a workload (UID: {uid}, JobUID: {job}) due to {why}; "
        f"preemptor path: {paths[0]}; preemptee path: {paths[1]}"
    )


def break_status_writes(world: Lab, fail: Callable[[Obj], None]) -> Callable[[], None]:
    """Ask `fail` before every write of a Workload's status, until the returned function is called."""
    client = world.client
    update, apply = client.update, client.apply

    def guarded(write: Callable[..., Awaitable[Obj]]) -> Callable[..., Awaitable[Obj]]:
        async def guard(resource: Resource, obj: Obj, **options: Any) -> Obj:
            if resource == WORKLOADS and options.get("subresource") == "status":
                fail(obj)
            return await write(resource, obj, **options)

        return guard

    def repair() -> None:
        client.update, client.apply = update, apply  # type: ignore[method-assign]

    client.update, client.apply = guarded(update), guarded(apply)  # type: ignore[method-assign,assignment]
    return repair


IN_QUEUE = "prioritization in the ClusterQueue"
RECLAMATION = "reclamation within the cohort"


@lab()
async def test_failed_preemptions_are_retried(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="4"), **WITHIN))
    await world.submit(workload("low", "q", cpu="3"))
    attempts = 0

    def fail(obj: Obj) -> None:
        nonlocal attempts
        if wl.is_evicted(obj) and wl.has_quota(obj):
            attempts += 1
            raise InternalError("the API server is not well")

    repair = break_status_writes(world, fail)
    await world.submit(workload("high", "q", cpu="3", priority=10))
    assert attempts >= 1
    assert await world.reserved() == {"low": "q"}
    assert "failed, will retry" in await world.why("high")
    repair()
    await world.advance(5)
    assert await world.leaving() == ["low"]
    await world.release("low")
    assert await world.reserved() == {"high": "q"}
    assert await world.waiting() == ["low"]


@lab()
async def test_the_job_of_the_preemptor_is_named_if_known(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="4"), **WITHIN))
    await world.submit(workload("low", "q", cpu="4"))
    await world.make(priority_class("high", 10))
    await world.make(job("high", queue="q", cpu="4", labels={names.PRIORITY_CLASS: "high"}))
    preemptor, owner = await world.workload_of("high"), await world.job("high")
    text = preempted(preemptor["metadata"]["uid"], owner["metadata"]["uid"], IN_QUEUE, ("/q", "/q"))
    assert condition(await world.get("low"), "Preempted") == ("True", "InClusterQueue", text)


async def two_queues(world: Lab) -> None:
    both = {"cohortName": "all", "preemption": {**RECLAIM_ANY["preemption"]}}
    await world.make(flavor())
    await world.make(*queue("alpha", quota(cpu="3"), **both), *queue("beta", quota(cpu="3"), **both))


@lab()
async def test_borrowers_make_room_for_a_queue_below_its_nominal_quota(world: Lab) -> None:
    """The preemptor fits nominal quota once its own queue and the borrower gave way."""
    policy = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    both = {"cohortName": "all", "preemption": policy}
    await world.make(flavor(), *queue("alpha", quota(cpu="2"), **both), *queue("beta", quota(cpu="4"), **both))
    await world.submit(
        workload("alpha-low", "alpha", cpu="1"),
        workload("beta-mid", "beta", cpu="1", priority=5),
        workload("beta-high", "beta", cpu="4", priority=10),
    )
    await world.submit(workload("alpha-mid", "alpha", cpu="2", priority=5))
    assert await world.leaving() == ["alpha-low", "beta-mid"]
    await world.release()
    assert await world.reserved() == {"alpha-mid": "alpha", "beta-high": "beta"}
    owner = await uid(world, "alpha-mid")
    in_queue = preempted(owner, "UNKNOWN", IN_QUEUE, ("/all/alpha", "/all/alpha"))
    assert condition(await world.get("alpha-low"), "Preempted") == ("True", "InClusterQueue", in_queue)
    for reason in ("InClusterQueue", "InCohortReclamation"):
        assert world.metric("kueue_preempted_workloads_total", reason=reason) == {("alpha",): 1}
    await world.finish("alpha-mid")
    assert await world.counts() == {"alpha": 1, "beta": 2}
    held = condition(await world.get("alpha-low"), "Preempted")
    assert held == ("False", "QuotaReserved", f"Previously: {in_queue}")
    text = preempted(owner, "UNKNOWN", RECLAMATION, ("/all/alpha", "/all/beta"))
    held = condition(await world.get("beta-mid"), "Preempted")
    assert held == ("False", "QuotaReserved", f"Previously: {text}")


@lab()
async def test_nobody_is_preempted_for_a_queue_that_would_borrow(world: Lab) -> None:
    await two_queues(world)
    await world.submit(
        workload("alpha-1", "alpha", cpu="2", priority=10),
        workload("beta-low", "beta", cpu="4"),
        workload("alpha-2", "alpha", cpu="2", priority=10),
    )
    assert await world.reserved() == {"alpha-1": "alpha", "beta-low": "beta"}
    assert await world.leaving() == []


@lab()
async def test_strict_queues_reclaim_although_others_wait(world: Lab) -> None:
    both = {"cohortName": "all", "queueingStrategy": "StrictFIFO", **RECLAIM_ANY}
    await world.make(flavor(), *queue("alpha", quota(cpu="2"), **both), *queue("beta", quota(cpu="2"), **both))
    await world.submit(
        workload("use-all", "alpha", cpu="4", priority=1),
        workload("pending", "alpha", cpu="1"),
        workload("preemptor", "beta", cpu="1", priority=-1),
    )
    assert await world.leaving() == ["use-all"]
    await world.release("use-all")
    assert (await world.reserved())["preemptor"] == "beta"
    assert "use-all" in await world.waiting()


@lab()
async def test_preempting_while_borrowing_from_a_shared_queue(world: Lab) -> None:
    await world.make(flavor("one"), flavor("fallback"))

    def shared(name: str, threshold: int | None) -> list[Any]:
        borrow: Obj = {"policy": "LowerPriority"}
        if threshold is not None:
            borrow["maxPriorityThreshold"] = threshold
        policy = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": borrow}
        offers = (quota("one", cpu=("1", "10")), quota("fallback", cpu=("10", "0")))
        return queue(name, *offers, cohortName="all", preemption=policy, **SEARCH)

    await world.make(*shared("a-standard", 0), *shared("b-standard", 0))
    await world.make(*shared("a-best", None), *shared("b-best", None))
    await world.make(*queue("shared", quota("one", cpu="10"), cohortName="all"))
    await world.submit(
        workload("a-low", "a-best", cpu="5", priority=-1),
        workload("b-low", "b-best", cpu="1", priority=-1),
        workload("b-high", "b-standard", cpu="5", priority=1),
        workload("a-very-high", "a-standard", cpu="7", priority=2),
    )
    assert await world.leaving() == ["a-low"]
    evicted = condition(await world.get("a-low"), "Preempted")
    assert evicted is not None
    assert evicted[1] == "InCohortReclaimWhileBorrowing"
    await world.release("a-low")
    assert await world.flavors("a-very-high") == {"cpu": "one"}
    assert await world.flavors("a-low") == {"cpu": "fallback"}
    assert await world.flavors("b-high") == {"cpu": "one"}
    assert await world.flavors("b-low") == {"cpu": "one"}
    reason = "InCohortReclaimWhileBorrowing"
    assert world.metric("kueue_preempted_workloads_total", reason=reason) == {("a-standard",): 1}


@lab()
async def test_preemption_with_a_lending_limit(world: Lab) -> None:
    reclaim = {"preemption": {"reclaimWithinCohort": "Any"}}
    await world.make(flavor(), *queue("prod", quota(cpu=("5", None, "4")), cohortName="all", **reclaim))
    await world.make(*queue("dev", quota(cpu="5"), cohortName="all"))
    await world.submit(workload("one", "dev", cpu="4"), workload("two", "dev", cpu="5", priority=1))
    assert await world.counts() == {"dev": 2}
    await world.submit(workload("three", "prod", cpu="4"))
    assert await world.leaving() == ["one"]
    await world.release("one")
    assert await world.reserved() == {"two": "dev", "three": "prod"}


@lab(PrioritySortingWithinCohort=False)
async def test_preempting_while_borrowing_without_priority_order(world: Lab) -> None:
    first = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    second = {**first, "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100}}
    await world.make(flavor(), *queue("a", quota(cpu=("0", "10")), cohortName="all", preemption=first, **SEARCH))
    await world.make(*queue("b", quota(cpu=("5", "5")), cohortName="all", preemption=second, **SEARCH))
    await world.make(*queue("c", quota(cpu="5"), cohortName="all"))
    await world.submit(workload("a-low", "a", cpu="5", priority=-10), workload("b-one", "b", cpu="5"))
    assert await world.counts() == {"a": 1, "b": 1}
    await world.submit(workload("b-two", "b", cpu="4", priority=10))
    assert await world.leaving() == ["a-low"]
    await world.release("a-low")
    assert await world.reserved() == {"b-one": "b", "b-two": "b"}
    await world.advance(30)
    assert await world.reserved() == {"b-one": "b", "b-two": "b"}
    assert await world.waiting() == ["a-low"]


@lab()
async def test_a_guaranteed_cohort_gets_its_own_back(world: Lab) -> None:
    await world.make(flavor(), cohort("root"), cohort("guaranteed", quota(cpu="3"), parent="root"))
    await world.make(*queue("best-effort", quota(cpu="0"), cohortName="root", **RECLAIM_ANY))
    await world.make(*queue("guaranteed", quota(cpu="0"), cohortName="guaranteed", **RECLAIM_ANY))
    await world.submit(workload("first", "best-effort", cpu="3", priority=10))
    assert await world.counts() == {"best-effort": 1}
    await world.submit(workload("second", "guaranteed", cpu="3", priority=5))
    assert await world.leaving() == ["first"]
    await world.release("first")
    assert await world.reserved() == {"second": "guaranteed"}
    assert await world.waiting() == ["first"]


@lab()
async def test_a_growing_elastic_workload_preempts_and_a_shrinking_one_gives_back(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="2"), **WITHIN))
    elastic = {names.ELASTIC_JOB: "true"}
    await world.submit(
        workload("low", "q", cpu="1", priority=-10, annotations=elastic),
        workload("high", "q", cpu="1", priority=10, annotations=elastic),
    )
    assert await world.counts() == {"q": 2}
    grown = {**elastic, names.WORKLOAD_SLICE_REPLACEMENT_FOR: "default/high"}
    await world.submit(workload("high-2", "q", pod_set(count=2, requests={"cpu": "1"}), annotations=grown))
    assert await world.leaving() == ["low"]
    await world.release("low")
    assert await world.reserved() == {"high-2": "q"}
    assert (condition(await world.get("high"), "Finished") or ())[:2] == ("True", "WorkloadSliceReplaced")
    found = await world.get("high-2")
    pod_sets = [{**entry, "count": 1} for entry in found["spec"]["podSets"]]
    await world.client.update(WORKLOADS, {**found, "spec": {**found["spec"], "podSets": pod_sets}})
    await world.settle()
    assert await world.reserved() == {"high-2": "q", "low": "q"}


@lab(PrioritizePreemptorWorkloads=True)
async def test_nobody_steals_what_a_preemptor_waits_for(world: Lab) -> None:
    borrow = {"borrowWithinCohort": {"policy": "LowerPriority"}}
    any_of = {**RECLAIM_ANY["preemption"], **borrow}
    lower = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority", **borrow}
    await world.make(flavor(), *queue("alpha", quota(cpu="2"), cohortName="all", preemption=any_of))
    for name in ("beta", "gamma"):
        await world.make(*queue(name, quota(cpu="1"), cohortName="all", preemption=lower))
    await world.submit(workload("a", "alpha", cpu="1", priority=5), workload("b", "beta", cpu="3", priority=5))
    await world.submit(workload("c", "gamma", cpu="1"))
    assert await world.waiting() == ["c"]
    await world.submit(workload("preemptor", "alpha", cpu="4", priority=10))
    assert await world.leaving() == ["a", "b"]
    await world.release("b")
    await world.advance(10)
    assert await world.reserved() == {}
    await world.release("a")
    assert await world.reserved() == {"preemptor": "alpha"}
    assert await world.waiting() == ["a", "b", "c"]


@lab(MultiKueueOrchestratedPreemption=True)
async def test_a_gated_head_does_not_hold_up_the_others(world: Lab) -> None:
    lower = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    await world.make(flavor(), *queue("q", quota(cpu="2"), **lower))
    await world.submit(workload("low", "q", cpu="1500m", priority=-10))
    gated = {"preemptionGates": [{"name": "testgate"}]}
    await world.submit(workload("high", "q", cpu="1", priority=10, spec=gated))
    await world.advance(10)
    assert await world.reserved() == {"low": "q"}
    assert (condition(await world.get("high"), "BlockedOnPreemptionGates") or ())[0] == "True"
    await world.submit(workload("small", "q", cpu="500m", priority=-10))
    assert await world.reserved() == {"low": "q", "small": "q"}
