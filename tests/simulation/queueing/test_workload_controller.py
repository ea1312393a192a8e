"""The Workload controller by itself, scenario by scenario; ids are those of the upstream scenario list.

Each case stores a Workload in some state, lets the controller look at it, and names the conditions it must have then.
"""

from __future__ import annotations

from typing import Any

import pytest

from corral.configuration.queueing import QueueingConfig, WaitForPodsReady
from corral.core.meta import Obj
from corral.core.resource import Resource

from .workload_cases import Case, admitted, check, check_case, cond, reserved
from .world import cluster_queue, local_queue

READY_5M = QueueingConfig(wait_for_pods_ready=WaitForPodsReady(timeout_s=300, recovery_timeout_s=180))
LIMITED = QueueingConfig(wait_for_pods_ready=WaitForPodsReady(timeout_s=300, recovery_timeout_s=180, backoff_limit=1))
ADMITTED = ("True", "Admitted", "The workload is admitted")
REJECTED = 'AdmissionCheck in Rejected state: "ac" (no)'
TIMEOUT = "Exceeded the PodsReady timeout default/w"
TOO_OFTEN = "exceeding the maximum number of re-queuing retries"
EXCEEDED: Any = {
    "want": {
        "Evicted": (
            "True",
            "DeactivatedDueToRequeuingLimitExceeded",
            f"The workload is deactivated due to {TOO_OFTEN}",
        ),
        "DeactivationTarget": None,
        "Admitted": ADMITTED,
    },
    "want_status": {
        "requeueState": None,
        "schedulingStats": {
            "evictions": [{"reason": "Deactivated", "underlyingCause": "RequeuingLimitExceeded", "count": 1}]
        },
    },
    "want_events": [
        ("EvictedDueToDeactivatedDueToRequeuingLimitExceeded", f"The workload is deactivated due to {TOO_OFTEN}")
    ],
    "want_active": False,
}


def timeouts(count: int) -> Obj:
    return {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": count}


def old_cluster_queue(*checks: str) -> tuple[Resource, Obj]:
    """A ClusterQueue as v1beta1 writes it, with a plain list of checks."""
    resource, queue = cluster_queue()
    return resource.at("v1beta1"), {**queue, "spec": {**queue["spec"], "admissionChecks": list(checks)}}


CASES: dict[str, Case] = {
    "WLC-17 assign admission checks of the ClusterQueue": Case(
        required=[{"name": "ac1"}, {"name": "ac2"}], want_checks={"ac1": "Pending", "ac2": "Pending"}
    ),
    "WLC-18 assign admission checks of a ClusterQueue of the old version": Case(
        objects=[old_cluster_queue("ac1", "ac2"), local_queue()],
        want_checks={"ac1": "Pending", "ac2": "Pending"},
    ),
    "WLC-19 admit": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "ac"}],
        checks=[check(state="Ready")],
        want={"Admitted": ADMITTED},
    ),
    "WLC-20 already admitted": Case(conditions=[reserved(), admitted()], admission=True, want={"Admitted": ADMITTED}),
    "WLC-27 max execution time not reached": Case(
        conditions=[reserved(60), admitted(60)],
        admission=True,
        spec={"maximumExecutionTimeSeconds": 120},
        want={"DeactivationTarget": None, "Admitted": ADMITTED},
    ),
    "WLC-28 max execution time expired": Case(
        conditions=[reserved(60), admitted(60)],
        admission=True,
        spec={"maximumExecutionTimeSeconds": 50},
        want={
            "Evicted": (
                "True",
                "DeactivatedDueToMaximumExecutionTimeExceeded",
                "The workload is deactivated due to exceeding the maximum execution time",
            )
        },
        want_active=False,
    ),
    "WLC-36 preemption gates appear closed": Case(
        spec={"preemptionGates": [{"name": "g"}]},
        want_status={"preemptionGates": [{"name": "g", "position": "Closed"}]},
    ),
    "WLC-57 no checks": Case(checks=[check("old")], want_checks={}),
    "WLC-59 only checks for all flavors before quota is reserved": Case(
        required=[{"name": "all"}, {"name": "some", "onFlavors": ["default"]}, {"name": "other", "onFlavors": ["x"]}],
        want_checks={"all": "Pending", "some": "Pending"},
    ),
    "WLC-60 checks by flavor once it is assigned": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "mine", "onFlavors": ["default"]}, {"name": "other", "onFlavors": ["x"]}],
        want_checks={"mine": "Pending"},
    ),
    "WLC-61 existing checks keep their state": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "a"}, {"name": "b"}],
        checks=[check("gone", "Ready"), check("a", "Ready")],
        want_checks={"a": "Ready", "b": "Pending"},
    ),
    "WLC-62 rejected before admission": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "ac"}],
        checks=[check(state="Rejected", message="no")],
        want={"Evicted": ("True", "DeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {REJECTED}")},
        want_checks={"ac": "Pending"},
        want_active=False,
    ),
    "WLC-63 rejected after admission": Case(
        conditions=[reserved(), admitted()],
        admission=True,
        required=[{"name": "ac"}],
        checks=[check(state="Rejected", message="no")],
        want={"Evicted": ("True", "DeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {REJECTED}")},
        want_active=False,
    ),
    "WLC-64 rejected after admission, in words": Case(
        conditions=[reserved(), admitted()],
        admission=True,
        required=[{"name": "b"}, {"name": "a"}],
        checks=[check("b", "Rejected", "too late"), check("a", "Rejected")],
        want={
            "Evicted": (
                "True",
                "DeactivatedDueToAdmissionCheck",
                'The workload is deactivated due to AdmissionChecks in Rejected state: "a"; "b" (too late)',
            )
        },
        want_events=[
            ("AdmissionCheckRejected", 'Deactivated due to AdmissionChecks in Rejected state: "a"; "b" (too late)'),
            (
                "EvictedDueToDeactivatedDueToAdmissionCheck",
                'The workload is deactivated due to AdmissionChecks in Rejected state: "a"; "b" (too late)',
            ),
        ],
        want_active=False,
    ),
    "WLC-65 deactivation resets checks": Case(
        conditions=[reserved(), admitted(), cond("DeactivationTarget", reason="AdmissionCheck", message=REJECTED)],
        admission=True,
        spec={"active": False},
        required=[{"name": "ac"}, {"name": "other"}],
        checks=[check(state="Rejected", message="no"), check("other", "Retry")],
        want={
            "Evicted": ("True", "DeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {REJECTED}"),
            "DeactivationTarget": None,
            "Admitted": ADMITTED,
        },
        want_status={
            "admissionChecks": [
                {
                    "name": "ac",
                    "state": "Pending",
                    "message": "Reset to Pending after eviction. Previously: Rejected",
                },
                {
                    "name": "other",
                    "state": "Pending",
                    "message": "Reset to Pending after eviction. Previously: Retry",
                    "retryCount": 1,
                },
            ],
            "schedulingStats": {
                "evictions": [{"reason": "Deactivated", "underlyingCause": "AdmissionCheck", "count": 1}]
            },
        },
        want_events=[
            ("EvictedDueToDeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {REJECTED}"),
        ],
        want_active=False,
    ),
    "WLC-66 retry evicts and resets": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "ac"}],
        checks=[check(state="Retry")],
        want={
            "Evicted": ("True", "AdmissionCheck", 'Evicted due to AdmissionCheck in Retry state: "ac"'),
        },
        want_checks={"ac": "Pending"},
        want_status={
            "schedulingStats": {"evictions": [{"reason": "AdmissionCheck", "underlyingCause": "", "count": 1}]}
        },
    ),
    "WLC-67 retry forgets unhealthy nodes": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "ac"}],
        checks=[check(state="Retry")],
        status={"unhealthyNodes": [{"name": "n"}]},
        want_checks={"ac": "Pending"},
        want_status={"unhealthyNodes": None},
    ),
    "WLC-68 retry with a message": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "ac"}],
        checks=[check(state="Retry", message="later")],
        want={"Evicted": ("True", "AdmissionCheck", 'Evicted due to AdmissionCheck in Retry state: "ac" (later)')},
    ),
    "WLC-69 back-off limit reached": Case(
        conditions=[reserved(400), admitted(400), cond("PodsReady", "False", "WaitForStart", ago=400)],
        admission=True,
        status={"requeueState": {"count": 1}},
        config=LIMITED,
        want={
            "Evicted": (
                "True",
                "DeactivatedDueToRequeuingLimitExceeded",
                "The workload is deactivated due to exceeding the maximum number of re-queuing retries",
            ),
            "DeactivationTarget": None,
        },
        want_status={"requeueState": None},
        want_active=False,
    ),
    "WLC-70 deactivated while pending": Case(
        spec={"active": False},
        want={"Evicted": ("True", "Deactivated", "The workload is deactivated")},
        want_active=False,
    ),
    "WLC-71 deactivated while admitted": Case(
        conditions=[reserved(), admitted()],
        admission=True,
        spec={"active": False},
        want={"Evicted": ("True", "Deactivated", "The workload is deactivated"), "Admitted": ADMITTED},
        want_active=False,
    ),
    "WLC-72 deactivated after an eviction that is over": Case(
        conditions=[reserved(), admitted(), cond("Evicted", "False", "PodsReadyTimeout", TIMEOUT)],
        admission=True,
        spec={"active": False},
        status={"schedulingStats": {"evictions": [timeouts(1)]}},
        want={"Evicted": ("True", "Deactivated", "The workload is deactivated"), "Admitted": ADMITTED},
        want_status={
            "schedulingStats": {
                "evictions": [timeouts(1), {"reason": "Deactivated", "underlyingCause": "", "count": 1}]
            }
        },
        want_events=[("EvictedDueToDeactivated", "The workload is deactivated")],
        want_active=False,
    ),
    "WLC-73 deactivated as marked": Case(
        conditions=[
            reserved(),
            admitted(),
            cond("PodsReady", "False", "PodsReady"),
            cond("Evicted", "False", "PodsReadyTimeout", TIMEOUT),
            cond("DeactivationTarget", reason="RequeuingLimitExceeded", message=TOO_OFTEN),
        ],
        admission=True,
        spec={"active": False},
        config=LIMITED,
        **EXCEEDED,
    ),
    "WLC-74 deactivated as marked, the count is forgotten": Case(
        conditions=[
            reserved(),
            admitted(),
            cond("PodsReady", "False", "WaitForStart"),
            cond("Evicted", "False", "PodsReadyTimeout", TIMEOUT),
            cond("DeactivationTarget", reason="RequeuingLimitExceeded", message=TOO_OFTEN),
        ],
        admission=True,
        spec={"active": False},
        status={"requeueState": {"count": 1}},
        config=LIMITED,
        **EXCEEDED,
    ),
    "WLC-75 an earlier eviction keeps its reason": Case(
        conditions=[reserved(), cond("Evicted", reason="Preempted", message="make room")],
        admission=True,
        spec={"active": False},
        want={"Evicted": ("True", "Preempted", "make room")},
        want_active=False,
    ),
    "WLC-76 ClusterQueue drained": Case(
        conditions=[reserved(), admitted()],
        admission=True,
        objects=[cluster_queue(stopPolicy="HoldAndDrain"), local_queue()],
        want={"Evicted": ("True", "ClusterQueueStopped", "The ClusterQueue is stopped")},
    ),
    "WLC-77 LocalQueue drained": Case(
        conditions=[reserved(), admitted()],
        admission=True,
        objects=[cluster_queue(), local_queue(stopPolicy="HoldAndDrain")],
        want={"Evicted": ("True", "LocalQueueStopped", "The LocalQueue is stopped")},
    ),
    "WLC-78 a missed deadline counts": Case(
        conditions=[reserved(400), admitted(400)],
        admission=True,
        status={"requeueState": {"count": 2}},
        config=READY_5M,
        want={"Evicted": ("True", "PodsReadyTimeout", TIMEOUT)},
        want_status={"requeueState": {"count": 3, "requeueAt": 240.0}},
    ),
    "WLC-79 the wait is limited": Case(
        conditions=[reserved(400), admitted(400)],
        admission=True,
        status={"requeueState": {"count": 9}},
        config=READY_5M,
        want_status={"requeueState": {"count": 10, "requeueAt": 3600.0}},
    ),
    "WLC-80 recovery has its own deadline": Case(
        conditions=[reserved(900), admitted(900), cond("PodsReady", "False", "WaitForRecovery", ago=200)],
        admission=True,
        config=READY_5M,
        want={"Evicted": ("True", "PodsReadyTimeout", TIMEOUT)},
        want_status={
            "schedulingStats": {
                "evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForRecovery", "count": 1}]
            }
        },
    ),
    "WLC-81 recovery has its deadline on bad nodes too": Case(
        conditions=[reserved(900), admitted(900), cond("PodsReady", "False", "WaitForRecovery", ago=200)],
        admission=True,
        required=[{"name": "ac"}],
        checks=[check(state="Ready")],
        status={"unhealthyNodes": [{"name": "n"}]},
        config=READY_5M,
        want={"Evicted": ("True", "PodsReadyTimeout", TIMEOUT)},
        want_checks={"ac": "Pending"},
        want_status={
            "requeueState": {"count": 1, "requeueAt": 60.0},
            "unhealthyNodes": None,
            "schedulingStats": {
                "evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForRecovery", "count": 1}]
            },
        },
        want_events=[("EvictedDueToPodsReadyTimeout", TIMEOUT)],
    ),
    "WLC-80b recovery in time": Case(
        conditions=[reserved(900), admitted(900), cond("PodsReady", "False", "WaitForRecovery", ago=100)],
        admission=True,
        config=READY_5M,
        want={"Evicted": None},
    ),
    "WLC-03 no deadline without a timeout": Case(
        conditions=[reserved(9000), admitted(9000)],
        admission=True,
        config=QueueingConfig(wait_for_pods_ready=None),
        want={"Evicted": None, "Admitted": ADMITTED},
    ),
    "WLC-04 the deadline is missed": Case(
        conditions=[reserved(301), admitted(301)],
        admission=True,
        config=READY_5M,
        want={"Evicted": ("True", "PodsReadyTimeout", TIMEOUT)},
        want_status={"schedulingStats": {"evictions": [timeouts(1)]}},
    ),
    "WLC-11 ready pods have no deadline": Case(
        conditions=[reserved(900), admitted(900), cond("PodsReady", "True", "Started", ago=800)],
        admission=True,
        config=READY_5M,
        want={"Evicted": None},
    ),
    "WLC-82 reactivated": Case(
        conditions=[cond("Requeued", "False", "Deactivated", "The workload is deactivated")],
        status={"requeueState": {"count": 3}},
        want={"Requeued": ("True", "Reactivated", "The workload was reactivated")},
        want_status={"requeueState": None},
    ),
    "WLC-83 back-off not over": Case(
        conditions=[cond("Requeued", "False", "PodsReadyTimeout", "x")],
        status={"requeueState": {"count": 1, "requeueAt": 60.0}},
        want={"Requeued": ("False", "PodsReadyTimeout", "x")},
    ),
    "WLC-84 back-off over": Case(
        conditions=[cond("Requeued", "False", "PodsReadyTimeout", "x")],
        status={"requeueState": {"count": 1, "requeueAt": 60.0}},
        wait=62,
        want={"Requeued": ("True", "BackoffFinished", "The workload backoff was finished")},
        want_status={"requeueState": {"count": 1}},
    ),
    "WLC-85 back-off of a check not over": Case(
        conditions=[cond("Requeued", "False", "AdmissionCheck", "x")],
        status={"requeueState": {"count": 1, "requeueAt": 60.0}},
        wait=58,
        want={"Requeued": ("False", "AdmissionCheck", "x")},
        want_status={"requeueState": {"count": 1, "requeueAt": 60.0}},
    ),
    "WLC-86 back-off of a check over": Case(
        conditions=[cond("Requeued", "False", "AdmissionCheck", "x")],
        status={"requeueState": {"requeueAt": -5.0}},
        want={"Requeued": ("True", "BackoffFinished", "The workload backoff was finished")},
    ),
    "WLC-88 finished ones are not requeued": Case(
        conditions=[cond("Requeued", "False", "AdmissionCheck", "x"), cond("Finished", reason="Succeeded")],
        status={"requeueState": {"requeueAt": -5.0}},
        want={"Requeued": ("False", "AdmissionCheck", "x")},
    ),
    "WLC-89 ClusterQueue started again": Case(
        conditions=[cond("Requeued", "False", "ClusterQueueStopped", "x")],
        want={
            "Requeued": ("True", "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
        },
    ),
    "WLC-90 LocalQueue started again": Case(
        conditions=[cond("Requeued", "False", "LocalQueueStopped", "x")],
        want={"Requeued": ("True", "LocalQueueRestarted", "The LocalQueue was restarted after being stopped")},
    ),
    "WLC-91 a check sets the delay": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "ac"}],
        checks=[check(state="Retry", requeueAfterSeconds=10)],
        want_status={"requeueState": {"requeueAt": 10.0}},
    ),
    "WLC-92 a smaller delay changes nothing": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "ac"}],
        checks=[check(state="Retry", requeueAfterSeconds=10)],
        status={"requeueState": {"requeueAt": 60.0}},
        want_status={"requeueState": {"requeueAt": 60.0}},
    ),
    "WLC-93 the longest delay of all checks": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "a"}, {"name": "b"}, {"name": "c"}],
        checks=[
            check("a", "Retry", requeueAfterSeconds=5),
            check("b", "Retry", requeueAfterSeconds=7),
            check("c", "Retry", requeueAfterSeconds=10),
        ],
        want_status={"requeueState": {"requeueAt": 10.0}},
    ),
    "WLC-94 the latest time counts, not the longest delay": Case(
        conditions=[reserved()],
        admission=True,
        required=[{"name": "a"}, {"name": "b"}],
        checks=[
            check("a", "Retry", requeueAfterSeconds=20, ago=15),
            check("b", "Retry", requeueAfterSeconds=10),
        ],
        want_status={"requeueState": {"requeueAt": 10.0}},
    ),
    "WLC-95 LocalQueue deleted under a reservation": Case(
        conditions=[reserved()],
        admission=True,
        objects=[cluster_queue()],
        want={"QuotaReserved": ("False", "Inadmissible", "LocalQueue lq doesn't exist")},
    ),
    "WLC-97 LocalQueue held under a reservation": Case(
        conditions=[reserved()],
        admission=True,
        objects=[cluster_queue(), local_queue(stopPolicy="Hold")],
        required=[],
        checks=[check()],
        want={"QuotaReserved": ("False", "Inadmissible", "LocalQueue lq is inactive")},
    ),
    "WLC-100 ClusterQueue held under a reservation": Case(
        conditions=[reserved()],
        admission=True,
        objects=[cluster_queue(stopPolicy="Hold"), local_queue()],
        checks=[check()],
        want={"QuotaReserved": ("False", "Inadmissible", "ClusterQueue cq is inactive")},
    ),
    "WLC-101 no LocalQueue": Case(
        objects=[cluster_queue()],
        want={"QuotaReserved": ("False", "Inadmissible", "LocalQueue lq doesn't exist")},
    ),
    "WLC-110 LocalQueue held": Case(
        objects=[cluster_queue(), local_queue(stopPolicy="Hold")],
        want={"QuotaReserved": ("False", "Inadmissible", "LocalQueue lq is inactive")},
    ),
    "WLC-111 LocalQueue drained": Case(
        objects=[cluster_queue(), local_queue(stopPolicy="HoldAndDrain")],
        want={"QuotaReserved": ("False", "Inadmissible", "LocalQueue lq is inactive")},
    ),
    "WLC-112 no ClusterQueue": Case(
        objects=[local_queue()],
        want={"QuotaReserved": ("False", "Inadmissible", "ClusterQueue cq doesn't exist")},
    ),
    "WLC-113 ClusterQueue held": Case(
        objects=[cluster_queue(stopPolicy="Hold"), local_queue()],
        want={"QuotaReserved": ("False", "Inadmissible", "ClusterQueue cq is inactive")},
    ),
    "WLC-109 a new workload is left to the scheduler": Case(want={"QuotaReserved": None, "Admitted": None}),
    "WLC-119 a check that is lost takes admission back": Case(
        conditions=[reserved(60), admitted(60)],
        admission=True,
        required=[{"name": "ac"}],
        checks=[check(state="Pending")],
        want={"Admitted": ("False", "UnsatisfiedChecks", "The workload has not all checks ready")},
        want_status={"accumulatedPastExecutionTimeSeconds": 60},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_workload_controller(name: str) -> None:
    check_case(CASES[name])
