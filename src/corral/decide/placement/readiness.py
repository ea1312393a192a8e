"""Whether what a binding placed counts as running, as its conditions say."""

from __future__ import annotations

from typing import Final, NamedTuple

from corral.core.timestamps import parse_time
from corral.decide.placement.bindings import Binding

UNTRACKABLE: Final = frozenset({"NotAllWorkAreAvailabilityTrackable", "WorkNotTrackable"})
_FAILING: Final = ("Overridden", "WorkSynchronized", "Applied", "Available")
COUNTED: Final = ("RolloutStarted", *_FAILING, "DiffReported")
"""Conditions of a binding that rollouts look at."""


class Readiness(NamedTuple):
    ready: bool
    wait: float = 0.0
    """Seconds until a binding that cannot be watched counts as ready; 0 when waiting does not help."""


def readiness(binding: Binding, now: float, period: float) -> Readiness:
    """Whether what a binding placed counts as running."""
    if is_diff_reported(binding):
        return Readiness(True)
    available = binding.fresh("Available")
    if available is None or available["status"] != "True":
        return Readiness(False)
    if available.get("reason") not in UNTRACKABLE:
        return Readiness(True)
    left = parse_time(available["lastTransitionTime"]) + period - now
    return Readiness(True) if left <= 0 else Readiness(False, left)


def has_failed(binding: Binding) -> bool:
    """Whether any step has reported failure, "not yet" included, for the binding's generation."""
    return any(binding.is_fresh(kind, "False") for kind in _FAILING)


def is_diff_reported(binding: Binding) -> bool:
    return binding.is_fresh("DiffReported", "True")
