"""Fair sharing between queues, and between LocalQueues of one queue, through the real API and controllers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from laboratory import (
    RECLAIM_ANY,
    Lab,
    Made,
    check,
    cohort,
    condition,
    flavor,
    lab,
    local,
    priority_class,
    queue,
    quota,
    weight,
    workload,
)

from corral.configuration.queueing import QueueingConfig
from corral.core.meta import Key, Obj
from corral.core.quantity import Quantity
from corral.decide.queueing.model.settings import FINAL_SHARE, INITIAL_SHARE, AdmissionFairSharing
from corral.kinds.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES

FAIR = QueueingConfig(fair_sharing=(FINAL_SHARE, INITIAL_SHARE))
USAGE = AdmissionFairSharing(half_life_s=10.0, sampling_interval_s=1.0, resource_weights={})
BY_USAGE = replace(FAIR, admission_fair_sharing=USAGE)
MODE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
ANY = {"preemption": {"reclaimWithinCohort": "Any"}}
NEXT = {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}}


def several(prefix: str, to: str, count: int, cpu: str = "1", priority: int = 0) -> list[Made]:
    return [workload(f"{prefix}-{index:02}", to, cpu=cpu, priority=priority) for index in range(count)]


async def share(world: Lab, name: str) -> int:
    return await world.share(CLUSTER_QUEUES, name)


# Preemption


@lab(FAIR)
async def test_shared_quota_is_divided_fairly_by_preemption(world: Lab) -> None:
    await world.make(flavor())
    for name in ("a", "b", "c"):
        await world.make(*queue(name, quota(cpu="3"), cohortName="all", **RECLAIM_ANY))
    await world.submit(*several("a", "a", 10))
    assert await world.counts() == {"a": 9}
    assert (await share(world, "a"), await share(world, "b")) == (667, 0)
    await world.submit(*several("b", "b", 5))
    for _ in range(6):
        await world.release()
    assert await world.counts() == {"a": 5, "b": 4}
    assert (await share(world, "a"), await share(world, "b"), await share(world, "c")) == (223, 112, 0)
    await world.submit(workload("c-00", "c", cpu="1"))
    (leaving,) = await world.leaving()
    assert leaving.startswith("a-"), "the queue with the highest share gives"
    await world.release()
    assert await world.counts() == {"a": 4, "b": 4, "c": 1}
    assert await share(world, "a") == 112
    await world.advance(30)
    assert await world.leaving() == []


async def weightless(world: Lab) -> None:
    await world.make(flavor(), cohort("top", quota(cpu="8")))
    for name in ("a", "b"):
        await world.make(*queue(name, quota(cpu="0"), cohortName="top", **weight("0"), **ANY))


@lab(FAIR)
async def test_queues_without_weight_do_not_preempt_each_other_for_ever(world: Lab) -> None:
    await weightless(world)
    await world.submit(workload("a-1", "a", cpu="4", priority=9001), workload("a-2", "a", cpu="4", priority=100))
    assert await world.counts() == {"a": 2}
    await world.submit(workload("b-1", "b", cpu="4", priority=100))
    assert await world.leaving() == ["a-2"]
    await world.release("a-2")
    assert await world.reserved() == {"a-1": "a", "b-1": "b"}
    for _ in range(20):
        await world.advance(10)
        assert await world.leaving() == []
    assert world.metric("kueue_preempted_workloads_total", reason="InCohortFairSharing") == {("b",): 1}


@lab(FAIR)
async def test_the_share_of_a_borrower_without_weight_is_not_a_number(world: Lab) -> None:
    await weightless(world)
    await world.submit(workload("a-1", "a", cpu="4"))
    await world.counted()
    assert math.isnan(world.metric("kueue_cluster_queue_weighted_share", cluster_queue="a")[("top",)])


@lab(FAIR, PrioritizePreemptorWorkloads=True)
async def test_nobody_steals_what_a_preemptor_waits_for(world: Lab) -> None:
    await world.make(flavor(), cohort("thrash"))
    await world.make(*queue("one", quota(cpu="10", memory="0"), cohortName="thrash", **ANY))
    await world.make(*queue("two", quota(cpu="0", memory="10"), cohortName="thrash", **ANY))
    for name in ("a", "b"):
        await world.submit(workload(name, "two", cpu="1", memory="0", priority=100))
    assert await world.counts() == {"two": 2}
    await world.submit(workload("preemptor", "one", cpu="10", memory="10"))
    assert await world.leaving() == ["a", "b"]
    await world.release("a")
    await world.advance(10)
    assert await world.reserved() == {}
    await world.release("b")
    assert await world.reserved() == {"preemptor": "one"}


@lab(FAIR, RecomputeAssignmentUponPreemptionTargetsOverlap=True)
async def test_recomputing_sticks_to_the_preferred_flavor(world: Lab) -> None:
    await world.make(flavor("one"), flavor("two"), cohort("root"))
    for name, nominal in (("hero", "100"), ("tiny", "50"), ("rest", "0")):
        offers = (quota("one", cpu=nominal), quota("two", cpu=nominal))
        await world.make(*queue(name, *offers, cohortName="root", **RECLAIM_ANY))
    await world.submit(workload("first", "rest", cpu="150", priority=10))
    await world.submit(workload("second", "rest", cpu="150", priority=10))
    assert (await world.flavors("first"), await world.flavors("second")) == ({"cpu": "one"}, {"cpu": "two"})
    hero, tiny = workload("hero", "hero", cpu="100", priority=100), workload("tiny", "tiny", cpu="50", priority=50)
    await world.make(hero, tiny)
    assert await world.leaving() == ["first"]
    await world.release("first")
    assert await world.flavors("hero") == {"cpu": "one"}
    assert await world.flavors("tiny") == {"cpu": "one"}
    assert condition(await world.get("second"), "Preempted") is None


@lab(FAIR)
async def test_a_tree_shares_fairly(world: Lab) -> None:
    await world.make(flavor(), cohort("first-left", parent="root"), cohort("first-right", parent="root"))
    await world.make(cohort("second-left", parent="first-left"), cohort("second-right", parent="first-left"))
    await world.make(cohort("bank", quota(cpu="10"), parent="first-right"))
    for name in ("second-left", "second-right"):
        await world.make(*queue(name, quota(cpu="2"), cohortName=name))
    for left, right in zip(several("l", "second-left", 5), several("r", "second-right", 5), strict=True):
        await world.submit(left, right)
    assert await world.counts() == {"second-left": 5, "second-right": 5}
    shares = {"first-left": 429, "first-right": 0, "second-left": 215, "second-right": 215, "bank": 0}
    assert {name: await world.share(COHORTS, name) for name in shares} == shares


@lab(FAIR)
async def test_preemption_makes_a_tree_share_fairly(world: Lab) -> None:
    await world.make(flavor(), cohort("root", quota(cpu="12")), cohort("research", parent="root"))
    await world.make(cohort("chemistry", parent="research"), cohort("physics", parent="research"))
    await world.make(cohort("llm", parent="research", **weight("2")))
    await world.make(cohort("best-effort", parent="root", **weight("0.5")))
    lower = {"preemption": {"reclaimWithinCohort": "LowerPriority"}}
    for name in ("chemistry", "physics", "llm"):
        await world.make(*queue(name, quota(cpu="0"), cohortName=name, **lower))
    await world.make(*queue("best-effort", quota(cpu="0"), cohortName="best-effort"))
    for pair in zip(
        several("be", "best-effort", 6, priority=-1), several("ph", "physics", 6, priority=-1), strict=True
    ):
        await world.submit(*pair)
    assert await world.counts() == {"best-effort": 6, "physics": 6}
    assert (await world.share(COHORTS, "best-effort"), await world.share(COHORTS, "physics")) == (1000, 500)
    for index in range(6):
        for name in ("chemistry", "physics", "llm", "best-effort"):
            await world.make(workload(f"high-{name}-{index}", name, cpu="1", priority=100))
    for _ in range(10):
        await world.release()
    assert await world.counts() == {"best-effort": 4, "chemistry": 2, "physics": 2, "llm": 4}
    shares = {"best-effort": 667, "research": 667, "chemistry": 167, "physics": 167, "llm": 167}
    assert {name: await world.share(COHORTS, name) for name in shares} == shares


@lab(FAIR)
async def test_flavors_with_guarantees_left_in_the_cohort_come_first(world: Lab) -> None:
    await world.make(flavor("one"), flavor("two"), cohort("root"))
    both = (quota("one", cpu=("0", "10")), quota("two", cpu=("0", "10")))
    await world.make(cohort("a", *both, parent="root"), cohort("b", *both, parent="root"))
    for name, parent, one, two in (
        ("p1", "a", "3", "3"),
        ("p2", "a", "3", "3"),
        ("p3", "a", "2", "4"),
        ("p4", "b", "2", "0"),
    ):
        offers = (quota("one", cpu=(one, "10")), quota("two", cpu=(two, "10")))
        await world.make(*queue(name, *offers, cohortName=parent, **RECLAIM_ANY, **NEXT))
    await world.submit(*several("x", "p1", 18))
    assert await world.counts() == {"p1": 18}
    assert (await share(world, "p1"), await world.share(COHORTS, "a")) == (600, 0)


# Heads that cannot go on


async def two_poor_queues(world: Lab) -> None:
    await world.make(flavor(), cohort("a", quota(cpu="9"), parent="root"))
    for name in ("p1", "p2"):
        await world.make(*queue(name, quota(cpu="0"), cohortName="a", **RECLAIM_ANY, **NEXT))
    await world.submit(*several("x", "p1", 4, cpu="2"))
    assert await world.counts() == {"p1": 4}


def blocked_head(blockers: tuple[str, ...], size: str, expected: int) -> None:
    """Workloads too large to be fair stand in front of one that is not."""

    @lab(FAIR)
    async def scenario(world: Lab) -> None:
        await two_poor_queues(world)
        for index, cpu in enumerate(blockers):
            await world.submit(workload(f"blocker-{index}", "p2", cpu=cpu, priority=999))
        assert await world.leaving() == []
        assert await world.counts() == {"p1": 4}
        await world.submit(workload("fair", "p2", cpu=size))
        assert len(await world.leaving()) == 2
        await world.release()
        assert await world.counts() == {"p1": 2, "p2": 1}
        assert "fair" in await world.reserved()
        assert (await share(world, "p1"), await share(world, "p2")) == (445, expected)

    scenario()


@pytest.mark.parametrize(
    ("blockers", "size", "expected"),
    [
        pytest.param((), "5", 556, id="IPR-29 nobody in front"),
        pytest.param(("6",), "5", 556, id="IPR-30 of size 5 behind one"),
        pytest.param(("6",), "4", 445, id="IPR-31 of size 4 behind one"),
        pytest.param(("7", "6"), "5", 556, id="IPR-32 behind several"),
    ],
)
def test_a_head_that_would_take_too_much_does_not_hold_up_the_others(
    blockers: tuple[str, ...], size: str, expected: int
) -> None:
    blocked_head(blockers, size, expected)


async def sticky(world: Lab) -> None:
    """A poor queue below the cohort that has quota, and one beside it that borrows all of it but one."""
    await world.make(flavor(), cohort("a", quota(cpu="3"), parent="root"))
    await world.make(*queue("one", quota(cpu="0"), cohortName="a", **RECLAIM_ANY, **NEXT))
    await world.make(*queue("two", quota(cpu="0"), cohortName="root", **RECLAIM_ANY, **NEXT))
    await world.submit(*several("x", "two", 2))
    assert await world.counts() == {"two": 2}


@lab(FAIR)
async def test_one_that_fits_goes_past_a_head_that_never_will(world: Lab) -> None:
    await sticky(world)
    await world.submit(workload("never", "one", cpu="4", priority=999))
    assert await world.counts() == {"two": 2}
    await world.submit(workload("fits", "one", cpu="3"))
    assert await world.leaving() == ["x-00", "x-01"]
    await world.release()
    assert await world.reserved() == {"fits": "one"}
    assert (await share(world, "one"), await share(world, "two")) == (1000, 0)


@lab(FAIR)
async def test_a_preemptor_that_became_too_large_gives_way(world: Lab) -> None:
    await sticky(world)
    await world.submit(workload("sticky", "one", cpu="3", priority=99))
    assert await world.leaving() == ["x-00", "x-01"]
    await world.submit(workload("next", "one", cpu="2", priority=9))
    smaller = [{"coveredResources": ["cpu"], "flavors": [quota(cpu="2")]}]
    await world.edit(COHORTS, "a", {"resourceGroups": smaller})
    await world.advance(1)
    assert "insufficient quota" in await world.why("sticky")
    await world.release()
    assert await world.reserved() == {"next": "one"}
    assert (await share(world, "one"), await share(world, "two")) == (1000, 0)


@lab(FAIR)
async def test_a_deleted_preemptor_gives_way(world: Lab) -> None:
    await sticky(world)
    await world.submit(workload("sticky", "one", cpu="3", priority=99), workload("next", "one", cpu="3"))
    await world.counted()
    pending = world.metric("kueue_pending_workloads", cluster_queue="one")
    assert sum(pending.values()) == 2
    await world.remove("sticky")
    await world.counted()
    assert sum(world.metric("kueue_pending_workloads", cluster_queue="one").values()) == 1
    await world.release()
    assert await world.reserved() == {"next": "one"}


@lab(FAIR)
async def test_large_quotas_and_weights(world: Lab) -> None:
    await world.make(flavor())
    for name in ("a", "b"):
        await world.make(*queue(name, quota(cpu="600"), cohortName="all", **weight("300"), **RECLAIM_ANY))
    await world.submit(*several("a", "a", 10, cpu="100"))
    assert await world.counts() == {"a": 10}
    await world.submit(workload("b", "b", cpu="500"))
    assert len(await world.leaving()) == 3
    await world.release()
    assert await world.counts() == {"a": 7, "b": 1}


@lab(FAIR, AdmissionFairSharing=False)
async def test_a_guarantee_costs_one_best_effort_workload(world: Lab) -> None:
    await world.make(flavor(), *queue("best-a", quota(cpu="0"), cohortName="all"))
    await world.make(*queue("best-b", quota(cpu="0"), cohortName="all"))
    await world.make(*queue("guaranteed", quota(cpu="8"), cohortName="all", **ANY))
    await world.submit(workload("a", "best-a", cpu="4", priority=2), workload("b", "best-b", cpu="4", priority=1))
    assert await world.counts() == {"best-a": 1, "best-b": 1}
    await world.submit(workload("mine", "guaranteed", cpu="4"))
    assert await world.leaving() == ["b"]
    await world.release()
    assert await world.reserved() == {"a": "best-a", "mine": "guaranteed"}
    evicted = world.metric("kueue_evicted_workloads_total", reason="Preempted")
    assert {labels[0]: value for labels, value in evicted.items()} == {"best-b": 1}


# LocalQueues of one ClusterQueue


async def consumed(world: Lab, name: str) -> float:
    """What a LocalQueue is remembered to have used of cpu."""
    status = (await world.client.get(LOCAL_QUEUES, name, "default")).get("status") or {}
    history = (status.get("fairSharing") or {}).get("admissionFairSharingStatus") or {}
    return float(Quantity.parse((history.get("consumedResources") or {}).get("cpu", "0")).nanos / 1e9)


def penalties(world: Lab, queue: str) -> dict[Key, dict[str, int]]:
    """What a LocalQueue is charged for reservations that do not run yet."""
    return dict(world.queueing.state.world.ledger._ledgers[queue].penalties)


async def three_local_queues(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="8"), **MODE))
    await world.make(*(local(name, "q", "1") for name in ("lq-a", "lq-b", "lq-c")))


@lab(BY_USAGE)
async def test_a_new_local_queue_goes_before_busy_ones(world: Lab) -> None:
    await three_local_queues(world)
    await world.submit(workload("a-0", "lq-a", cpu="4"), workload("b-0", "lq-b", cpu="4"))
    await world.advance(60)
    await world.submit(*several("a-w", "lq-a", 2, cpu="4"), *several("b-w", "lq-b", 2, cpu="4"))
    await world.submit(workload("c", "lq-c", cpu="4"))
    await world.counted()
    assert await consumed(world, "lq-a") > 3.5
    assert await consumed(world, "lq-b") > 3.5
    assert await consumed(world, "lq-c") == 0
    await world.finish("a-0", "b-0")
    assert "c" in await world.reserved()


@lab(BY_USAGE)
async def test_less_active_local_queues_get_what_is_released(world: Lab) -> None:
    await three_local_queues(world)
    await world.submit(*several("a", "lq-a", 2, cpu="4"))
    await world.advance(60)
    await world.submit(*several("b", "lq-b", 2, cpu="4"), workload("c", "lq-c", cpu="4"))
    await world.finish("a-00")
    assert len(await world.reserved()) == 2
    await world.advance(1)
    await world.finish("a-01")
    assert await world.reserved() == {"b-00": "q", "c": "q"}


@lab(BY_USAGE)
async def test_reserving_again_does_not_add_up_penalties(world: Lab) -> None:
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "approve"}]}}
    await world.make(flavor(), check("approve"))
    await world.activate("approve")
    await world.make(*queue("q", quota(cpu="8"), **MODE, **strategy), local("lq-a", "q", "1"))
    await world.submit(workload("x", "lq-a", cpu="4"))
    assert await world.reserved() == {"x": "q"}
    first = penalties(world, "default/lq-a")
    assert first, "a penalty is due while the check is pending"
    await world.say("x", "approve", "Retry")
    assert await world.leaving() == ["x"]
    await world.release("x")
    await world.advance(5)
    assert await world.reserved() == {"x": "q"}
    assert penalties(world, "default/lq-a") == first


STRICT = {"queueingStrategy": "StrictFIFO", "preemption": {"withinClusterQueue": "Never"}}


async def cohort_of_two(world: Lab) -> None:
    await world.make(flavor(), *queue("one", quota(cpu="16"), cohortName="all", **MODE, **STRICT))
    await world.make(*queue("two", quota(cpu="16"), cohortName="all", **RECLAIM_ANY))
    await world.make(local("lq-a", "one", "1"), local("lq-b", "one", "1"), local("lq-c", "two", "1"))


@lab(BY_USAGE)
async def test_lower_recent_usage_goes_first_while_borrowing(world: Lab) -> None:
    await cohort_of_two(world)
    await world.submit(workload("x", "lq-a", cpu="32"))
    assert await world.reserved() == {"x": "one"}
    await world.advance(30)
    assert await consumed(world, "lq-a") > 0
    await world.submit(workload("a", "lq-a", cpu="32"), workload("b", "lq-b", cpu="32"))
    await world.finish("x")
    assert await world.reserved() == {"b": "one"}
    assert await world.waiting() == ["a"]


@lab(BY_USAGE)
async def test_higher_recent_usage_is_preempted_first(world: Lab) -> None:
    await cohort_of_two(world)
    await world.submit(workload("high", "lq-a", cpu="20", priority=10), workload("low", "lq-b", cpu="12", priority=1))
    assert await world.counts() == {"one": 2}
    await world.advance(60)
    assert await consumed(world, "lq-a") > await consumed(world, "lq-b")
    await world.submit(workload("reclaim", "lq-c", cpu="10"))
    assert await world.leaving() == ["high"]


@lab(BY_USAGE)
async def test_small_amounts_of_cpu_stay_in_the_history(world: Lab) -> None:
    await world.make(flavor(), *queue("q", quota(cpu="4"), cohortName="c"))
    await world.submit(workload("x", "q", cpu="500m"))
    await world.advance(20)
    seen = []
    for _ in range(20):
        await world.advance(1)
        seen.append(await consumed(world, "q"))
    assert all(0 < value <= 0.5 for value in seen)
    assert seen[-1] >= seen[0]


# Metrics of cohorts


async def two_branches(world: Lab, **first: Obj) -> None:
    await world.make(
        flavor(), cohort("ch1", quota(cpu="5"), parent="root"), cohort("ch2", quota(cpu="2"), parent="root")
    )
    await world.make(*queue("q1", quota(cpu="5"), cohortName="ch1", **first))
    await world.make(*queue("q2", quota(cpu="2"), cohortName="ch2"))


def admitted(world: Lab, name: str = "") -> dict[tuple[str, ...], float]:
    return world.metric("kueue_cohort_subtree_admitted_workloads_total", priority_class=name)


@lab(FAIR)
async def test_cohorts_count_admissions_once_checks_are_ready(world: Lab) -> None:
    await world.make(check("approve"))
    await world.activate("approve")
    await two_branches(world, admissionChecksStrategy={"admissionChecks": [{"name": "approve"}]})
    await world.submit(*several("a", "q1", 5), *several("b", "q2", 2))
    await world.counted()
    active = "kueue_cohort_subtree_admitted_active_workloads"
    assert world.metric(active) == {("root",): 2, ("ch1",): 0, ("ch2",): 2}
    assert admitted(world).get(("ch1",), 0) == 0
    assert admitted(world)[("root",)] == 2
    for index in range(5):
        await world.say(f"a-{index:02}", "approve", "Ready")
    await world.counted()
    assert world.metric(active) == {("root",): 7, ("ch1",): 5, ("ch2",): 2}
    assert admitted(world) == {("root",): 7, ("ch1",): 5, ("ch2",): 2}


@lab(FAIR)
async def test_cohorts_count_admissions_by_priority_class(world: Lab) -> None:
    await two_branches(world)
    await world.make(priority_class("high", 100), priority_class("low", 10))
    for name, to, count in (("high", "q1", 5), ("low", "q2", 2)):
        reference = {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}}
        for index in range(count):
            await world.submit(workload(f"{name}-{index}", to, cpu="1", priority=100, spec=reference))
    await world.counted()
    assert admitted(world, "high") == {("root",): 5, ("ch1",): 5}
    assert admitted(world, "low") == {("root",): 2, ("ch2",): 2}
    active = "kueue_cohort_subtree_admitted_active_workloads"
    assert world.metric(active) == {("root",): 7, ("ch1",): 5, ("ch2",): 2}
