"""What is known about a pod's containers: the values between a runtime that observes and the rules that decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from corral.core.meta import Obj, spec_of


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not running yet; why."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    started_at: float


@dataclass(frozen=True, slots=True)
class Ended:
    exit_code: int
    reason: str
    started_at: float
    finished_at: float
    message: str = ""
    id: str = ""


State = Waiting | Running | Ended


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """One container over its restarts."""

    name: str
    state: State = field(default_factory=Waiting)
    attempt: int = 0
    """The number of the current or last run; equals the restart count once it has run."""
    crashes: int = 0
    """Ends in a row without a long run between them; sets the back-off."""
    last: Ended | None = None
    started: bool = False
    ready: bool = False
    id: str = ""


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod on its node."""

    containers: Mapping[str, ContainerRecord]
    address: str = ""
    started_at: float | None = None
    failure: tuple[str, str] | None = None
    """Reason and message when the pod as a whole has failed, whatever its containers say."""

    def with_container(self, container: ContainerRecord) -> PodRecord:
        return replace(self, containers={**self.containers, container.name: container})


def init_containers(pod: Obj) -> list[Obj]:
    return spec_of(pod).get("initContainers") or []


def main_containers(pod: Obj) -> list[Obj]:
    return spec_of(pod).get("containers") or []


def all_containers(pod: Obj) -> list[Obj]:
    return [*init_containers(pod), *main_containers(pod)]


def is_sidecar(container: Obj) -> bool:
    """An init container that keeps running beside the main ones."""
    return container.get("restartPolicy") == "Always"


def new_record(pod: Obj, started_at: float) -> PodRecord:
    """A pod none of whose containers has run."""
    reason = "PodInitializing" if init_containers(pod) else "ContainerCreating"
    names = [container["name"] for container in all_containers(pod)]
    return PodRecord({name: ContainerRecord(name, Waiting(reason)) for name in names}, started_at=started_at)
