"""Classical preemption in trees of cohorts."""

from __future__ import annotations

from typing import Any

import pytest
from preemption_cases import victims, wanted
from preemption_notation import parse_case

TREE = """"""

CASES = [
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=2, in r); CQ q(in c, wCQ=LP, rec=Any); CQ q_borrowing(in r, wCQ=LP, rec=Any). admitted: admitted2(cpu 2)@q_borrowing. incoming: in(cpu 2) → q. evict: admitted2 [Reclaim]",
        {},
        id="preempt with hierarchical advantage",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=2, in r); CQ q_nominal(cpu=2, in r, wCQ=LP, rec=Any); CQ q(in c, wCQ=LP, rec=Any); CQ q_borrowing(in r, wCQ=LP, rec=Any). admitted: admitted1(p-10, cpu 2)@q_nominal, admitted2(cpu 2)@q_borrowing. incoming: in(cpu 2) → q. evict: admitted2 [Reclaim]",
        {},
        id="avoid queues within nominal quota",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=2, in r); CQ q(in c, wCQ=LP, rec=Any); CQ q_borrowing(in r, wCQ=LP, rec=Any). admitted: admitted1(p1, cpu 1)@q_borrowing, admitted2(p2, cpu 1)@q_borrowing. incoming: in(cpu 2) → q. evict: admitted1 [Reclaim], admitted2 [Reclaim]",
        {},
        id="preempt multiple with hierarchical advantage",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=3, in r); CQ q(in c, wCQ=LP, rec=Any, bwc=LP, thr=0); CQ q_same_cohort(in c, wCQ=LP, rec=Any). admitted: admitted_not_preemptible(p1, cpu 1)@q_same_cohort, admitted_preemptible(cpu 1)@q_same_cohort, admitted_own_queue(p-1, cpu 1)@q. incoming: in(p1, cpu 2) → q. evict: admitted_own_queue [InCQ], admitted_preemptible [RWB]",
        {},
        id="preempt in cohort and own CQ",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=2, in r); CQ q(in c, wCQ=LP, rec=Any); CQ q_borrowing(in r, wCQ=LP, rec=Any). admitted: admitted_borrowing(p1, cpu 1)@q_borrowing, admitted_same_queue(p-2, cpu 1)@q. incoming: in(cpu 1) → q. evict: admitted_borrowing [Reclaim]",
        {},
        id="prefer to preempt hierarchical candidate",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=2, in r); CQ q(in c, wCQ=LP, rec=Any, bwc=LP, thr=0); CQ q_nominal(cpu=2, in r, wCQ=LP, rec=Any); CQ q_same_cohort(in c, wCQ=LP, rec=Any). admitted: admitted_nominal(p-10, cpu 2)@q_nominal, admitted_same_cohort(p-1, cpu 2)@q_same_cohort. incoming: in(cpu 2) → q. evict: admitted_same_cohort [RWB]",
        {},
        id="forced to preempt priority candidate",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=2, in r); CQ q(cpu=4, in c, wCQ=LP, rec=Any); CQ q_borrowing(in r, wCQ=LP, rec=Any); CQ q_same_cohort(in c, wCQ=LP, rec=Any). admitted: admitted_borrowing(p10, cpu 3)@q_borrowing, admitted_same_cohort(p10, cpu 3)@q_same_cohort. incoming: in(cpu 4) → q. evict: admitted_borrowing [Reclaim], admitted_same_cohort [Reclaim]",
        {},
        id="incoming workload fits in CQ nominal quota",
    ),
    pytest.param(
        "tree: Cohort r(cpu=1); Cohort c(cpu=4, in r); CQ q(in c, wCQ=LP, rec=LP, bwc=LP, thr=0); CQ q_borrowing(in r, wCQ=LP, rec=Any); CQ q_same_cohort(in c, wCQ=LP, rec=Any). admitted: admitted_borrowing(p-1, cpu 2)@q_borrowing, admitted_same_cohort_preemptible(p-1, cpu 1)@q_same_cohort, admitted_borrowing_not_preemptible(p1, cpu 2)@q_borrowing. incoming: in(cpu 3) → q. evict: admitted_borrowing [Reclaim], admitted_same_cohort_preemptible [RWB]",
        {},
        id="preempt hierarchical and priority candidates",
    ),
    pytest.param(
        "tree: Cohort r(cpu=1); Cohort c(cpu=4, in r); CQ q(in c, wCQ=LP, rec=LP, bwc=LP, thr=0); CQ q_borrowing(in r, wCQ=LP, rec=Any); CQ q_same_cohort(in c, wCQ=LP, rec=Any). admitted: admitted_borrowing(p-1, cpu 2)@q_borrowing, admitted_same_queue_preemptible(p-1, cpu 1)@q, admitted_borrowing_not_preemptible(p1, cpu 2)@q_borrowing. incoming: in(cpu 3) → q. evict: admitted_borrowing [Reclaim], admitted_same_queue_preemptible [InCQ]",
        {},
        id="preempt hierarchical candidates and inside CQ",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=3, in r); CQ q(in c, wCQ=LP, rec=Any); CQ q_borrowing(in r, wCQ=LP, rec=Any); CQ q_nominal(cpu=2, in r, wCQ=LP, rec=Any). admitted: admitted_borrowing_prio_8(p8, cpu 1)@q_borrowing, admitted_borrowing_prio_9(p9, cpu 1)@q_borrowing, admitted_borrowing_prio_10(p9, cpu 1)@q_borrowing, admitted_nominal(p-2, cpu 2)@q_nominal. incoming: in(cpu 1) → q. evict: admitted_borrowing_prio_8 [Reclaim]",
        {},
        id="reclaim nominal quota from lowest priority workload, excluding non-borrowing",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=2, in r); Cohort c_other(cpu=2, in r); CQ q_other(in c_other, wCQ=LP, rec=Any); CQ q(in c, wCQ=LP, rec=Any); CQ q_same_cohort(in c, wCQ=LP, rec=Any). admitted: admitted_other_1(p-10, cpu 1)@q_other, admitted_other_2(p-10, cpu 1)@q_other, admitted_same_cohort(cpu 2)@q_same_cohort. incoming: in(cpu 2) → q. evict: none",
        {},
        id="infeasible preemption all available workloads in pruned subtrees",
    ),
    pytest.param(
        "tree: Cohort r(cpu=3); Cohort c(cpu=4, memory=4Gi, in r); CQ q(in c, wCQ=LP, rec=Any); CQ q_borrowing(in r, wCQ=LP, rec=Any); CQ q_same_cohort(in c, wCQ=LP, rec=Any). admitted: admitted_borrowing(cpu 3, memory 1Gi)@q_borrowing, admitted_same_cohort(p-2, cpu 1, memory 3Gi)@q_same_cohort. incoming: in(p-2, cpu 2, memory 1Gi) → q. evict: admitted_borrowing [Reclaim]",
        {},
        id="hiearchical preemption with multiple resources",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=2, in r); CQ q(in c, wCQ=LP, rec=Any, bwc=LP, thr=0); CQ q_borrowing(in r, wCQ=LP, rec=Any); CQ q_same_cohort(in c, wCQ=LP, rec=Any). admitted: admitted_borrowing(p-10, cpu 1)@q_borrowing, evicted_same_cohort(p-1, cpu 1, evicted)@q_same_cohort. incoming: in(cpu 1) → q. evict: evicted_same_cohort [RWB]",
        {},
        id="prefer to preempt evicted workloads",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c(cpu=2, in r); CQ q(cpu=3//2, in c, wCQ=LP, rec=Any); CQ q_borrowing(in r, wCQ=LP, rec=Any). admitted: admitted_borrowing(cpu 4)@q_borrowing. incoming: in(p-2, cpu 5) → q. evict: admitted_borrowing [Reclaim]",
        {},
        id="respect lending limits",
    ),
    pytest.param(
        "tree: Cohort r(); Cohort c11(cpu=4, in r); Cohort c12(cpu=4, in r); Cohort c21(cpu=4, in c11); Cohort c22(cpu=4, in c11); Cohort c23(cpu=4, in c11); Cohort c31(cpu=4, in c21); Cohort c32(cpu=4, in c21); CQ q1(in c12, wCQ=LP, rec=Any); CQ q2(in c23, wCQ=LP, rec=Any); CQ q3(in c22, wCQ=LP, rec=Any); CQ q4(in c32, wCQ=LP, rec=Any); CQ q5(in c31, wCQ=LP, rec=Any). admitted: admitted_borrowing_1(p-6, cpu 4)@q1, admitted_borrowing_2(p-5, cpu 4)@q1, admitted_borrowing_3(p-9, cpu 4)@q2, admitted_borrowing_4(p-10, cpu 4)@q2, admitted_borrowing_5(p-4, cpu 4)@q3, admitted_borrowing_6(p-3, cpu 3)@q3, admitted_borrowing_7(p4, cpu 2)@q4, admitted_borrowing_8(p2, cpu 3)@q4. incoming: in(p-2, cpu 7) → q5. evict: admitted_borrowing_1 [Reclaim], admitted_borrowing_4 [Reclaim]",
        {},
        id="reclaim in complex hierarchy",
    ),
]


@pytest.mark.parametrize(("text", "extra"), CASES)
def test_hierarchical_preemption(text: str, extra: dict[str, Any]) -> None:
    case = parse_case(text, TREE, **extra)
    assert victims(case, "classical") == wanted(case)
