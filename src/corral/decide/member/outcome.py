"""What became of one manifest in one look at its Work, and the words the hub reads about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.core.conditions import condition
from corral.core.meta import Obj, generation_of
from corral.decide.member.availability import AVAILABLE, NOT_TRACKABLE, NOT_YET
from corral.decide.member.manifests import Manifest

APPLIED: Final = "Applied"
DRIFT_DETECTION_FAILED: Final = "AppliedWithFailedDriftDetection"
DRIFT_TOLERATED: Final = "DriftTolerated"
FINISHED: Final = "Finished"
NO_DIFF: Final = "NoDiffFound"
FOUND_DIFF: Final = "FoundDiff"
FOUND_DIFF_DEGRADED: Final = "FoundDiffInDegradedMode"
DIFF_FAILED: Final = "FailedToReportDiff"
DEGRADED: Final = (
    " in degraded mode (full comparison is performed instead of partial comparison, as the manifest object is considered"
    " to be invalid by the member cluster API server)"
)
_APPLIED_TEXTS: Final = {
    APPLIED: "Manifest has been applied successfully",
    DRIFT_DETECTION_FAILED: DRIFT_DETECTION_FAILED,
    DRIFT_TOLERATED: "The object has drifted from its manifest and is left as it is",
    FINISHED: "The job has finished and is not created again",
}
_DIFF_TEXTS: Final = {
    NO_DIFF: "No diff has been found between the hub cluster and the member cluster",
    FOUND_DIFF: "Diff has been found between the hub cluster and the member cluster",
    FOUND_DIFF_DEGRADED: "Diff has been found in degraded mode: cannot perform partial comparison as the member cluster"
    " API server rejected the manifest object (object is invalid)",
}
_AVAILABLE_TEXTS: Final = {
    AVAILABLE: "Manifest is available",
    NOT_TRACKABLE: "Manifest's availability is not trackable; Fleet assumes that the applied manifest is available",
    NOT_YET: "Manifest is not yet available; Fleet will check again later",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """`live` is the member's object after the look, None when there is none. `availability` is "" when not applied."""

    manifest: Manifest
    reason: str
    error: str = ""
    live: Obj | None = None
    drifts: Sequence[Obj] = ()
    diffs: Sequence[Obj] = ()
    availability: str = ""
    reported: Obj | None = None
    """The status to report back to the hub, if any."""

    @property
    def is_applied(self) -> bool:
        return self.reason in _APPLIED_TEXTS

    @property
    def is_diff_reported(self) -> bool:
        return self.reason in _DIFF_TEXTS

    @property
    def is_degraded(self) -> bool:
        return self.reason == FOUND_DIFF_DEGRADED

    @property
    def is_available(self) -> bool:
        return self.availability in (AVAILABLE, NOT_TRACKABLE)

    @property
    def generation(self) -> int | None:
        """The generation of the member's object; None for kinds that have none, as for objects that are not there."""
        return (generation_of(self.live) if self.live is not None else 0) or None


def applied_condition(outcome: Outcome) -> Obj:
    text = _APPLIED_TEXTS.get(outcome.reason) or f"Failed to apply the manifest (error: {outcome.error})"
    return condition("Applied", outcome.is_applied, outcome.reason, text, outcome.generation)


def available_condition(outcome: Outcome) -> Obj | None:
    """None when nothing is applied, for then there is nothing to be available."""
    if not outcome.availability:
        return None
    text = _AVAILABLE_TEXTS[outcome.availability]
    return condition("Available", outcome.is_available, outcome.availability, text, outcome.generation)


def diff_condition(outcome: Outcome) -> Obj:
    if outcome.is_diff_reported:
        text = _DIFF_TEXTS[outcome.reason]
        return condition("DiffReported", True, outcome.reason, text, outcome.generation)
    if outcome.reason == DIFF_FAILED:
        text = f"Failed to report the diff between the hub cluster and the member cluster (error = {outcome.error})"
    else:
        text = f"An error blocks the diff reporting process ({outcome.reason}, error: {outcome.error})"
    return condition("DiffReported", False, DIFF_FAILED, text, outcome.generation)
