"""Whether what a binding placed counts as running, as its conditions say."""

from __future__ import annotations

from typing import Final, NamedTuple

from corral.core.conditions import find
from corral.core.meta import Obj, generation_of
from corral.core.timestamps import parse_time

UNTRACKABLE: Final = frozenset({"NotAllWorkAreAvailabilityTrackable", "WorkNotTrackable"})
_FAILING: Final = ("Overridden", "WorkSynchronized", "Applied", "Available")
COUNTED: Final = ("RolloutStarted", *_FAILING, "DiffReported")
"""Conditions of a binding that rollouts look at."""


def fresh(binding: Obj, kind: str) -> Obj | None:
    """A condition of the binding if it speaks of its current generation."""
    entry = find(binding, kind)
    return entry if entry is not None and entry.get("observedGeneration", 0) >= generation_of(binding) else None


class Readiness(NamedTuple):
    ready: bool
    wait: float = 0.0
    """Seconds until a binding that cannot be watched counts as ready; 0 when waiting does not help."""


def readiness(binding: Obj, now: float, period: float) -> Readiness:
    """Whether what a binding placed counts as running."""
    reported = fresh(binding, "DiffReported")
    if reported is not None and reported["status"] == "True":
        return Readiness(True)
    available = fresh(binding, "Available")
    if available is None or available["status"] != "True":
        return Readiness(False)
    if available.get("reason") not in UNTRACKABLE:
        return Readiness(True)
    left = parse_time(available["lastTransitionTime"]) + period - now
    return Readiness(True) if left <= 0 else Readiness(False, left)


def has_failed(binding: Obj) -> bool:
    """Whether any step has reported failure, "not yet" included, for the binding's generation."""
    return any((entry := fresh(binding, kind)) is not None and entry["status"] == "False" for kind in _FAILING)


def is_diff_reported(binding: Obj) -> bool:
    entry = fresh(binding, "DiffReported")
    return entry is not None and entry["status"] == "True"
