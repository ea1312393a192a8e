"""Preemption under fair sharing."""

from __future__ import annotations

from typing import Any

import pytest
from preemption_cases import victims, wanted
from preemption_notation import parse_case

TREE = """
CQ a(cpu=3, in all, wCQ=LP, rec=Any, bwc=LP, thr=-3); CQ b(cpu=3, in all, wCQ=LP, rec=Any, bwc=LP, thr=-3);
CQ c(cpu=3, in all, wCQ=LP, rec=Any, bwc=LP, thr=-3); CQ preemptible(cpu=0, in all)
"""

CASES = [
    pytest.param(
        "admitted: a1(cpu 1)@a, a2(cpu 1)@a, a3(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b, b4(cpu 1)@b, b5(cpu 1)@b, c1(cpu 1)@c. incoming: c_incoming(cpu 1) → c. evict: b1 [Reclaim]",
        {},
        id="reclaim nominal from user using the most",
    ),
    pytest.param(
        "admitted: a1(cpu 3)@a, a2(cpu 1)@a, b1(cpu 2)@b, b2(cpu 3)@b. incoming: c_incoming(cpu 3) → c. evict: a1 [Reclaim]",
        {},
        id="can reclaim from queue using less, if taking the latest workload from user using the most isn't enough",
    ),
    pytest.param(
        "admitted: a1(cpu 1)@a, a2(cpu 1)@a, a3(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b, b4(cpu 1)@b, b5(cpu 1)@b, c1(cpu 1)@c. incoming: a_incoming(cpu 1) → a. evict: b1 [FS]",
        {},
        id="reclaim borrowable quota from user using the most",
    ),
    pytest.param(
        "admitted: a1(cpu 0.5)@a, a2(cpu 0.5)@a, a3(cpu 3)@a, b1(cpu 0.5)@b, b2(cpu 0.5)@b, b3(cpu 3)@b. incoming: c_incoming(cpu 2) → c. evict: a1 [Reclaim], b1 [Reclaim]",
        {},
        id="preempt one from each CQ borrowing",
    ),
    pytest.param(
        "admitted: a1(cpu 1)@a, a2(cpu 1)@a, a3(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b, c1(cpu 1)@c, c2(cpu 1)@c, c3(cpu 1)@c. incoming: c_incoming(cpu 1) → c. evict: none",
        {},
        id="can't preempt when everyone under nominal",
    ),
    pytest.param(
        "admitted: a1(cpu 1)@a, a2(cpu 1)@a, a3(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b, b4(cpu 1)@b, b5(cpu 1)@b. incoming: a_incoming(cpu 2) → a. evict: none",
        {},
        id="can't preempt when it would switch the imbalance",
    ),
    pytest.param(
        "admitted: a1_low(p-1, cpu 1)@a, a2_low(p-1, cpu 1)@a, a3(cpu 1)@a, a4(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b, b4(cpu 1)@b, b5(cpu 1)@b. incoming: a_incoming(cpu 2) → a. evict: a1_low [InCQ], a2_low [InCQ]",
        {},
        id="can preempt lower priority workloads from same CQ",
    ),
    pytest.param(
        "admitted: a_low(p-1, cpu 1)@a, a2(cpu 1)@a, a3(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b, b4(cpu 1)@b, b5(cpu 1)@b, b6(cpu 1)@b. incoming: a_incoming(cpu 2) → a. evict: a_low [InCQ], b1 [FS]",
        {},
        id="can preempt a combination of same CQ and highest user",
    ),
    pytest.param(
        "admitted: b1(cpu 9)@b. incoming: a_incoming(cpu 2) → a. evict: b1 [Reclaim]",
        {},
        id="preempt huge workload if there is no other option, as long as the target CQ gets a lower share",
    ),
    pytest.param(
        "admitted: a1(cpu 2)@a, b1(cpu 7)@b. incoming: a_incoming(cpu 5) → a. evict: none",
        {},
        id="can't preempt huge workload if the incoming is also huge",
    ),
    pytest.param(
        "admitted: b1(cpu 2)@b, b2(cpu 2)@b, b3(cpu 3)@b. incoming: a_incoming(cpu 6) → a. evict: none",
        {},
        id="can't preempt 2 smaller workloads if the incoming is huge",
    ),
    pytest.param(
        "admitted: a1_low(p-1, cpu 2)@a, a2_low(p-1, cpu 1)@a, b1(cpu 3)@b, b2(cpu 3)@b. incoming: a_incoming(cpu 4) → a. evict: a1_low [InCQ], b1 [FS]",
        {},
        id="preempt from target and others even if over nominal",
    ),
    pytest.param(
        "admitted: b1(cpu 2)@b, b2(cpu 1)@b, b3(cpu 2)@b, c1(cpu 1)@c. incoming: a_incoming(cpu 3.5) → a. evict: b2 [FS]",
        {},
        id="prefer to preempt workloads that don't make the target CQ have the biggest share",
    ),
    pytest.param(
        "admitted: b1(cpu 2)@b, b2(cpu 2.5)@b, c1(cpu 2)@c, c2(cpu 2.5)@c. incoming: a_incoming(cpu 3.5) → a. evict: b1 [FS], c1 [FS]",
        {},
        id="preempt from different cluster queues if the end result has a smaller max share",
    ),
    pytest.param(
        "admitted: a1(cpu 3.5)@a, b2(cpu 2.5)@b, c2(cpu 2.5)@c. incoming: b_incoming(cpu 2) → b. evict: none",
        {},
        id="scenario above does not flap",
    ),
    pytest.param(
        "admitted: b1(cpu 3)@b, b2(cpu 3)@b, c1(cpu 3)@c. incoming: a_incoming(cpu 4) → a. evict: none",
        {},
        id="cannot preempt if it would make the candidate CQ go under nominal after preempting one element",
    ),
    pytest.param(
        "admitted: a1(cpu 1)@a, a2(cpu 1)@a, a3(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b, preemptible1(p-3, cpu 1)@preemptible, preemptible2(p-3, cpu 1)@preemptible, preemptible3(p-3, cpu 1)@preemptible. incoming: a_incoming(cpu 2) → a. evict: none",
        {},
        id="workloads under priority threshold not capriciously preempted",
    ),
    pytest.param(
        "admitted: a1(cpu 3)@a, b_low(cpu 5)@b, b_high(p1, cpu 1)@b. incoming: a_incoming(cpu 1) → a. evict: b_low [FS]",
        {"strategies": ["LessThanInitialShare"]},
        id="preempt lower priority first, even if big",
    ),
    pytest.param(
        "admitted: a1(cpu 3)@a, b_low(cpu 5)@b, b_high(p1, cpu 1)@b. incoming: a_incoming(cpu 1) → a. evict: b_high [FS]",
        {"strategies": ["LessThanOrEqualToFinalShare"]},
        id="preempt workload that doesn't transfer the imbalance, even if high priority",
    ),
    pytest.param(
        "tree: CQ a(cpu=3, in all, w=2, wCQ=LP, rec=Any); CQ b(cpu=3, in all, wCQ=LP, rec=Any); CQ c(cpu=3, in all, wCQ=LP, rec=Any). admitted: a1(cpu 1)@a, a2(cpu 1)@a, a3(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b, b4(cpu 1)@b, b5(cpu 1)@b, b6(cpu 1)@b. incoming: a_incoming(cpu 2) → a. evict: b1 [FS], b2 [FS]",
        {},
        id="CQ with higher weight can preempt more",
    ),
    pytest.param(
        "tree: CQ a(cpu=3, in all, wCQ=LP, rec=Any); CQ b(cpu=3, in all, w=0, wCQ=LP, rec=Any); CQ c(cpu=3, in all, wCQ=LP, rec=Any). admitted: a1(cpu 1)@a, a2(cpu 1)@a, a3(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b, b4(cpu 1)@b, b5(cpu 1)@b, b6(cpu 1)@b. incoming: a_incoming(cpu 3) → a. evict: b1 [FS], b2 [FS], b3 [FS]",
        {},
        id="can preempt anything borrowing from CQ with 0 weight",
    ),
    pytest.param(
        "tree: CQ a(cpu=3, in all, wCQ=LP, rec=Any); CQ b(cpu=3, in all, w=0, wCQ=LP, rec=Any). admitted: a1(cpu 1)@a, a2(cpu 1)@a, a3(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b. incoming: a_incoming(cpu 1) → a. evict: none",
        {},
        id="can't preempt nominal from CQ with 0 weight",
    ),
    pytest.param(
        "tree: CQ left-cq(cpu=0, in root, rec=Any); CQ right-cq(cpu=0, in right-cohort, w=0, rec=Any); Cohort right-cohort(cpu=1, in root, w=0). admitted: right-1(cpu 1)@right-cq. incoming: left-1(cpu 1) → left-cq. evict: none",
        {},
        id="can't preempt nominal from Cohort with 0 weight",
    ),
    pytest.param(
        "tree: CQ a(cpu=1, wCQ=LP). admitted: a1(cpu 1)@a. incoming: a_incoming(p1000, cpu 1) → a. evict: a1 [InCQ]",
        {},
        id="can preempt within cluster queue when no cohort",
    ),
    pytest.param(
        "tree: CQ a(cpu=1, in LEFT, w=2, rec=Any); CQ b(cpu=1, in LEFT); CQ c(cpu=1, in ROOT); CQ d(cpu=1, in RIGHT); CQ e(cpu=1, in RIGHT, w=0.99); Cohort ROOT(cpu=5); Cohort LEFT(cpu=5, in ROOT, w=2); Cohort RIGHT(cpu=5, in ROOT). admitted: b1(p1, cpu 1)@b, b2(p2, cpu 1)@b, b3(p3, cpu 1)@b, b4(p4, cpu 1)@b, b5(p5, cpu 1)@b, c1(p1, cpu 1)@c, c2(p2, cpu 1)@c, c3(p3, cpu 1)@c, c4(p4, cpu 1)@c, c5(p5, cpu 1)@c, d1(p1, cpu 1)@d, d2(p2, cpu 1)@d, d3(p3, cpu 1)@d, d4(p4, cpu 1)@d, d5(p5, cpu 1)@d, e1(p1, cpu 1)@e, e2(p2, cpu 1)@e, e3(p3, cpu 1)@e, e4(p4, cpu 1)@e, e5(p5, cpu 1)@e. incoming: unit(cpu 5) → a. evict: b1 [FS], b2 [FS], c1 [FS], c2 [FS], e1 [FS]",
        {},
        id="hierarchical preemption",
    ),
    pytest.param(
        "tree: CQ a(cpu=5, in ROOT, w=10, wCQ=LP, rec=Any); CQ b(in RIGHT, w=0.1); Cohort ROOT(); Cohort RIGHT(cpu=1, in ROOT, w=0.1). admitted: a1(p-1, cpu 1)@a, a2(p-1, cpu 1)@a, a3(p-1, cpu 1)@a, b1(p-1, cpu 1)@b. incoming: unit(cpu 5) → a. evict: a1 [InCQ], a2 [InCQ], a3 [InCQ]",
        {},
        id="borrowing cq in non-borrowing cohort is protected",
    ),
    pytest.param(
        "tree: CQ a(cpu=5, in ROOT, w=10, wCQ=LP, rec=LP); CQ b(in RIGHT, w=0.1); Cohort ROOT(); Cohort RIGHT(cpu=3, in ROOT, w=0.1). admitted: a1(p-1, cpu 1)@a, a2(p-1, cpu 1)@a, a3(p-1, cpu 1)@a, b1(p100, cpu 4)@b. incoming: unit(cpu 4) → a. evict: a1 [InCQ], a2 [InCQ], a3 [InCQ]",
        {},
        id="forced to preempt within clusterqueue because borrowing workload too important",
    ),
    pytest.param(
        "tree: CQ a(cpu=0, in AAA, rec=Any); CQ b(cpu=0, in BBB); Cohort ROOT(); Cohort A(in ROOT, w=1.01); Cohort AA(in A); Cohort AAA(in AA); Cohort B(in ROOT, w=0.99); Cohort BB(in B); Cohort BBB(in BB); Cohort C(in ROOT); Cohort CC(in C); Cohort CCC(in CC); Cohort CCCC(cpu=1, in CCC). admitted: b1(cpu 1)@b. incoming: a1(cpu 1) → a. evict: b1 [FS]",
        {},
        id="deep preemption",
    ),
    pytest.param(
        "tree: CQ a(cpu=1, in ROOT, w=0.0, rec=Any); CQ b(cpu=0, in ROOT, w=1.0). admitted: b1(cpu 1)@b. incoming: a1(cpu 1) → a. evict: b1 [Reclaim]",
        {},
        id="cq with zero weight can reclaim nominal quota",
    ),
    pytest.param(
        "tree: CQ a(cpu=0, in A, w=0.0, rec=Any); CQ b(cpu=0, in ROOT, w=1.0); Cohort A(cpu=1, in ROOT, w=0.0). admitted: b1(cpu 1)@b. incoming: a1(cpu 1) → a. evict: b1 [FS]",
        {},
        id="cohort with zero weight can reclaim nominal quota",
    ),
    pytest.param(
        "tree: CQ a(cpu=3, cpu=0, flavors=premium,cheap, in all, rec=Any); CQ b(cpu=0, cpu=6, flavors=premium,cheap, in all). admitted: a_prem1(cpu 1, fl=premium)@a, a_prem2(cpu 1, fl=premium)@a, a_cheap1(cpu 1, fl=cheap)@a, a_cheap2(cpu 1, fl=cheap)@a, a_cheap3(cpu 1, fl=cheap)@a, a_cheap4(cpu 1, fl=cheap)@a, a_cheap5(cpu 1, fl=cheap)@a, b_prem1(cpu 1, fl=premium)@b. incoming: a_incoming(cpu 1) → a. evict: b_prem1 [Reclaim]",
        {"assignmentFlavor": "premium"},
        id="nominal first: workload fitting within nominal can preempt despite high aggregate DRS",
    ),
    pytest.param(
        "tree: CQ a(cpu=1, in all, w=0, rec=Any); CQ b(cpu=1, in all, w=1). admitted: a1(cpu 1)@a, b1(cpu 1)@b, b2(cpu 1)@b. incoming: a_incoming(cpu 1) → a. evict: none",
        {},
        id="zero weight borrowing preemptor cannot preempt from a borrowing CQ with a non-zero weight",
    ),
    pytest.param(
        "tree: Cohort all(cpu=3); CQ a(cpu=1, in all, w=0, rec=Any); CQ b(cpu=0, in all, w=0). admitted: b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b. incoming: a_incoming(cpu 2) → a. evict: b1 [FS]",
        {},
        id="zero weight borrowing preemptor can preempt from a borrowing CQ which also has zero weight",
    ),
    pytest.param(
        "tree: Cohort all(cpu=3); CQ a(cpu=1, in all, w=1, rec=Any); CQ b(cpu=0, in all, w=1). admitted: b1(cpu 1)@b, b2(cpu 1)@b, b3(cpu 1)@b. incoming: a_incoming(cpu 2) → a. evict: b1 [FS]",
        {},
        id="non-zero weight borrowing preemptor preempts from a borrowing CQ",
    ),
    pytest.param(
        "tree: Cohort A(cpu=1, in ROOT, w=0); CQ p(cpu=2, in A, w=1, rec=Any); CQ y(cpu=2, in A, w=1); CQ x(cpu=1, in ROOT, w=1). admitted: p1(cpu 2)@p, y1(cpu 2)@y, y2(cpu 2)@y, x1(cpu 1)@x, x2(cpu 1)@x. incoming: p_incoming(cpu 1) → p. evict: y1 [FS], x1 [FS]",
        {},
        id="candidates skipped by the first strategy are still available to the second strategy",
    ),
]


@pytest.mark.parametrize(("text", "extra"), CASES)
def test_fair_preemption(text: str, extra: dict[str, Any]) -> None:
    case = parse_case(text, TREE, **extra)
    assert victims(case, "fair") == wanted(case)
