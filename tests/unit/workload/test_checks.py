"""States of Workloads as values: admission checks, the Admitted condition, deadlines. Ids are those of the scenario list."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core import conditions
from corral.core.meta import Obj, status_of
from corral.core.timestamps import format_time, parse_time
from corral.decide.queueing.cycle.plan import PodSetAssignment
from corral.testing.queueing import QueueingWorld, make_cluster_queue
from corral.workload import lifecycle
from corral.workload.checks import required_checks, retry_time, sync_check_states
from corral.workload.steps.deadlines import readiness_deadline
from corral.workload.steps.step_api import with_requeue_at

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def condition(kind: str, status: str = "True", reason: str = "", at: str = THEN) -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": at}


def state(name: str, value: str = "Pending", **more: Any) -> Obj:
    return {"name": name, "state": value, "message": "", "lastTransitionTime": THEN, **more}


def workload(*held: Obj, checks: tuple[Obj, ...] = (), delayed: str = "", **status: Any) -> Obj:
    assignment = {"name": "main", "count": 1, **({"delayedTopologyRequest": delayed} if delayed else {})}
    reserves = any(entry["type"] == "QuotaReserved" and entry["status"] == "True" for entry in held)
    admission = {"admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]}} if reserves else {}
    listed = {"admissionChecks": list(checks)} if checks else {}
    return {
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {},
        "status": {"conditions": list(held), **admission, **listed, **status},
    }


CHECKS: dict[str, tuple[tuple[Obj, ...], tuple[str, ...], list[tuple[str, str, str]]]] = {
    "WLC-12 nothing": ((), (), []),
    "WLC-13 the first": ((), ("a", "b"), [("a", "Pending", NOW), ("b", "Pending", NOW)]),
    "WLC-14 one comes, one goes": (
        (state("a", "Ready"), state("b")),
        ("a", "c"),
        [("a", "Ready", THEN), ("c", "Pending", NOW)],
    ),
    "WLC-15 all go": ((state("a", "Ready"), state("b")), (), []),
    "WLC-16 all stay as they are": (
        (state("a", "Retry"), state("b", "Ready")),
        ("a", "b"),
        [("a", "Retry", THEN), ("b", "Ready", THEN)],
    ),
    "WLC-58 from the queue": ((), ("a",), [("a", "Pending", NOW)]),
}


@pytest.mark.parametrize("name", CHECKS)
def test_check_states(name: str) -> None:
    before, required, after = CHECKS[name]
    found = status_of(sync_check_states(workload(checks=before), required, NOW)).get("admissionChecks") or []
    assert [(entry["name"], entry["state"], entry["lastTransitionTime"]) for entry in found] == after


RULES = [{"name": "all"}, {"name": "on-f", "onFlavors": ["f"]}, {"name": "both", "onFlavors": ["f", "g"]}]
CHECKED_QUEUE = {
    "spec": {
        "admissionChecksStrategy": {"admissionChecks": RULES},
        "resourceGroups": [{"flavors": [{"name": "f"}, {"name": "g"}]}],
    }
}


@pytest.mark.parametrize(
    ("flavors", "required"),
    [
        pytest.param(None, ["all", "both"], id="no reservation yet: rules that leave no flavor out"),
        pytest.param({}, ["all"], id="it asks for nothing and was given no flavor"),
        pytest.param({"cpu": "g"}, ["all", "both"], id="one flavor"),
        pytest.param({"cpu": "f"}, ["all", "on-f", "both"], id="the other"),
    ],
)
def test_checks_limited_to_flavors_are_required_as_the_scheduler_requires_them(
    flavors: dict[str, str] | None, required: list[str]
) -> None:
    given = {} if flavors is None else {"admission": {"podSetAssignments": [{"name": "main", "flavors": flavors}]}}
    assert required_checks(CHECKED_QUEUE, {"status": given}) == required
    world = QueueingWorld()
    world.state.upsert_cluster_queue(
        make_cluster_queue("cq", {"f": {"cpu": 1}, "g": {"cpu": 1}}, admissionChecksStrategy={"admissionChecks": RULES})
    )
    assigned = None if flavors is None else [PodSetAssignment("main", 1, flavors, {})]
    assert list(world.state.questions.required_checks("cq", assigned)) == required


RESERVED, LOST, ADMITTED = condition("QuotaReserved"), condition("QuotaReserved", "False"), condition("Admitted")
READY, PENDING = (state("a", "Ready"),), (state("a"),)
UNREADY = "The workload has not all checks ready"
NOTHING = ("NoReservationUnsatisfiedChecks", "The workload has no reservation and not all checks ready")
NO_QUOTA = ("NoReservation", "The workload has no reservation")
DELAYED = ("PendingDelayedTopologyRequests", "There are pending delayed topology requests")

# The workload, whether reasons are granular, then status, reason and message of Admitted and the time counted as run.
SYNCED: dict[str, tuple[Obj, bool, tuple[str, str, str] | None, int | None]] = {
    "WLC-114 nothing": (workload(), False, None, None),
    "WLC-115 no checks": (workload(RESERVED), False, ("True", "Admitted", "The workload is admitted"), None),
    "WLC-116 checks not ready": (workload(RESERVED, checks=PENDING), False, None, None),
    "WLC-117 checks ready": (
        workload(RESERVED, checks=READY),
        False,
        ("True", "Admitted", "The workload is admitted"),
        None,
    ),
    "WLC-118 reservation lost": (workload(LOST, ADMITTED, checks=READY), False, ("False", *NO_QUOTA), 60),
    "WLC-119 check lost": (
        workload(RESERVED, ADMITTED, checks=PENDING),
        False,
        ("False", "UnsatisfiedChecks", UNREADY),
        60,
    ),
    "WLC-120 both lost": (workload(LOST, ADMITTED, checks=PENDING), False, ("False", *NOTHING), 60),
    "WLC-121 reservation lost, first time counted": (
        workload(LOST, ADMITTED, accumulatedPastExecutionTimeSeconds=0),
        False,
        ("False", *NO_QUOTA),
        60,
    ),
    "WLC-122 reservation lost, time added": (
        workload(LOST, ADMITTED, accumulatedPastExecutionTimeSeconds=20),
        False,
        ("False", *NO_QUOTA),
        80,
    ),
    "WLC-123 topology pending": (workload(RESERVED, ADMITTED, delayed="Pending"), False, ("False", *DELAYED), 60),
    "WLC-124 topology pending, not admitted": (
        workload(RESERVED, condition("Admitted", "False", "Before"), delayed="Pending"),
        False,
        ("False", "Before", ""),
        None,
    ),
    "WLC-125 checks not ready, granular": (
        workload(RESERVED, checks=PENDING),
        True,
        ("False", "UnsatisfiedAdmissionChecks", UNREADY),
        None,
    ),
    "WLC-126 reservation lost, granular": (workload(LOST, ADMITTED, checks=READY), True, ("False", *NO_QUOTA), 60),
    "WLC-127 check lost, granular": (
        workload(RESERVED, ADMITTED, checks=PENDING),
        True,
        ("False", "UnsatisfiedAdmissionChecks", UNREADY),
        60,
    ),
    "WLC-128 both lost, granular": (workload(LOST, ADMITTED, checks=PENDING), True, ("False", *NO_QUOTA), 60),
    "WLC-129 nothing known, granular": (workload(checks=PENDING), True, None, None),
    "WLC-129b not reserved, granular": (workload(LOST), True, ("False", *NO_QUOTA), None),
    "WLC-130 no reservation": (workload(LOST), False, None, None),
}


@pytest.mark.parametrize("name", SYNCED)
def test_admitted(name: str) -> None:
    before, granular, want, ran = SYNCED[name]
    required = [entry["name"] for entry in before["status"].get("admissionChecks", ())]
    after = lifecycle.sync_admitted(before, required, NOW, granular=granular)
    found = conditions.find(after, "Admitted")
    assert (found and (found["status"], found["reason"], found["message"])) == want
    assert status_of(after).get("accumulatedPastExecutionTimeSeconds") == ran


RETRIES: dict[str, tuple[tuple[Obj, ...], float | None]] = {
    "WLC-131 no checks": ((), None),
    "WLC-132 no delay": ((state("a", "Retry"),), None),
    "WLC-133 no time": (({"name": "a", "state": "Retry", "requeueAfterSeconds": 5},), None),
    "WLC-134 a delay": ((state("a", "Retry", requeueAfterSeconds=5),), 5),
    "WLC-135 the longest delay": (
        (state("a", "Retry", requeueAfterSeconds=5), state("b", "Retry", requeueAfterSeconds=9)),
        9,
    ),
    "WLC-136 some without a delay": ((state("a", "Retry"), state("b", "Retry", requeueAfterSeconds=9)), 9),
    "WLC-137 the latest time, not the longest delay": (
        (
            state("a", "Retry", requeueAfterSeconds=9),
            {**state("b", "Retry", requeueAfterSeconds=5), "lastTransitionTime": NOW},
        ),
        65,
    ),
}


@pytest.mark.parametrize("name", RETRIES)
def test_retry_time(name: str) -> None:
    checks, after = RETRIES[name]
    assert retry_time(workload(checks=checks)) == (None if after is None else parse_time(THEN) + after)


def not_ready(reason: str) -> Obj:
    return condition("PodsReady", "False", reason, format_time(parse_time(THEN) + 30))


# Timeout 100 s, recovery 50 s; the deadline counted from THEN.
DEADLINES: dict[str, tuple[Obj, float | None, float | None]] = {
    "WLC-01 not admitted": (workload(RESERVED), 50, None),
    "WLC-02 admitted, nothing known of pods": (workload(RESERVED, ADMITTED), 50, 100),
    "WLC-05 waiting for the start": (workload(RESERVED, ADMITTED, not_ready("WaitForStart")), 50, 100),
    "WLC-06 never ready": (workload(RESERVED, ADMITTED, not_ready("PodsReady")), 50, 100),
    "WLC-07 recovering": (workload(RESERVED, ADMITTED, not_ready("WaitForRecovery")), 50, 80),
    "WLC-08 recovering without a limit": (workload(RESERVED, ADMITTED, not_ready("WaitForRecovery")), None, None),
    "WLC-09 admission unknown": (workload(RESERVED, condition("Admitted", "Unknown")), 50, None),
    "WLC-10 admission lost": (workload(RESERVED, condition("Admitted", "False")), 50, None),
}


@pytest.mark.parametrize("name", DEADLINES)
def test_deadline(name: str) -> None:
    held, recovery, want = DEADLINES[name]
    found = readiness_deadline(held, 100, recovery)
    assert (found and found[1] - parse_time(THEN)) == want


LATER, SOONER = "2026-01-01T00:09:00Z", "2026-01-01T00:00:30Z"

# What was known of the next try, what is known when it is moved to NOW.
REQUEUED: dict[str, tuple[Obj, Obj]] = {
    "RES-63 nothing yet": ({}, {"requeueAt": NOW}),
    "RES-65 sooner": ({"requeueAt": SOONER, "count": 2}, {"requeueAt": NOW, "count": 2}),
    "RES-66 later": ({"requeueAt": LATER, "count": 2}, {"requeueAt": LATER, "count": 2}),
    "RES-70 no time": ({"count": 1}, {"requeueAt": NOW, "count": 1}),
}


@pytest.mark.parametrize("name", REQUEUED)
def test_next_try(name: str) -> None:
    before, after = REQUEUED[name]
    found = with_requeue_at(workload(requeueState=before) if before else workload(), parse_time(NOW))
    assert status_of(found)["requeueState"] == after
