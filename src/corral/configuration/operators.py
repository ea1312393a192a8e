"""How the operators of a cluster are set up: the gang scheduler, and features that can be switched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FEATURES: Mapping[str, bool] = {
    "JobManagedBy": True,
    "InPlaceRestart": True,
    "TrainJobStatus": False,
}
"""Feature gates by their upstream names, and whether they are on by default.

JobManagedBy: the Job operator leaves Jobs of another manager alone. InPlaceRestart: JobSets may restart their
containers without making pods anew. TrainJobStatus: training pods can report their progress.
"""


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Set per cluster."""

    gang_scheduler: str = ""
    """`volcano`, or the name of a scheduler built with scheduler-plugins; empty for none."""
    features: Mapping[str, bool] = field(default_factory=dict)
    """Features switched away from their default."""

    ray: bool | None = None
    """Whether pods can start Ray; None to look for it on this machine."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.features) - set(FEATURES))
        if unknown:
            raise ValueError(f"unknown feature {unknown[0]}; there are {', '.join(sorted(FEATURES))}")

    def has(self, feature: str) -> bool:
        return self.features.get(feature, FEATURES[feature])
