"""What a step of a training job is decided from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corral.core.meta import Obj, labels_of, name_of
from corral.decide.pods.growth import STEP
from corral.jobs.kubeflow.kind import Framework, replica_specs_of
from corral.jobs.kubeflow.status import REPLICA_TYPE


@dataclass(frozen=True, slots=True)
class Settings:
    """How the operator was started."""

    domain: str = ""
    """Cluster domain appended to host names in TF_CONFIG."""
    init_container: bool = False
    """Give PyTorch workers an init container that waits for the master's name; pods as processes need none."""
    init_image: str = "alpine:3.10"
    gang_scheduler: str = ""
    """The scheduler that places all pods of a job together or none; empty for none."""


@dataclass(frozen=True, slots=True)
class TrainingView:
    """What a step is decided from."""

    framework: Framework
    job: Obj
    pods: Sequence[Obj]
    services: Sequence[Obj]
    now: float
    settings: Settings
    group: Obj | None = None
    """The PodGroup of the job, where a gang scheduler is used."""
    room: int = STEP
    """Pods, and services, that may be made now."""

    @property
    def specs(self) -> dict[str, Obj]:
        return replica_specs_of(self.framework, self.job)

    def reason(self, word: str) -> str:
        return f"{self.framework.kind}{word}"

    def says(self, word: str) -> str:
        return f"{self.framework.kind} {name_of(self.job)} is {word}."


def by_type(specs: Mapping[str, Obj], children: Sequence[Obj]) -> dict[str, list[Obj]]:
    """Children by replica type; those of no known type are left out."""
    names = {kind.lower(): kind for kind in specs}
    found: dict[str, list[Obj]] = {kind: [] for kind in specs}
    for child in children:
        kind = names.get(labels_of(child).get(REPLICA_TYPE, ""))
        if kind is not None:
            found[kind].append(child)
    return found
