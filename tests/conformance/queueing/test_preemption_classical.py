"""Classical preemption: who is evicted for whom, one case per sentence."""

from __future__ import annotations

from typing import Any

import pytest
from preemption_cases import victims, wanted
from preemption_notation import parse_case

TREE = """
CQ standalone(cpu=6, alpha:memory=3Gi, beta:memory=3Gi, wCQ=LP);
CQ c1(cpu=6/6, memory=3Gi/3Gi, in cohort, wCQ=LP, rec=LP); CQ c2(cpu=6/6, memory=3Gi/3Gi, in cohort, rec=Any);
CQ d1(cpu=6, memory=3Gi, in cohort-no-limits, wCQ=LP, rec=LP); CQ d2(cpu=6, memory=3Gi, in cohort-no-limits, rec=Any);
CQ l1(cpu=6/12, memory=3Gi/6Gi, in legion, wCQ=LP, rec=LP);
CQ preventStarvation(cpu=6, wCQ=LNEP);
CQ a_standard(cpu=1/12, in with_shared_cq, rec=LP, bwc=LP, thr=0);
CQ b_standard(cpu=1/12, in with_shared_cq, wCQ=LP, rec=Any, bwc=LP, thr=0);
CQ a_best_effort(cpu=1/12, in with_shared_cq, rec=LP, bwc=LP, thr=0);
CQ b_best_effort(cpu=0/13, in with_shared_cq, rec=LP, bwc=LP, thr=0);
CQ shared(cpu=10, in with_shared_cq);
CQ lend1(cpu=6//4, in cohort-lend, wCQ=LP, rec=LP); CQ lend2(cpu=6//2, in cohort-lend, wCQ=LP, rec=LP);
CQ a(cpu=2, memory=2, in cohort-three, wCQ=LP, rec=Any);
CQ b(cpu=2, memory=2, in cohort-three); CQ c(cpu=2, memory=2, in cohort-three)
"""

CASES = [
    pytest.param(
        "admitted: low(p-1, cpu 2)@standalone, mid(cpu 2)@standalone, high(p1, cpu 2)@standalone. incoming: in(p1, cpu 2) → standalone. evict: low [InCQ]",
        {},
        id="preempt lowest priority",
    ),
    pytest.param(
        "admitted: low(p-1, cpu 2)@standalone, mid(cpu 2)@standalone, high(p1, cpu 2)@standalone. incoming: in(p1, cpu 3) → standalone. evict: low [InCQ], mid [InCQ]",
        {},
        id="preempt multiple",
    ),
    pytest.param(
        "admitted: low(p-1, cpu 3)@standalone, mid(cpu 3)@standalone. incoming: in(p-1, cpu 1) → standalone. evict: none",
        {},
        id="no preemption for low priority",
    ),
    pytest.param(
        "admitted: low(p-1, cpu 3)@standalone, mid(cpu 3)@standalone. incoming: in(cpu 4) → standalone. evict: none",
        {},
        id="not enough low priority workloads",
    ),
    pytest.param(
        "admitted: low(p-1, cpu 1)@standalone, mid(cpu 1)@standalone, high(p1, cpu 3)@standalone. incoming: in(p1, cpu 2) → standalone. evict: low [InCQ]",
        {},
        id="some free quota, preempt low priority",
    ),
    pytest.param(
        "admitted: low(p-1, cpu 1)@standalone, mid(cpu 2)@standalone, high(p1, cpu 3)@standalone. incoming: in(p1, cpu 2) → standalone. evict: mid [InCQ]",
        {},
        id="minimal set excludes low priority",
    ),
    pytest.param(
        "admitted: low(p-1, memory 2Gi, fl=alpha)@standalone, mid(memory 1Gi, fl=beta)@standalone, high(p1, memory 1Gi, fl=beta)@standalone. incoming: in(p1, cpu 1, memory 2Gi) → standalone. evict: mid [InCQ]",
        {"modes": [["cpu", "default", "Fit"], ["memory", "beta", "Preempt"]]},
        id="only preempt workloads using the chosen flavor",
    ),
    pytest.param(
        "admitted: c1-low(p-1, cpu 3)@c1, c2-mid(cpu 3)@c2, c2-high(p1, cpu 6)@c2. incoming: in(p1, cpu 3) → c1. evict: c2-mid [Reclaim]",
        {},
        id="reclaim quota from borrower",
    ),
    pytest.param(
        "admitted: c1-low(p-1, cpu 3, memory 3Gi)@c1, c2-mid(cpu 3)@c2, c2-high(p1, cpu 6)@c2. incoming: in(p1, cpu 3, memory 0) → c1. evict: c2-mid [Reclaim]",
        {"modes": [["cpu", "default", "Preempt"], ["memory", "default", "Fit"]]},
        id="reclaim quota if workload requests 0 resources for a resource at nominal quota",
    ),
    pytest.param(
        "admitted: c1-high(p1, cpu 4)@c1, c2-low-1(p-1, cpu 4)@c2. incoming: in(p1, cpu 4) → c1. evict: none",
        {},
        id="no workloads borrowing",
    ),
    pytest.param(
        "admitted: c1-high(p1, cpu 4)@c1, c2-low-1(p-1, cpu 4)@c2, c2-low-2(p-1, cpu 4)@c2. incoming: in(p1, cpu 4) → c1. evict: none",
        {},
        id="not enough workloads borrowing",
    ),
    pytest.param(
        "admitted: c1-low(p-1, cpu 4)@c1, c2-low-1(p-1, cpu 4)@c2, c2-high-2(p1, cpu 4)@c2. incoming: in(p1, cpu 4, memory 5Gi) → c1. evict: c1-low [InCQ]",
        {},
        id="preempting locally and borrowing other resources in cohort, without cohort candidates",
    ),
    pytest.param(
        "admitted: c1-med(cpu 4)@c1, c1-low(p-1, cpu 4)@c1, c2-low-1(p-1, cpu 4)@c2. incoming: in(p1, cpu 4) → c1. evict: c1-low [InCQ]",
        {},
        id="preempting locally and borrowing same resource in cohort",
    ),
    pytest.param(
        "admitted: d1-med(cpu 4)@d1, d1-low(p-1, cpu 4)@d1, d2-low-1(p-1, cpu 4)@d2. incoming: in(p1, cpu 4) → d1. evict: d1-low [InCQ]",
        {},
        id="preempting locally and borrowing same resource in cohort; no borrowing limit in the cohort",
    ),
    pytest.param(
        "admitted: c1-med(cpu 4)@c1, c2-low-1(p-1, cpu 5)@c2, c2-low-2(p-1, cpu 1)@c2, c2-low-3(p-1, cpu 1)@c2. incoming: in(p1, cpu 2, memory 5Gi) → c1. evict: c1-med [InCQ]",
        {},
        id="preempting locally and borrowing other resources in cohort, with cohort candidates",
    ),
    pytest.param(
        "admitted: l1-med(cpu 4)@l1, l1-low(p-1, cpu 2)@l1. incoming: in(p1, cpu 4) → l1. evict: l1-med [InCQ]",
        {},
        id="preempting locally and not borrowing same resource in 1-queue cohort",
    ),
    pytest.param(
        "admitted: c1(cpu 2)@c1, c2-1(cpu 4)@c2, c2-2(cpu 4)@c2. incoming: in(cpu 4) → c1. evict: none",
        {},
        id="do not reclaim borrowed quota from same priority for withinCohort=ReclaimFromLowerPriority",
    ),
    pytest.param(
        "admitted: c1-1(cpu 4)@c1, c1-2(p1, cpu 4)@c1, c2(cpu 2)@c2. incoming: in(cpu 4) → c2. evict: c1-1 [Reclaim]",
        {},
        id="reclaim borrowed quota from same priority for withinCohort=ReclaimFromAny",
    ),
    pytest.param(
        "admitted: c1-low(p-1, cpu 3)@c1, c1-mid(cpu 2)@c1, c2-low(p-1, cpu 3)@c2, c2-mid(cpu 4)@c2. incoming: in(cpu 4) → c1. evict: c1-low [InCQ], c2-low [Reclaim]",
        {},
        id="preempt from all ClusterQueues in cohort",
    ),
    pytest.param(
        "admitted: c2-low(p-1, cpu 3)@c2. incoming: in(p1, cpu 4) → c2. evict: none",
        {},
        id="can't preempt workloads in ClusterQueue for withinClusterQueue=Never",
    ),
    pytest.param(
        "admitted: low-alpha(p-1, memory 2Gi, fl=alpha)@standalone, low-beta(p-1, memory 2Gi, fl=beta)@standalone. incoming: in(memory 2Gi, memory 1Gi) → standalone. evict: low-alpha [InCQ], low-beta [InCQ]",
        {
            "modes": [["memory", "alpha", "Preempt"], ["memory", "beta", "Preempt"]],
            "podSets": [["launcher", 1], ["workers", 2]],
        },
        id="each podset preempts a different flavor",
    ),
    pytest.param(
        "admitted: wl1(p2, cpu 2)@preventStarvation, wl2(p1, cpu 2, t=1)@preventStarvation, wl3(p1, cpu 2)@preventStarvation. incoming: in(p1, cpu 2, t=-15) → preventStarvation. evict: wl2 [InCQ]",
        {},
        id="preempt newer workloads with the same priority",
    ),
    pytest.param(
        "admitted: a_best_effort_low(p-1, cpu 10)@a_best_effort, b_best_effort_low(p-1, cpu 1)@b_best_effort. incoming: in(cpu 10) → a_standard. evict: a_best_effort_low [RWB]",
        {},
        id="use BorrowWithinCohort; allow preempting a lower-priority workload from another ClusterQueue while borrowing",
    ),
    pytest.param(
        "admitted: b_standard(p1, cpu 10)@b_standard. incoming: in(p2, cpu 10) → a_standard. evict: none",
        {},
        id="use BorrowWithinCohort; don't allow preempting a lower-priority workload with priority above MaxPriorityThreshold, if borrowing is required even after the preemption",
    ),
    pytest.param(
        "admitted: b_standard(p1, cpu 13)@b_standard. incoming: in(p2, cpu 1) → a_standard. evict: b_standard [Reclaim]",
        {},
        id="use BorrowWithinCohort; allow preempting a lower-priority workload with priority above MaxPriorityThreshold, if borrowing is not required after the preemption",
    ),
    pytest.param(
        "admitted: a_standard(p1, cpu 13)@a_standard. incoming: in(p2, cpu 1) → a_standard. evict: none",
        {},
        id="use BorrowWithinCohort; don't allow for preemption of lower-priority workload from the same ClusterQueue",
    ),
    pytest.param(
        "admitted: a_standard_1(p1, cpu 10)@a_standard, a_standard_2(p1, cpu 1)@a_standard, b_standard_1(p1, cpu 1)@b_standard, b_standard_2(p2, cpu 1)@b_standard. incoming: in(p3, cpu 1) → b_standard. evict: b_standard_1 [InCQ]",
        {},
        id="use BorrowWithinCohort; only preempt from CQ if no workloads below threshold and already above nominal",
    ),
    pytest.param(
        "admitted: b_standard_high(p2, cpu 10)@b_standard, b_standard_mid(p1, cpu 1)@b_standard, a_best_effort_low(p-1, cpu 1)@a_best_effort, a_best_effort_lower(p-2, cpu 1)@a_best_effort. incoming: in(p2, cpu 2) → b_standard. evict: a_best_effort_lower [RWB], b_standard_mid [InCQ]",
        {},
        id="use BorrowWithinCohort; preempt from CQ and from other CQs with workloads below threshold",
    ),
    pytest.param(
        "admitted: lend1-low(p-1, cpu 3)@lend1, lend2-mid(cpu 3)@lend2, lend2-high(p1, cpu 4)@lend2. incoming: in(p1, cpu 3) → lend1. evict: lend2-mid [Reclaim]",
        {},
        id="reclaim quota from lender",
    ),
    pytest.param(
        "admitted: lend1-low(p-1, cpu 3)@lend1, lend1-mid(cpu 2)@lend1, lend2-low(p-1, cpu 3)@lend2, lend2-mid(cpu 4)@lend2. incoming: in(cpu 4) → lend1. evict: lend1-low [InCQ], lend2-low [Reclaim]",
        {},
        id="preempt from all ClusterQueues in cohort-lend",
    ),
    pytest.param(
        "admitted: lend2-low(p-1, cpu 10)@lend2. incoming: in(cpu 9) → lend1. evict: none",
        {},
        id="cannot preempt from other ClusterQueues if exceeds requestable quota including lending limit",
    ),
    pytest.param(
        "admitted: a1(p-2, cpu 1)@a, a2(p-2, cpu 1)@a, a3(p-1, cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b. incoming: in(cpu 2) → a. evict: a1 [InCQ], a2 [InCQ]",
        {},
        id="preemptions from cq when target queue is exhausted for the single requested resource",
    ),
    pytest.param(
        "admitted: a1(p-2, cpu 1, memory 1)@a, a2(p-2, cpu 1, memory 1)@a, a3(p-1, cpu 1, memory 1)@a, b1(cpu 1, memory 1)@b, b2(cpu 1, memory 1)@b, b3(cpu 1, memory 1)@b. incoming: in(cpu 2, memory 2) → a. evict: a1 [InCQ], a2 [InCQ]",
        {},
        id="preemptions from cq when target queue is exhausted for two requested resources",
    ),
    pytest.param(
        "admitted: a1(p-2, cpu 1)@a, a2(p-2, cpu 1)@a, a3(p-1, cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b. incoming: in(cpu 2, memory 2) → a. evict: a1 [InCQ], a2 [InCQ]",
        {},
        id="preemptions from cq when target queue is exhausted for one requested resource, but not the other",
    ),
    pytest.param(
        "admitted: a1(p-1, cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b, b4(cpu 1)@b, b5(p-1, cpu 1)@b. incoming: in(cpu 2) → a. evict: a1 [InCQ], b5 [Reclaim]",
        {},
        id="allow preemption from other cluster queues if target cq is not exhausted for the requested resource",
    ),
    pytest.param(
        "tree: CQ cq-left(cpu=10, in cohort-left, rec=Any); CQ cq-right(cpu=0, in cohort-right); Cohort cohort-left(in root); Cohort cohort-right(in root). admitted: to-be-preempted(cpu 5)@cq-right. incoming: in(cpu 8) → cq-left. evict: to-be-preempted [Reclaim]",
        {},
        id="long range preemption",
    ),
]


@pytest.mark.parametrize(("text", "extra"), CASES)
def test_classical_preemption(text: str, extra: dict[str, Any]) -> None:
    case = parse_case(text, TREE, **extra)
    assert victims(case, "classical") == wanted(case)
