"""Admission checks of a Workload: which ones it needs, and the list in its status kept in line with that."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from corral.core.meta import Obj, spec_of, status_of, with_status
from corral.core.timestamps import parse_time
from corral.kinds.kueue import names
from corral.workload import workload as wl


def is_required(on_flavors: Collection[str], every: Collection[str], assigned: Collection[str] | None) -> bool:
    """Whether a Workload has to pass the check of one rule of its ClusterQueue.

    `every` are the flavors of the queue, `assigned` those that the Workload was given, None while it has no reservation. A
    rule limited to some flavors counts once one of them is assigned; before that it counts if it leaves none out. A
    Workload that asks for nothing is given no flavor, and passes rules of flavors by.
    """
    if not on_flavors:
        return True
    if assigned is None:
        return set(every) <= set(on_flavors)
    return not set(on_flavors).isdisjoint(assigned)


def required_checks(cluster_queue: Obj, workload: Obj) -> list[str]:
    """Names of the checks `workload` has to pass in `cluster_queue`."""
    rules = (spec_of(cluster_queue).get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    every, assigned = _all_flavors(cluster_queue), _assigned_flavors(workload)
    return [rule["name"] for rule in rules if is_required(rule.get("onFlavors") or (), every, assigned)]


def _assigned_flavors(workload: Obj) -> list[str] | None:
    admission = wl.admission_of(workload)
    if not admission:
        return None
    return [
        flavor for entry in admission.get("podSetAssignments") or [] for flavor in (entry.get("flavors") or {}).values()
    ]


def _all_flavors(cluster_queue: Obj) -> list[str]:
    groups = spec_of(cluster_queue).get("resourceGroups") or []
    return [flavor["name"] for group in groups for flavor in group.get("flavors") or []]


def sync_check_states(workload: Obj, required: Sequence[str], now: str) -> Obj:
    """`workload` with exactly the required checks, new ones Pending. The same object when nothing changes."""
    states = wl.check_states_of(workload)
    if not states and not required:
        return workload
    held = {state["name"]: state for state in states}
    if held.keys() == set(required):
        return workload
    fresh = {"state": names.PENDING, "message": "", "lastTransitionTime": now}
    kept = [state for name, state in held.items() if name in required]
    added = [{"name": name, **fresh} for name in required if name not in held]
    status = {**status_of(workload), "admissionChecks": [*kept, *added]}
    if not status["admissionChecks"]:
        del status["admissionChecks"]
    return with_status(workload, status)


def in_state(workload: Obj, state: str) -> list[Obj]:
    return [entry for entry in wl.check_states_of(workload) if entry.get("state") == state]


def described(states: Sequence[Obj]) -> str:
    """Checks with their messages by name, as conditions and events list them."""
    return "; ".join(
        f'"{state["name"]}" ({state["message"]})' if state.get("message") else f'"{state["name"]}"'
        for state in sorted(states, key=lambda state: str(state["name"]))
    )


def retry_time(workload: Obj) -> float | None:
    """When the last of the checks that want a delay allows another try."""
    times = [
        parse_time(state["lastTransitionTime"]) + int(state["requeueAfterSeconds"])
        for state in wl.check_states_of(workload)
        if state.get("requeueAfterSeconds") is not None and state.get("lastTransitionTime")
    ]
    return max(times, default=None)
