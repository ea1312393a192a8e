"""Kinds of jobs that nobody wrote an adapter for: where their fields are is described in the configuration.

A described kind has a CustomResourceDefinition and an operator of its own somewhere, a suspend flag, pod templates at fixed
places, and conditions or a status field that say when it has ended. That is enough to queue it, to dispatch it and to
bring its status home.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from corral.core import conditions
from corral.core.meta import Obj, status_of
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobAdapter, JobOutcome, Slot, SuspendableJob
from corral.jobs.framework.paths import Path, get_in


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of the description; a field it does not know is an error."""


class DescribedPods(_Part, frozen=True):
    """Equal pods of a job: where the template is, and how many (a number, or the path of one, which may be absent)."""

    name: str
    template: str
    count: str | int = 1


class DescribedState(_Part, frozen=True):
    """A state a job can be in: a condition that is True, or a status field with one of some values."""

    condition: str = ""
    path: str = ""
    values: tuple[str, ...] = ()
    message: str = ""
    """The path of a text that says more, for states that are not conditions."""

    def text(self, job: Obj) -> str | None:
        """What is said about the state when the job is in it; None when it is not."""
        if self.condition:
            entry = conditions.find(job, self.condition)
            is_so = entry is not None and entry.get("status") == "True"
            return str((entry or {}).get("message") or "") if is_so else None
        if str(get_in(job, steps(self.path))) not in self.values:
            return None
        return str(get_in(job, steps(self.message)) or "") if self.message else ""


class JobDescription(_Part, frozen=True):
    """All that has to be known about a kind."""

    api_version: str
    kind: str
    pod_sets: tuple[DescribedPods, ...]
    succeeded: DescribedState
    failed: DescribedState
    plural: str = ""
    suspend: str = "spec.suspend"
    managed_by: str = ""
    running: DescribedState | None = None
    """When all pods are ready; a job that does not say is taken to be ready as soon as it is not suspended."""
    status: tuple[str, ...] = ()
    """The fields of the status that come home from a worker; all of them when none is named."""

    @property
    def resource(self) -> Resource:
        group, _, version = self.api_version.rpartition("/")
        return Resource(group, version, self.plural or f"{self.kind.lower()}s", self.kind)

    @property
    def framework(self) -> str:
        return f"{self.resource.group}/{self.kind.lower()}"


def steps(path: str) -> Path:
    """A path with dots as steps; a number is a position in a list."""
    return tuple(int(step) if step.isdigit() else step for step in path.split("."))


class DescribedJob(SuspendableJob):
    """The adapter of a described kind."""

    description: ClassVar[JobDescription]

    def slots(self, job: Obj) -> list[Slot]:
        return [
            Slot(pods.name, steps(pods.template), _count(job, pods.count))
            for pods in self.description.pod_sets
            if get_in(job, steps(pods.template)) is not None
        ]

    def is_active(self, job: Obj) -> bool:
        """Nothing says how many pods run; a job that is neither suspended nor over may have some."""
        return not self.is_suspended(job) and self.finished(job) is None

    def finished(self, job: Obj) -> JobOutcome | None:
        for state, success in ((self.description.succeeded, True), (self.description.failed, False)):
            text = state.text(job)
            if text is not None:
                return JobOutcome(text, success)
        return None

    def pods_ready(self, job: Obj) -> bool:
        running = self.description.running
        return not self.is_suspended(job) if running is None else running.text(job) is not None

    def sync_status(self, local: Obj, remote: Obj) -> Obj | None:
        wanted = self.description.status
        if not wanted:
            return super().sync_status(local, remote)
        held, found = status_of(local), status_of(remote)
        status = {**held, **{name: found[name] for name in wanted if name in found}}
        return None if status == held else {**local, "status": status}


class ExternalJob(SuspendableJob):
    """A kind that somebody else queues: it has a `spec.managedBy` and a Workload, and is only dispatched from here."""

    def slots(self, job: Obj) -> list[Slot]:
        return []

    def is_suspended(self, job: Obj) -> bool:
        return False

    def is_active(self, job: Obj) -> bool:
        return False

    def finished(self, job: Obj) -> JobOutcome | None:
        return None

    def pods_ready(self, job: Obj) -> bool:
        return False


def external_job(kind: Resource) -> JobAdapter:
    """The adapter of a kind that Kueue calls an external framework of MultiKueue."""

    class External(ExternalJob):
        framework: ClassVar[str] = f"{kind.group}/{kind.kind.lower()}"
        resource: ClassVar[Resource] = kind

    return External()


def _count(job: Obj, count: str | int) -> int:
    value: Any = count if isinstance(count, int) else get_in(job, steps(count))
    return 1 if value is None else int(value)


def described_job(kind: JobDescription) -> JobAdapter:
    """The adapter for a description."""

    class Described(DescribedJob):
        description: ClassVar[JobDescription] = kind
        framework: ClassVar[str] = kind.framework
        resource: ClassVar[Resource] = kind.resource
        suspend_path: ClassVar[Path] = steps(kind.suspend)
        managed_by_path: ClassVar[Path | None] = steps(kind.managed_by) if kind.managed_by else None

    return Described()
