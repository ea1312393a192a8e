"""One cycle of the classical scheduler, one sentence per case."""

from __future__ import annotations

import pytest
from scenario import Scenario

CASES = {
    "use second flavor when the first has no preemption candidates; WhenCanPreempt: MayStopSearch": """
        queue q: on-demand cpu=1, spot cpu=1 ; within=LowerPriority whenCanPreempt=MayStopSearch
        run a @q: on-demand cpu=1 p=5
        wait new @q: cpu=1
        ->
        admit new: main 1x cpu@spot
    """,
    "workload fits in single clusterQueue, with check state ready": """
        queue sales: default cpu=50
        wait foo @sales: one 10x cpu=1 check=Ready
        ->
        admit foo: one 10x cpu@default
    """,
    "workload fits in single clusterQueue, with check state pending": """
        queue sales: default cpu=50
        wait foo @sales: one 10x cpu=1 check=Pending
        ->
        admit foo: one 10x cpu@default
    """,
    "a workload with a failed check is not considered": """
        queue sales: default cpu=50
        wait foo @sales: cpu=1 check=Rejected
        ->
        parked foo: The workload has failed admission checks
    """,
    "flavors with mixed misconfiguration and insufficient quota": """
        flavor tainted taint key=val:NoSchedule
        queue q: tainted cpu=10, default cpu=4
        run a @q: default cpu=4
        wait new @q: cpu=1
        ->
        parked new: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed, untolerated taint {key val NoSchedule <nil>} in flavor tainted
    """,
    "flavors with mixed taint mismatch and exceeding limits": """
        flavor tainted taint key=val:NoSchedule
        queue q: tainted cpu=10, default cpu=4
        wait new @q: cpu=5
        ->
        parked new: couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered podsets requests (0) + current podset request (5) > maximum capacity (4), untolerated taint {key val NoSchedule <nil>} in flavor tainted
    """,
    "flavors are structurally incompatible": """
        flavor tainted taint key=val:NoSchedule
        flavor other taint key=val2:NoSchedule
        queue q: tainted cpu=10, other cpu=10
        wait new @q: cpu=1
        ->
        parked new: couldn't assign flavors to pod set main: untolerated taint {key val NoSchedule <nil>} in flavor tainted, untolerated taint {key val2 NoSchedule <nil>} in flavor other
    """,
    "single clusterQueue full": """
        queue sales: default cpu=50 ; strict
        run assigned @sales: one 40x default cpu=1
        wait new @sales: one 11x cpu=1
        ->
        left new: couldn't assign flavors to pod set one: insufficient unused quota for cpu in flavor default, 1 more needed
    """,
    "failed to match clusterQueue selector": """
        namespace default dep=sales
        queue eng: default cpu=50 ; strict selector=dep:eng
        wait new @eng: cpu=1
        ->
        parked new: workload namespace doesn't match ClusterQueue selector
    """,
    "admit in different cohorts": """
        queue sales: default cpu=50
        queue alpha in eng: on-demand cpu=50/50
        wait s @sales: one 1x cpu=1
        wait a @alpha: one 51x cpu=1
        queue beta in eng: on-demand cpu=50/10
        ->
        admit s: one 1x cpu@default
        admit a: one 51x cpu@on-demand
    """,
    "admit in same cohort with no borrowing": """
        queue alpha in eng: on-demand cpu=50/50
        queue beta in eng: on-demand cpu=50/10
        wait a @alpha: one 40x cpu=1
        wait b @beta: one 40x cpu=1
        ->
        admit a: one 40x cpu@on-demand
        admit b: one 40x cpu@on-demand
    """,
    "assign multiple resources and flavors": """
        queue q: on-demand cpu=50, spot cpu=100 | model-a gpu=20
        wait new @q: one 10x cpu=6 gpu=1, two 40x cpu=1
        ->
        admit new: one 10x cpu@spot gpu@model-a, two 40x cpu@on-demand
    """,
    "cannot borrow if cohort was assigned and would result in overadmission": """
        queue alpha in eng: on-demand cpu=50/50
        queue beta in eng: on-demand cpu=50/10
        wait a @alpha: one 45x cpu=1 t=1
        wait b @beta: one 56x cpu=1 t=2
        ->
        admit a: one 45x cpu@on-demand
        left b: Workload no longer fits after processing another workload
    """,
    "can borrow if cohort was assigned and will not result in overadmission": """
        queue alpha in eng: on-demand cpu=50/50
        queue beta in eng: on-demand cpu=50/10
        wait a @alpha: one 45x cpu=1
        wait b @beta: one 55x cpu=1
        ->
        admit a: one 45x cpu@on-demand
        admit b: one 55x cpu@on-demand
    """,
    "can borrow if needs reclaim from cohort in different flavor": """
        queue alpha in eng: on-demand cpu=10, spot cpu=0
        queue beta in eng: on-demand cpu=0, spot cpu=10 ; reclaim=LowerPriority
        run old @alpha: spot cpu=10 p=5
        wait new @beta: cpu=5
        ->
        admit new: main 1x cpu@on-demand
    """,
    "workload exceeds lending limit when borrow in cohort": """
        queue a in lend: default cpu=3//2
        queue b in lend: default cpu=2//2
        run old @b: default cpu=2
        wait new @b: one 3x cpu=1
        ->
        parked new: couldn't assign flavors to pod set one: insufficient unused quota for cpu in flavor default, 1 more needed
    """,
    "hierarchical cohort respects lending limit when borrowing": """
        cohort top
        cohort left in top: default cpu=10//3
        cohort right in top
        queue l in left: default cpu=0
        queue r in right: default cpu=0
        wait new @r: cpu=4
        ->
        parked new: couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered podsets requests (0) + current podset request (4) > maximum capacity (3)
    """,
    "hierarchical cohort allows borrowing up to lending limit": """
        cohort top
        cohort left in top: default cpu=10//3
        cohort right in top
        queue l in left: default cpu=0
        queue r in right: default cpu=0
        wait new @r: cpu=3
        ->
        admit new: main 1x cpu@default
    """,
    "preempt workloads in ClusterQueue and cohort": """
        queue alpha in eng: on-demand cpu=50
        queue beta in eng: on-demand cpu=50 ; within=LowerPriority reclaim=Any
        run borrower @alpha: on-demand cpu=60 p=0
        run low @beta: on-demand cpu=30 p=-1
        wait preemptor @beta: cpu=50
        ->
        preempt borrower for preemptor: InCohortReclamation
        preempt low for preemptor: InClusterQueue
        left preemptor: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor on-demand, 40 more needed. Pending the preemption of 2 workload(s)
    """,
    "multiple CQs need preemption": """
        queue alpha in eng: default cpu=10 ; within=LowerPriority
        queue beta in eng: default cpu=10 ; reclaim=Any
        run hog @alpha: default cpu=11 p=1
        run own @beta: default cpu=9
        wait preemptor @beta: cpu=1 p=0
        wait pending @alpha: cpu=1 p=1
        ->
        preempt hog for preemptor: InCohortReclamation
        left preemptor
        parked pending
    """,
    "cannot borrow resource not listed in clusterQueue": """
        queue alpha in eng: default cpu=5
        queue beta in eng: default cpu=5 | model-a gpu=10
        wait new @alpha: gpu=1
        ->
        parked new: couldn't assign flavors to pod set main: resource gpu unavailable in ClusterQueue
    """,
    "not enough resources to borrow, fallback to next flavor; WhenCanPreempt: TryNextFlavor": """
        queue alpha in eng: on-demand cpu=50/50, spot cpu=100/0
        queue beta in eng: on-demand cpu=50/10, spot cpu=0/100
        run old @beta: on-demand cpu=45
        wait new @alpha: one 60x cpu=1
        ->
        admit new: one 60x cpu@spot
    """,
    "workload should not fit in clusterQueue with nonexistent flavor": """
        queue q: missing-flavor cpu=50
        wait new @q: cpu=1
        ->
        left new
    """,
    "no overadmission while borrowing": """
        queue alpha in eng: on-demand cpu=50/50
        queue beta in eng: on-demand cpu=50/10
        queue gamma in eng: on-demand cpu=50/10
        run old @gamma: one 51x on-demand cpu=1
        wait a @alpha: one 45x cpu=1 t=2
        wait b @beta: one 55x cpu=1 t=1
        ->
        admit a: one 45x cpu@on-demand
        left b: Workload no longer fits after processing another workload
    """,
    "partial admission single variable pod set": """
        queue sales: default cpu=50
        wait new @sales: one 60x cpu=1 min=20
        ->
        admit new: one 50x cpu@default
    """,
    "partial admission single variable pod set, preempt first": """
        queue beta: model-a gpu=20 ; within=LowerPriority
        run old @beta: model-a gpu=10 p=-4
        wait new @beta: one 20x gpu=1 min=10 p=4
        ->
        preempt old for new: InClusterQueue
        left new: couldn't assign flavors to pod set one: insufficient unused quota for gpu in flavor model-a, 10 more needed. Pending the preemption of 1 workload(s)
    """,
    "partial admission single variable pod set, preempt with partial admission": """
        queue beta: model-a gpu=20 ; within=LowerPriority
        run old @beta: model-a gpu=10 p=-4
        wait new @beta: one 30x gpu=1 min=11 p=4
        ->
        preempt old for new: InClusterQueue
        left new: couldn't assign flavors to pod set one: insufficient unused quota for gpu in flavor model-a, 10 more needed. Pending the preemption of 1 workload(s)
    """,
    "partial admission multiple variable pod sets": """
        queue sales: default cpu=50
        wait new @sales: one 20x cpu=1, two 30x cpu=1 min=10, three 15x cpu=1 min=5
        ->
        admit new: one 20x cpu@default, two 20x cpu@default, three 10x cpu@default
    """,
    "two workloads can borrow different resources from the same flavor in the same cycle": """
        queue one in co: default r1=10/10 r2=10/10
        queue two in co: default r1=10/10 r2=10/10
        queue three in co: default r1=10/10 r2=10/10
        wait w1 @one: r1=16
        wait w2 @two: r2=16
        ->
        admit w1: main 1x r1@default
        admit w2: main 1x r2@default
    """,
    "two workloads can borrow the same resources from the same flavor in the same cycle if fits in the cohort quota": """
        queue one in co: default r1=10/10
        queue two in co: default r1=10/10
        queue three in co: default r1=10/10
        wait w1 @one: r1=16
        wait w2 @two: r1=14
        ->
        admit w1: main 1x r1@default
        admit w2: main 1x r1@default
    """,
    "only one workload can borrow one resources from the same flavor in the same cycle if cohort quota cannot fit": """
        queue one in co: default r1=10/10
        queue two in co: default r1=10/10
        queue three in co: default r1=10/10
        wait w1 @one: r1=16 t=1
        wait w2 @two: r1=16 t=2
        ->
        admit w1: main 1x r1@default
        left w2: Workload no longer fits after processing another workload
    """,
    "preemption while borrowing, workload waiting for preemption should not block a borrowing workload in another CQ": """
        queue standard in shared: default cpu=6/12 ; reclaim=LowerPriority borrow=LowerPriority
        queue best in shared: default cpu=0/10 ; borrow=LowerPriority
        queue pool in shared: default cpu=12
        run hog @best: default cpu=6 p=-1
        run mid @standard: default cpu=8
        wait preemptor @standard: cpu=9 p=3
        wait borrower @best: cpu=1 p=-1
        ->
        preempt hog for preemptor: InCohortReclaimWhileBorrowing
        admit borrower: main 1x cpu@default
        left preemptor
    """,
    "minimal preemptions when target queue is exhausted": """
        queue a in co: default cpu=2 ; within=LowerPriority reclaim=Any
        queue b in co: default cpu=2
        queue c in co: default cpu=2
        run a1 @a: default cpu=1 p=-2
        run a2 @a: default cpu=1 p=-2
        run a3 @a: default cpu=1 p=-1
        run b1 @b: default cpu=1
        run b2 @b: default cpu=1
        run b3 @b: default cpu=1
        wait incoming @a: cpu=2
        ->
        preempt a1 for incoming: InClusterQueue
        preempt a2 for incoming: InClusterQueue
        left incoming: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed. Pending the preemption of 2 workload(s)
    """,
    "A workload is only eligible to do preemptions if it fits fully within nominal quota": """
        queue a in co: default cpu=1 ; within=LowerPriority reclaim=Any
        queue b in co: default cpu=2
        run low @a: default cpu=1 p=-1
        run other @b: default cpu=2
        wait new @a: cpu=2
        ->
        parked new: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed
    """,
    "multiple preemptions without borrowing": """
        queue alpha in co: default cpu=2 ; within=LowerPriority
        queue beta in co: default cpu=2 ; within=LowerPriority
        run a @alpha: default cpu=2
        run b @beta: default cpu=2
        wait pa @alpha: cpu=2 p=100
        wait pb @beta: cpu=2 p=100
        ->
        preempt a for pa: InClusterQueue
        preempt b for pb: InClusterQueue
        left pa
        left pb
    """,
    "multiple preemptions preemption possible after earlier workload fits": """
        queue alpha in co: default cpu=2 ; within=LowerPriority
        queue beta in co: default cpu=2 ; within=LowerPriority reclaim=Any
        run b @beta: default cpu=2
        wait fits @alpha: cpu=2 p=100
        wait pb @beta: cpu=1 p=1
        ->
        admit fits: main 1x cpu@default
        left pb: Workload no longer fits after processing another workload
    """,
    "multiple preemptions skip preemption when shared limited resource": """
        queue alpha in co: default cpu=2/0 ; reclaim=Any
        queue beta in co: default cpu=2/0 ; reclaim=Any
        queue hog in co: default cpu=0
        run h @hog: default cpu=4
        wait pa @alpha: cpu=2 p=100 t=1
        wait pb @beta: cpu=2 p=99 t=2
        ->
        preempt h for pa: InCohortReclamation
        left pa
        left pb: Workload has overlapping preemption targets with another workload
    """,
    "not enough resources": """
        queue q: default cpu=2
        run old @q: default cpu=2
        wait new @q: cpu=1
        ->
        parked new: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed
    """,
    "container resource requests exceed limits": """
        queue q: default cpu=2 ; strict
        wait new @q: cpu=2 limit.cpu=1
        ->
        left new: resources validation failed: spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: requests must not exceed its limits
    """,
    "prefer reclamation over cq priority based preemption": """
        queue other in co: on-demand gpu=10, spot gpu=0
        queue own in co: on-demand gpu=0, spot gpu=10 ; within=LowerPriority reclaim=Any
        run on @other: on-demand gpu=10 p=5
        run mine @own: spot gpu=5 p=-1
        run theirs @other: spot gpu=5 p=5
        wait preemptor @own: gpu=1
        ->
        preempt theirs for preemptor: InCohortReclamation
        left preemptor
    """,
    "prefer first preemption flavor when second flavor also requires cq preemption": """
        queue own: on-demand gpu=5, spot gpu=5 ; within=LowerPriority
        run one @own: on-demand gpu=5 p=-1
        run two @own: spot gpu=5 p=-1
        wait preemptor @own: gpu=1
        ->
        preempt one for preemptor: InClusterQueue
        left preemptor
    """,
    "workload requiring reclaimation prioritized over wl in another full cq": """
        queue full in co: on-demand gpu=5
        queue mine in co: on-demand gpu=5 ; reclaim=Any
        run big @full: on-demand gpu=10
        wait other @full: gpu=5 t=1
        wait reclaimer @mine: gpu=5 t=2
        ->
        preempt big for reclaimer: InCohortReclamation
        left reclaimer
        parked other
    """,
    "capacity not blocked when lending clusterqueue can reclaim (ReclaimWithinCohort=Any)": """
        queue lender in co: default cpu=6 ; reclaim=Any
        queue borrower in co: default cpu=0
        run mine @lender: default cpu=3 p=0
        wait big @lender: cpu=4 p=1 t=1
        wait small @borrower: cpu=3 p=0 t=2
        ->
        admit small: main 1x cpu@default
        parked big
    """,
    "capacity blocked when lending clusterqueue not guaranteed to reclaim (ReclaimWithinCohort=Never)": """
        queue lender in co: default cpu=6
        queue borrower in co: default cpu=0
        run mine @lender: default cpu=3 p=0
        wait big @lender: cpu=4 p=1 t=1
        wait small @borrower: cpu=3 p=0 t=2
        ->
        parked big
        left small: Workload no longer fits after processing another workload
    """,
    "capacity blocked when lending clusterqueue not guaranteed to reclaim (ReclaimWithinCohort=LowerPriority)": """
        queue lender in co: default cpu=6 ; reclaim=LowerPriority
        queue borrower in co: default cpu=0
        run mine @lender: default cpu=3 p=0
        wait big @lender: cpu=4 p=1 t=1
        wait small @borrower: cpu=3 p=0 t=2
        ->
        parked big
        left small: Workload no longer fits after processing another workload
    """,
    "in a hierarchical cohort, workload borrowing less is scheduled first": """
        cohort root: default cpu=10
        cohort left in root: default cpu=10
        cohort right in root
        queue near in left: default cpu=0
        queue far in right: default cpu=0
        wait far-first @far: cpu=15 t=1
        wait near-later @near: cpu=10 t=2
        ->
        admit near-later: main 1x cpu@default
        left far-first: Workload no longer fits after processing another workload
    """,
    "don't assign flavor if there are no candidates for preemption": """
        queue q: on-demand cpu=1, spot cpu=1 ; within=LowerPriority whenCanPreempt=MayStopSearch
        run a @q: on-demand cpu=1 p=5
        run b @q: spot cpu=1 p=-1
        wait new @q: cpu=1
        ->
        preempt b for new: InClusterQueue
        left new
    """,
    "workload-slice fits in single clusterQueue": """
        queue sales: default cpu=50
        run old @sales: one 10x default cpu=1
        wait new @sales: one 50x cpu=1 replaces=old
        ->
        admit new: one 50x cpu@default
    """,
    "admit to second flavor when first needs preemption; WhenCanPreempt: TryNextFlavor": """
        queue q: on-demand cpu=1, spot cpu=1 ; within=LowerPriority
        run a @q: on-demand cpu=1 p=-1
        wait new @q: cpu=1
        ->
        admit new: main 1x cpu@spot
    """,
    "admit workload with zero-quantity request for resource not in ClusterQueue": """
        queue q: default cpu=1
        wait new @q: cpu=1 gpu=0
        ->
        admit new: main 1x cpu@default
    """,
    "preempt when workload requests zero of a resource not defined in ClusterQueue": """
        queue q: default cpu=2 ; within=LowerPriority
        run low @q: default cpu=2 p=-1
        wait new @q: cpu=2 gpu=0
        ->
        preempt low for new: InClusterQueue
        left new
    """,
    "PreemptionOverBorrowing preference: preempt in first flavor instead of borrowing in second": """
        queue q in co: on-demand cpu=5, spot cpu=0 ; within=LowerPriority whenCanBorrow=TryNextFlavor whenCanPreempt=TryNextFlavor preference=PreemptionOverBorrowing
        queue lender in co: on-demand cpu=0, spot cpu=5
        run low @q: on-demand cpu=5 p=-1
        wait new @q: cpu=5
        ->
        preempt low for new: InClusterQueue
        left new
    """,
    "PreemptionOverBorrowing preference: select fitting second flavor over first flavor with no preemption candidates": """
        queue q in co: on-demand cpu=5, spot cpu=0 ; within=LowerPriority whenCanBorrow=TryNextFlavor whenCanPreempt=TryNextFlavor preference=PreemptionOverBorrowing
        queue lender in co: on-demand cpu=0, spot cpu=5
        run high @q: on-demand cpu=5 p=9
        wait new @q: cpu=5
        ->
        admit new: main 1x cpu@spot
    """,
    "BorrowingOverPreemption preference: borrow in second flavor instead of preempting in first": """
        queue q in co: on-demand cpu=5, spot cpu=0 ; within=LowerPriority whenCanBorrow=TryNextFlavor whenCanPreempt=TryNextFlavor preference=BorrowingOverPreemption
        queue lender in co: on-demand cpu=0, spot cpu=5
        run low @q: on-demand cpu=5 p=-1
        wait new @q: cpu=5
        ->
        admit new: main 1x cpu@spot
    """,
    "prevent integer overflow when sum of requests over podsets exceeds MaxInt64": """
        queue q: default cpu=10
        wait new @q: ps1 1x cpu=9223372036854775, ps2 1x cpu=9223372036854775
        ->
        parked new: couldn't assign flavors to pod set ps1: insufficient quota for cpu in flavor default, previously considered podsets requests (0) + current podset request (9223372036854775) > maximum capacity (10)
    """,
    "prevent integer overflow in ResourceValue conversion to MilliValue": """
        queue q: default cpu=10
        wait new @q: ps1 1x cpu=9223372036854775807
        ->
        parked new: couldn't assign flavors to pod set ps1: insufficient quota for cpu in flavor default, previously considered podsets requests (0) + current podset request (9223372036854775807m) > maximum capacity (10)
    """,
}


@pytest.mark.parametrize("name", CASES, ids=list(CASES))
def test_schedule(name: str) -> None:
    Scenario(CASES[name]).check()


def test_partial_admission_disabled_multiple_variable_pod_sets() -> None:
    text = """
        queue sales: default cpu=50
        wait new @sales: one 20x cpu=1, two 30x cpu=1 min=10, three 15x cpu=1 min=5
        ->
        parked new: couldn't assign flavors to pod set three: insufficient quota for cpu in flavor default, previously considered podsets requests (50) + current podset request (15) > maximum capacity (50)
    """
    Scenario(text, partial_admission=False).check()


GATED = """
        queue q: default cpu=2 ; within=LowerPriority
        run low @q: default cpu=2 p=-1
        wait new @q: cpu=2 gated
        ->
"""


def test_block_preemptions_and_signal_when_a_preemption_gate_is_present() -> None:
    scenario = Scenario(GATED + "parked new: Workload requires preemption, but it's gated", preemption_gates=True)
    plan = scenario.state.plan_cycle(0.0)
    assert [wait.blocked_on_gate for wait in plan.waiting] == [True]
    assert not list(plan.preemptions)


def test_a_gate_does_not_matter_when_the_workload_fits_without_preemption() -> None:
    text = """
        queue q: default cpu=2 ; within=LowerPriority
        wait new @q: cpu=2 gated
        ->
        admit new
    """
    Scenario(text, preemption_gates=True).check()


def test_a_gate_does_not_matter_when_there_was_nothing_to_preempt() -> None:
    text = """
        queue q: default cpu=2 ; within=LowerPriority
        run high @q: default cpu=2 p=7
        wait new @q: cpu=2 gated
        ->
        parked new: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed
    """
    Scenario(text, preemption_gates=True).check()


def test_container_does_not_satisfy_limit_range_constraints() -> None:
    text = """
        queue q: default cpu=50 ; strict
        wait new @q: one 1x cpu=500m
        ->
        left new: resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: requests must not be above the limitRange max
    """
    scenario = Scenario(text)
    limits = {"spec": {"limits": [{"type": "Container", "max": {"cpu": "300m"}}]}}
    scenario.state.set_limit_ranges("default", [limits])
    scenario.check()


def test_error_during_admission_gives_the_quota_back_and_requeues() -> None:
    scenario = Scenario("queue q: default cpu=1\nwait new @q: cpu=1\n->")
    first = scenario.state.plan_cycle(0.0)
    (admission,) = first.admissions
    scenario.state.admission_failed(admission.key)
    assert [again.key for again in scenario.state.plan_cycle(0.0).admissions] == [admission.key]


def test_workload_in_a_missing_cluster_queue_says_so() -> None:
    scenario = Scenario("queue q: default cpu=1\nwait new @q: cpu=1\n->")
    scenario.state.delete_cluster_queue("q")
    assert not scenario.state.plan_cycle(0.0).decisions
    assert scenario.explain("new").message == "ClusterQueue q doesn't exist"
