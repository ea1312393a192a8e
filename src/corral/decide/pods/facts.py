"""Facts about pods that every operator asks for: is it active, ready, finished, and which one would be missed least."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core import conditions
from corral.core.meta import Obj, is_deleting, metadata_of, name_of, spec_of, status_of
from corral.core.timestamps import parse_time

TERMINAL = ("Succeeded", "Failed")


def phase_of(pod: Obj) -> str:
    return str(status_of(pod).get("phase") or "Pending")


def is_terminal(pod: Obj) -> bool:
    return phase_of(pod) in TERMINAL


def is_active(pod: Obj) -> bool:
    """Neither finished nor on its way out."""
    return not is_terminal(pod) and not is_deleting(pod)


def is_terminating(pod: Obj) -> bool:
    """Asked to go, but still able to run."""
    return is_deleting(pod) and not is_terminal(pod)


def is_ready(pod: Obj) -> bool:
    return conditions.is_true(pod, "Ready")


def ready_since(pod: Obj) -> float | None:
    """When the pod became ready, or None while it is not."""
    ready = conditions.find(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    since = ready.get("lastTransitionTime")
    return parse_time(since) if since else 0.0


def is_available(pod: Obj, min_ready_s: float, now: float) -> bool:
    """Ready for at least `min_ready_s` seconds."""
    since = ready_since(pod)
    return since is not None and (min_ready_s <= 0 or since + min_ready_s <= now)


def container_statuses(pod: Obj) -> list[Obj]:
    """The states of the main containers, then of the init containers."""
    status = status_of(pod)
    return [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]


def restarts(pod: Obj) -> int:
    """Container restarts, init containers included."""
    return sum(int(entry.get("restartCount") or 0) for entry in container_statuses(pod))


def created_at(pod: Obj) -> float:
    stamp = metadata_of(pod).get("creationTimestamp")
    return parse_time(stamp) if stamp else 0.0


def finished_at(pod: Obj, now: float) -> float:
    """When the pod ended: its last container's end, else the end of its readiness, its deletion, its creation."""
    ends = [
        parse_time(ended)
        for entry in status_of(pod).get("containerStatuses") or []
        if (ended := ((entry.get("state") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    if ends:
        return max(ends)
    ready = conditions.find(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    metadata = metadata_of(pod)
    if metadata.get("deletionTimestamp"):
        return parse_time(metadata["deletionTimestamp"]) - float(metadata.get("deletionGracePeriodSeconds") or 0)
    return created_at(pod) or now


_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


def _loss(pod: Obj) -> tuple[bool, int, bool, float, int, float]:
    since = ready_since(pod)
    return (
        bool(spec_of(pod).get("nodeName")),
        _PHASE_RANK.get(phase_of(pod), 2),
        since is not None,
        -since if since is not None else 0.0,
        -restarts(pod),
        -created_at(pod),
    )


def by_least_loss(pods: Sequence[Obj]) -> list[Obj]:
    """Pods in the order in which they should be given up.

    Unscheduled before scheduled, pending before running, unready before ready, then the most recently ready, the most
    often restarted and the youngest; names decide among equals so that the order is repeatable.
    """
    return sorted(sorted(pods, key=name_of), key=_loss)
