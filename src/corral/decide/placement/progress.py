"""How far jobs have come: what members report back about them, as two conditions of bindings and placements.

`corral.dev/JobsStarted` turns True with the first job that runs, `corral.dev/JobsFinished` when all have ended. They are
there only when a member reports on a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from corral.core.conditions import condition, find, is_true
from corral.core.meta import Obj, status_of
from corral.core.timestamps import parse_time
from corral.decide.member.queue import JobEndings
from corral.decide.placement.bindings import BOUND, Binding

JOBS_STARTED: Final = "corral.dev/JobsStarted"
JOBS_FINISHED: Final = "corral.dev/JobsFinished"
PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
MAX_TEXT: Final = 1000
"""Characters of what a member says, in conditions and lists of ours."""
_COUNTS: Final = ("active", "ready", "succeeded", "failed")


class _Job(NamedTuple):
    state: str
    text: str


def job_conditions(works: Sequence[Obj], endings: JobEndings) -> list[Obj]:
    """What the Works of a binding say of the jobs in them; nothing when they have none that is reported on."""
    jobs = [
        _job(entry["identifier"], observed, endings)
        for work in works
        for entry in status_of(work).get("manifestConditions") or ()
        if _is_job(entry.get("identifier") or {}, endings)
        and (observed := (entry.get("backReportedStatus") or {}).get("observedStatus"))
    ]
    if not jobs:
        return []
    text = jobs[0].text if len(jobs) == 1 else _counted([job.state for job in jobs], "job(s)")
    return _conditions([job.state for job in jobs], text)


def all_job_conditions(clusters: Sequence[Obj], generation: int) -> list[Obj]:
    """The same for a placement, from the entries of its clusters."""
    reported = {
        one["clusterName"]: entry for one in clusters if (entry := find(one["conditions"], JOBS_FINISHED)) is not None
    }
    if not reported:
        return []
    states = [entry["reason"] for entry in reported.values()]
    if len(reported) == 1:
        ((cluster, entry),) = reported.items()
        text = f"{cluster}: {entry['message']}"
    else:
        text = _counted(states, "cluster(s)")
    return [{**entry, "observedGeneration": generation} for entry in _conditions(states, text)]


def overdue(bindings: Iterable[Binding], limit: float, now: float) -> tuple[list[Binding], float | None]:
    """Bindings whose jobs have waited longer than the limit, and seconds until the next one will have."""
    late: list[Binding] = []
    waits: list[float] = []
    for binding in bindings:
        entry = binding.conditions.get(JOBS_STARTED)
        if binding.state != BOUND or entry is None or entry["status"] != "False":
            continue
        left = parse_time(entry["lastTransitionTime"]) + limit - now
        if left <= 0:
            late.append(binding)
        else:
            waits.append(left)
    return late, min(waits, default=None)


def _is_job(identifier: Obj, endings: JobEndings) -> bool:
    return endings.knows(str(identifier.get("group") or ""), str(identifier.get("kind")))


def _job(identifier: Obj, observed: Any, endings: JobEndings) -> _Job:
    try:
        return _read(identifier, observed, endings)
    except (AttributeError, KeyError, TypeError, ValueError):  # nobody has checked what a member says of a status
        return _Job(PENDING, f"{identifier.get('kind')} {identifier.get('name')}: the member reports what is no status")


def _read(identifier: Obj, observed: Obj, endings: JobEndings) -> _Job:
    status, workload = status_of(observed), observed.get("workload") or {}
    state = _state(endings.success(observed), observed, workload)
    counts = ", ".join(f"{status[name]} {name}" for name in _COUNTS if status.get(name))
    queue = workload.get("clusterQueue")
    parts = [part for part in (counts, f"admitted by ClusterQueue {queue}" if queue else "") if part]
    if state == PENDING and (reason := _waits_for(workload)):
        parts.append(reason)
    said = f"{identifier['kind']} {identifier['name']} is {state.lower()}" if state in (PENDING, RUNNING) else ""
    said = said or f"{identifier['kind']} {identifier['name']} has {state.lower()}"
    return _Job(state, ": ".join(filter(None, (said, "; ".join(parts)))))


def _state(success: bool | None, observed: Obj, workload: Obj) -> str:
    if success is not None:
        return SUCCEEDED if success else FAILED
    status = status_of(observed)
    if observed.get("kind") == "Job":
        has_begun = any(status.get(name) for name in ("ready", "succeeded", "failed"))
    else:
        has_begun = is_true(observed, "Running") or is_true(workload.get("conditions") or [], "Admitted")
    return RUNNING if has_begun else PENDING


def _waits_for(workload: Obj) -> str:
    entry = find(workload.get("conditions") or [], "QuotaReserved")
    return str(entry.get("message") or "") if entry is not None and entry["status"] == "False" else ""


def _counted(states: Sequence[str], what: str) -> str:
    counts = Counter(states)
    reported = ", ".join(
        f"{counts[state]} {state.lower()}" for state in (PENDING, RUNNING, SUCCEEDED, FAILED) if counts[state]
    )
    return f"{len(states)} {what}: {reported}"


def _conditions(states: Sequence[str], text: str) -> list[Obj]:
    text = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
    started = any(state != PENDING for state in states)
    finished = all(state in (SUCCEEDED, FAILED) for state in states)
    reason = RUNNING if started else PENDING
    if finished:
        reason = FAILED if FAILED in states else SUCCEEDED
    return [
        condition(JOBS_STARTED, started, "Started" if started else PENDING, text),
        condition(JOBS_FINISHED, finished, reason, text),
    ]
