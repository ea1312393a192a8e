"""The Workload controller by itself, scenario by scenario; ids are those of the upstream scenario list.

Each case stores a Workload in some state, lets the controller look at it, and names the conditions it must have then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from corral.controllers.queueing.config import QueueingConfig, WaitForPodsReady
from corral.controllers.queueing.context import Caches, Context
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.workload_controller import WorkloadController
from corral.core.errors import NotFound
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.decide.queueing.state import QueueingState
from corral.kinds.kueue import WORKLOADS
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

from .world import EVENTS, cluster_queue, condition, local_queue

Objects = list[tuple[Resource, Obj]]

POD_SETS = [
    {
        "name": "main",
        "count": 1,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    }
]
ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}],
}
OWNER = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]


def cond(kind: str, status: str = "True", reason: str = "", message: str = "", ago: float = 0) -> Obj:
    """A condition that became what it is `ago` seconds ago."""
    return {"type": kind, "status": status, "reason": reason or kind, "message": message, "ago": ago}


def reserved(ago: float = 0) -> Obj:
    return cond("QuotaReserved", message="Quota reserved in ClusterQueue cq", ago=ago)


def admitted(ago: float = 0) -> Obj:
    return cond("Admitted", message="The workload is admitted", ago=ago)


def check(name: str = "ac", state: str = "Pending", message: str = "", ago: float = 0, **more: Any) -> Obj:
    return {"name": name, "state": state, "message": message, "ago": ago, **more}


@dataclass
class Case:
    """A world, a Workload in it, and what becomes of it."""

    conditions: list[Obj] = field(default_factory=list)
    checks: list[Obj] = field(default_factory=list)
    admission: bool = False
    spec: Obj = field(default_factory=dict)
    status: Obj = field(default_factory=dict)
    metadata: Obj = field(default_factory=dict)
    objects: Objects | None = None
    required: list[Obj] = field(default_factory=list)
    """Admission check rules of the ClusterQueue."""
    config: QueueingConfig = field(default_factory=QueueingConfig)
    wait: float = 0
    want: dict[str, tuple[str, str, str] | None] = field(default_factory=dict)
    """Conditions afterwards; None means that it must not be there."""
    want_checks: dict[str, str] | None = None
    want_status: Obj = field(default_factory=dict)
    want_active: bool = True
    want_finalizers: list[str] | None = None
    want_events: list[tuple[str, str]] | None = None
    """Reasons and messages of all events."""
    want_seen: list[tuple[str, str, str]] | None = None
    """QuotaReserved conditions it had after one another."""
    gone: bool = False
    deleting: tuple[str, ...] = ()
    """Kinds whose object is on its way out when the controller starts; something else holds it."""
    state: QueueingState | None = None


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


CASES: dict[str, Case] = {
    "WLC-17 assign admission checks of the ClusterQueue": Case(
        required=[{"name": "ac1"}, {"name": "ac2"}], want_checks={"ac1": "Pending", "ac2": "Pending"}
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


class Harness:
    """A cluster with nothing but the Workload controller."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.seen: list[tuple[str, str, str]] = []
        self.events: list[tuple[str, str]] = []
        self.cluster = VirtualCluster([self._set_up], lifecycle=False)  # its owner does not exist

    def _set_up(self, manager: Manager) -> None:
        case = self.case
        context = Context(manager.client, manager.clock, manager.recorder, case.config, Caches.of(manager))
        WorkloadController(context, QueueingMetrics(manager.metrics), case.state).setup(manager)
        context.caches.workloads.on_change(self._note)

    def _note(self, old: Obj | None, new: Obj | None) -> None:
        found = condition(new, "QuotaReserved") if new is not None else None
        if found is not None and found not in self.seen[-1:]:
            self.seen.append(found)

    def _time(self, offset: float) -> str:
        return format_time(self.start + offset)

    def _dated(self, entries: list[Obj]) -> list[Obj]:
        return [
            {
                **{name: value for name, value in entry.items() if name != "ago"},
                "lastTransitionTime": self._time(-entry["ago"]),
            }
            for entry in entries
        ]

    def _timed(self, status: Obj) -> Obj:
        state = status.get("requeueState") or {}
        if isinstance(state.get("requeueAt"), float):
            return {**status, "requeueState": {**state, "requeueAt": self._time(state["requeueAt"])}}
        return status

    def _status(self) -> Obj:
        case = self.case
        status: Obj = {"conditions": self._dated(case.conditions), **self._timed(case.status)}
        if case.checks:
            status["admissionChecks"] = self._dated(case.checks)
        if case.admission:
            status["admission"] = ADMISSION
        return status

    async def run(self) -> Obj | None:
        case = self.case
        self.start = self.cluster.clock.now()
        await self._create_workload()
        async with self.cluster:
            await self.cluster.settle()
            await self.cluster.advance(case.wait)
            found = (await self.cluster.client.list(EVENTS)).items
            self.events = [(event["reason"], event["message"]) for event in found]
            try:
                return await self.cluster.client.get(WORKLOADS, "w", "default")
            except NotFound:
                return None

    async def _create_workload(self) -> None:
        """Everything is there before the controller starts, as after a restart."""
        case, client = self.case, self.cluster.client
        await client.create(
            Resource("", "v1", "namespaces", "Namespace", namespaced=False), {"metadata": {"name": "default"}}
        )
        rules = {"admissionChecksStrategy": {"admissionChecks": case.required}} if case.required else {}
        created: Objects = []
        for resource, obj in case.objects if case.objects is not None else [cluster_queue(**rules), local_queue()]:
            if resource.kind in case.deleting:
                obj["metadata"]["finalizers"] = ["example.com/keep"]
            created.append((resource, await client.create(resource, obj)))
        metadata = {"name": "w", "namespace": "default", "ownerReferences": OWNER, **case.metadata}
        spec = {"podSets": POD_SETS, "queueName": "lq", **case.spec}
        workload = await client.create(WORKLOADS, {"metadata": metadata, "spec": spec})
        workload = await client.update(WORKLOADS, {**workload, "status": self._status()}, subresource="status")
        for resource, obj in [*created, (WORKLOADS, workload)]:
            if resource.kind in case.deleting:
                await client.delete(resource, name_of(obj), namespace_of(obj))

    def check(self, workload: Obj | None) -> None:
        case = self.case
        if case.want_events is not None:
            assert self.events == case.want_events
        if case.gone:
            assert workload is None
            return
        assert workload is not None
        for kind, want in case.want.items():
            assert condition(workload, kind) == want, kind
        status = workload.get("status", {})
        if case.want_checks is not None:
            found = {entry["name"]: entry["state"] for entry in status.get("admissionChecks", [])}
            assert found == case.want_checks
        for name, want_part in self._timed(case.want_status).items():
            assert without_times(status.get(name)) == want_part, name
        assert workload["spec"].get("active", True) is case.want_active
        if case.want_finalizers is not None:
            assert workload["metadata"].get("finalizers", []) == case.want_finalizers
        if case.want_seen is not None:
            assert self.seen == case.want_seen


def without_times(part: Any) -> Any:
    if isinstance(part, list):
        return [without_times(entry) for entry in part]
    if isinstance(part, dict):
        return {name: value for name, value in part.items() if name != "lastTransitionTime"}
    return part


def check_case(case: Case) -> None:
    async def main() -> None:
        harness = Harness(case)
        harness.check(await harness.run())

    run_virtual(main)


@pytest.mark.parametrize("name", CASES)
def test_workload_controller(name: str) -> None:
    check_case(CASES[name])
