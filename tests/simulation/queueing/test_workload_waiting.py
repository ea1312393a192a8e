"""What a Workload without quota says: gates, queues that cannot take it, and every reason by name when that is asked for.

Ids are those of the upstream scenario list.
"""

from __future__ import annotations

from typing import Any

import pytest

from corral.configuration.queueing import QueueingConfig
from corral.core.meta import Key, Obj
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.decide.queueing.state import QueueingState
from corral.kinds.kueue import names
from corral.kinds.kueue.gates import FeatureGates
from corral.testing.queueing import EPOCH, make_cluster_queue, make_flavor, make_local_queue, make_workload
from corral.workload.waiting_reasons import BYPASSED

from .workload_cases import Case, check, check_case, cond, reserved
from .world import cluster_queue, local_queue

GRANULAR = QueueingConfig(gates=FeatureGates({"UnadmittedWorkloadsObservability": True}))
EXPLICIT = QueueingConfig(
    gates=FeatureGates({"UnadmittedWorkloadsObservability": True, "UnadmittedWorkloadsExplicitStatus": True})
)
UNHASHED = QueueingConfig(
    gates=FeatureGates(
        {
            "UnadmittedWorkloadsObservability": True,
            "UnadmittedWorkloadsExplicitStatus": True,
            "SchedulingEquivalenceHashing": False,
        }
    )
)
NO_RESERVATION = ("False", "NoReservation", "The workload has no reservation")
PENDING = ("False", "PendingEvaluation", "Workload is pending evaluation in the scheduling queue")
DEACTIVATED = ("False", "Deactivated", "The workload is deactivated")
CLEARED = "AdmissionGatedBy cleared, waiting for quota reservation"
CLEARED_EVENT = [("AdmissionGateCleared", "Admission gate cleared, workload is now admissible")]


def told(reason: str, message: str) -> list[Obj]:
    return [cond("QuotaReserved", "False", reason, message)]


def gated(by: str) -> Obj:
    return {"annotations": {names.ADMISSION_GATED_BY: by}}


def says(status: str, reason: str, message: str, **more: Any) -> Any:
    """It is not admitted either, and says why, in granular words."""
    return {"want": {"QuotaReserved": (status, reason, message), "Admitted": NO_RESERVATION}, **more}


def with_a_verdict(*, hashing: bool = True) -> QueueingState:
    """What the scheduler knows after the workload did not fit."""
    features = Features(granular_reasons=True, scheduling_hash=hashing)
    state = QueueingState(QueueingSettings(features=features))
    state.upsert_flavor(make_flavor("f"))
    state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 0}}, cohort="co"))
    state.upsert_cluster_queue(make_cluster_queue("lender", {"f": {"cpu": 1}}, cohort="co"))
    state.upsert_local_queue(make_local_queue("lq", "cq"))
    state.upsert_local_queue(make_local_queue("other", "lender"))
    state.upsert_workload(make_workload("taker", "other", requests={"cpu": 1}))
    state.plan_cycle(EPOCH)
    state.upsert_workload(make_workload("w", "lq", requests={"cpu": 1}, created=1))
    (wait,) = state.plan_cycle(EPOCH).waiting
    assert (wait.key, wait.reason) == (Key("default", "w"), "WaitingForQuota")
    return state


LEGACY: dict[str, Case] = {
    "WLC-39 gated": Case(
        metadata=gated("example.com/a"),
        want={"QuotaReserved": ("False", "AdmissionGated", "Admission is gated by: example.com/a"), "Admitted": None},
        want_events=[("AdmissionGated", "Workload admission is gated by: example.com/a")],
    ),
    "WLC-42 a missing queue outweighs what was said": Case(
        conditions=told(*PENDING[1:]),
        objects=[cluster_queue()],
        want={"QuotaReserved": ("False", "Inadmissible", "LocalQueue lq doesn't exist"), "Admitted": None},
    ),
    "WLC-43 the gate is gone": Case(
        conditions=told("AdmissionGated", "Admission is gated by: example.com/a"),
        want={"QuotaReserved": ("False", "Pending", CLEARED), "Admitted": None},
        want_events=CLEARED_EVENT,
    ),
    "WLC-44 two gates": Case(
        metadata=gated("example.com/a,example.com/b"),
        want={"QuotaReserved": ("False", "AdmissionGated", "Admission is gated by: example.com/a,example.com/b")},
        want_events=[("AdmissionGated", "Workload admission is gated by: example.com/a,example.com/b")],
    ),
    "WLC-45 a gate outweighs a reservation": Case(
        conditions=[reserved()],
        admission=True,
        metadata=gated("example.com/a"),
        want={"QuotaReserved": ("False", "AdmissionGated", "Admission is gated by: example.com/a"), "Admitted": None},
        want_status={"admission": None},
        want_events=[("AdmissionGated", "Workload admission is gated by: example.com/a")],
    ),
    "WLC-45b gates do not count": Case(
        conditions=[reserved()],
        admission=True,
        metadata=gated("example.com/a"),
        config=QueueingConfig(gates=FeatureGates({"AdmissionGatedBy": False})),
        want={"Admitted": ("True", "Admitted", "The workload is admitted")},
    ),
    "WLC-46 no gate, nothing to say": Case(want={"QuotaReserved": None, "Admitted": None}, want_events=[]),
    "WLC-96 LocalQueue going under a reservation": Case(
        conditions=[reserved()],
        admission=True,
        deleting=("LocalQueue",),
        checks=[check()],
        required=[{"name": "ac"}],
        want={"QuotaReserved": ("False", "Inadmissible", "LocalQueue lq is terminating or missing")},
        want_status={"admission": None},
    ),
    "WLC-98 ClusterQueue gone under a reservation": Case(
        conditions=[reserved()],
        admission=True,
        objects=[local_queue()],
        checks=[check()],
        want_seen=[
            ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq"),
            ("False", "Inadmissible", "ClusterQueue cq is terminating or missing"),
            ("False", "Inadmissible", "ClusterQueue cq doesn't exist"),
        ],
        want_status={"admission": None},
    ),
    "WLC-99 ClusterQueue going under a reservation": Case(
        conditions=[reserved()],
        admission=True,
        deleting=("ClusterQueue",),
        checks=[check()],
        required=[{"name": "ac"}],
        want={"QuotaReserved": ("False", "Inadmissible", "ClusterQueue cq is terminating or missing")},
        want_status={"admission": None},
    ),
}


def lost(reason: str, message: str, then: tuple[str, str, str], **more: Any) -> Case:
    """A reservation that cannot stand, in granular words; then it waits."""
    first = ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    seen = [first, ("False", reason, message), then]
    return Case(conditions=[reserved()], admission=True, checks=[check()], config=GRANULAR, want_seen=seen, **more)


NAMED: dict[str, Case] = {
    "WLC-37 deactivated": Case(
        conditions=[cond("Evicted", reason="Deactivated", message="The workload is deactivated")],
        spec={"active": False},
        config=GRANULAR,
        **says(*DEACTIVATED, want_active=False),
    ),
    "WLC-38 reactivated": Case(conditions=told(*DEACTIVATED[1:]), config=GRANULAR, **says(*PENDING)),
    "WLC-39b gated": Case(
        metadata=gated("example.com/a"),
        config=GRANULAR,
        **says("False", "AdmissionGated", "Admission is gated by: example.com/a"),
    ),
    "WLC-40 the plain word becomes granular": Case(
        conditions=told("Pending", "Workload is pending"), config=GRANULAR, **says(*PENDING)
    ),
    "WLC-41 what is granular stays": Case(conditions=told(*PENDING[1:]), config=GRANULAR, **says(*PENDING)),
    "WLC-43b the gate is gone": Case(
        conditions=told("AdmissionGated", "Admission is gated by: example.com/a"),
        config=GRANULAR,
        **says("False", "PendingEvaluation", CLEARED, want_events=CLEARED_EVENT),
    ),
    "WLC-48 no LocalQueue": Case(
        objects=[cluster_queue()],
        config=GRANULAR,
        **says("False", "Misconfigured", "LocalQueue lq doesn't exist"),
    ),
    "WLC-49 ClusterQueue stopped": Case(
        objects=[cluster_queue(stopPolicy="HoldAndDrain"), local_queue()],
        config=GRANULAR,
        **says("False", "Suspended", "ClusterQueue cq is inactive"),
    ),
    "WLC-51 new, explicitly": Case(config=EXPLICIT, **says(*PENDING)),
    "WLC-52 new, nothing is said": Case(config=GRANULAR, want={"QuotaReserved": None, "Admitted": None}),
    "WLC-53 equal ones did not fit": Case(
        config=EXPLICIT, state=with_a_verdict(), **says("False", "WaitingForQuota", BYPASSED)
    ),
    "WLC-53b nor after it was told to wait": Case(
        conditions=told(*PENDING[1:]),
        config=GRANULAR,
        state=with_a_verdict(),
        **says("False", "WaitingForQuota", BYPASSED),
    ),
    "WLC-54 equal ones did not fit, but nothing is said of new ones": Case(
        config=GRANULAR, state=with_a_verdict(), want={"QuotaReserved": None, "Admitted": None}
    ),
    "WLC-55 what the scheduler said is better": Case(
        conditions=told("WaitingForQuota", "insufficient cpu"),
        config=EXPLICIT,
        state=with_a_verdict(),
        **says("False", "WaitingForQuota", "insufficient cpu"),
    ),
    "WLC-56 equal ones are not remembered": Case(
        config=UNHASHED, state=with_a_verdict(hashing=False), **says(*PENDING)
    ),
    "WLC-95b LocalQueue gone under a reservation": lost(
        "Misconfigured",
        "LocalQueue lq is terminating or missing",
        ("False", "Misconfigured", "LocalQueue lq doesn't exist"),
        objects=[cluster_queue()],
    ),
    "WLC-96b LocalQueue going under a reservation": lost(
        "Misconfigured",
        "LocalQueue lq is terminating or missing",
        PENDING,
        deleting=("LocalQueue",),
        required=[{"name": "ac"}],
    ),
    "WLC-97b LocalQueue held under a reservation": lost(
        "Suspended",
        "LocalQueue lq is stopped",
        ("False", "Suspended", "LocalQueue lq is inactive"),
        objects=[cluster_queue(), local_queue(stopPolicy="Hold")],
    ),
    "WLC-98b ClusterQueue gone under a reservation": lost(
        "Misconfigured",
        "ClusterQueue cq is terminating or missing",
        ("False", "Misconfigured", "ClusterQueue cq doesn't exist"),
        objects=[local_queue()],
    ),
    "WLC-99b ClusterQueue going under a reservation": lost(
        "Misconfigured",
        "ClusterQueue cq is terminating or missing",
        PENDING,
        deleting=("ClusterQueue",),
        required=[{"name": "ac"}],
    ),
    "WLC-100b ClusterQueue held under a reservation": lost(
        "Suspended",
        "ClusterQueue cq is stopped",
        ("False", "Suspended", "ClusterQueue cq is inactive"),
        objects=[cluster_queue(stopPolicy="Hold"), local_queue()],
    ),
    "WLC-102 deactivation outweighs a missing queue": Case(
        conditions=[cond("Evicted", reason="Deactivated", message="The workload is deactivated")],
        objects=[],
        spec={"active": False},
        config=GRANULAR,
        **says(*DEACTIVATED, want_active=False),
    ),
    "WLC-103 no matching flavor": Case(
        conditions=told("NoMatchingFlavor", "none"), config=GRANULAR, **says("False", "NoMatchingFlavor", "none")
    ),
    "WLC-104 waiting for pods": Case(
        conditions=told("WaitingForPodsReady", "wait"), config=GRANULAR, **says("False", "WaitingForPodsReady", "wait")
    ),
    "WLC-105 more than there is": Case(
        conditions=told("ExceedsMaxQuota", "large"), config=GRANULAR, **says("False", "ExceedsMaxQuota", "large")
    ),
    "WLC-106 gated already": Case(
        conditions=told("AdmissionGated", "Admission is gated by: example.com/a"),
        metadata=gated("example.com/a"),
        config=GRANULAR,
        **says("False", "AdmissionGated", "Admission is gated by: example.com/a", want_events=[]),
    ),
    "WLC-107 the queue runs again": Case(
        conditions=told("Suspended", "LocalQueue lq is inactive"), config=GRANULAR, **says(*PENDING)
    ),
    "WLC-108 the queue is there now": Case(
        conditions=told("Misconfigured", "LocalQueue lq doesn't exist"), config=GRANULAR, **says(*PENDING)
    ),
    "WLC-109b a new workload is left to the scheduler": Case(
        config=GRANULAR, want={"QuotaReserved": None, "Admitted": None}
    ),
    "WLC-110b LocalQueue held": Case(
        objects=[cluster_queue(), local_queue(stopPolicy="Hold")],
        config=GRANULAR,
        **says("False", "Suspended", "LocalQueue lq is inactive"),
    ),
    "WLC-112b no ClusterQueue": Case(
        objects=[local_queue()], config=GRANULAR, **says("False", "Misconfigured", "ClusterQueue cq doesn't exist")
    ),
}


@pytest.mark.parametrize("name", LEGACY)
def test_waiting(name: str) -> None:
    check_case(LEGACY[name])


@pytest.mark.parametrize("name", NAMED)
def test_waiting_by_name(name: str) -> None:
    check_case(NAMED[name])


def test_a_workload_on_hold_says_so_and_waits_in_no_queue() -> None:
    """WLC-87."""
    state = with_a_verdict()
    message = "StatefulSet scaled to zero; workload on hold"
    held = make_workload("held", "lq", requests={"cpu": 1})
    held["status"] = {"conditions": [cond("QuotaReserved", "False", "OnHold", message)]}
    state.upsert_workload(held)
    assert [view.key.name for view in state.questions.pending("cq")] == ["w"]
    for config in (QueueingConfig(), GRANULAR):
        case = Case(
            conditions=[*told("OnHold", message), cond("Admitted", "False", "NoReservation", NO_RESERVATION[2])],
            config=config,
            state=state,
            want={"QuotaReserved": ("False", "OnHold", message), "Requeued": None, "Admitted": NO_RESERVATION},
        )
        check_case(case)
