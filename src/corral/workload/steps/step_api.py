"""What a step of a Workload's life looks at, and what it may answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, Protocol

from corral.core import conditions
from corral.core.meta import Key, Obj, spec_of, status_of, with_status
from corral.core.timestamps import format_time, parse_time
from corral.kinds.kueue import names
from corral.kinds.kueue.gates import FeatureGates
from corral.workload import checks, lifecycle, variants
from corral.workload import workload as wl
from corral.workload.settings import LifeSettings
from corral.workload.waiting_reasons import SchedulerKnowledge

STATUS, WHOLE_STATUS, OBJECT = "status", "whole status", "object"
"""Parts of a Workload: its status as the one who admits declares it, all of its status, and all but its status."""


class Eviction(NamedTuple):
    """Why a Workload was evicted, as it is counted."""

    reason: str
    cause: str = ""


class WriteWorkload(NamedTuple):
    """Store this Workload, then record the event and count the eviction or admission."""

    workload: Obj
    part: str = STATUS
    event: tuple[str, str, str] | None = None
    """Type, reason and message."""
    eviction: Eviction | None = None
    """Set when the write evicts."""
    admits: bool = False


class FinishWorkload(NamedTuple):
    """End a Workload."""

    reason: str
    message: str


class RemoveFinalizer(NamedTuple):
    """Remove our finalizer."""


class Delete(NamedTuple):
    """Delete a Workload and say why."""

    message: str


class LookAgain(NamedTuple):
    """Nothing to do yet; run the steps again after so many seconds."""

    seconds: float


Move = WriteWorkload | FinishWorkload | RemoveFinalizer | Delete | LookAgain


class Objects(Protocol):
    """Objects of one kind, found by their key."""

    def get(self, key: Key) -> Obj | None: ...


class Queues(Protocol):
    """The queues of a cluster."""

    @property
    def local_queues(self) -> Objects: ...

    @property
    def cluster_queues(self) -> Objects: ...


class WorkloadView:
    """What a step may look at besides the Workload: its queues, the configuration, what the scheduler knows, the time."""

    def __init__(
        self, workload: Obj, queues: Queues, config: LifeSettings, now: float, state: SchedulerKnowledge | None = None
    ) -> None:
        self._workload = workload
        self._queues = queues
        self.config = config
        self.gates: FeatureGates = config.gates
        self.now = now
        self.state = state

    @cached_property
    def stamp(self) -> str:
        """Now, as conditions say it."""
        return format_time(self.now)

    @cached_property
    def local_queue(self) -> Obj | None:
        return self._queues.local_queues.get(wl.local_queue_key(self._workload))

    @cached_property
    def cluster_queue(self) -> Obj | None:
        """The ClusterQueue that holds its quota, else the one it waits for."""
        name = wl.cluster_queue_of(self._workload) or str(spec_of(self.local_queue or {}).get("clusterQueue", ""))
        return self._queues.cluster_queues.get(Key("", name)) if name else None

    @cached_property
    def required_checks(self) -> list[str]:
        """The checks it has to pass: those its queue asks for, or those it has when there is no queue to ask."""
        if self.is_parent:
            return []
        if self.cluster_queue is None:
            return [state["name"] for state in wl.check_states_of(self._workload)]
        return checks.required_checks(self.cluster_queue, self._workload)

    @property
    def concurrent(self) -> bool:
        return self.gates["ConcurrentAdmission"]

    @property
    def is_parent(self) -> bool:
        """Whether variants of this Workload are queued, and pass checks, instead of it."""
        return self.concurrent and variants.is_parent(self._workload)


Step = Callable[[Obj, WorkloadView], Move | None]


def evicted(
    workload: Obj, view: WorkloadView, reason: str, message: str, *, cause: str = "", requeue_at: float | None = None
) -> WriteWorkload:
    """Evict a Workload, not to be tried again before `requeue_at`."""
    new = lifecycle.evict(workload, reason, message, view.stamp, cause=cause)
    if requeue_at is not None:
        new = with_requeue_at(new, requeue_at, counted=reason == names.BY_PODS_READY_TIMEOUT)
    return eviction(new, reason, message, cause)


def eviction(new: Obj, reason: str, message: str, cause: str = "") -> WriteWorkload:
    """The write of an eviction, with its event."""
    named = (conditions.find(new, names.EVICTED) or {}).get("reason", reason)
    return WriteWorkload(new, event=("Normal", f"EvictedDueTo{named}", message), eviction=Eviction(reason, cause))


def requeued(workload: Obj, view: WorkloadView, reason: str, message: str) -> Obj:
    """`workload` free to be queued again."""
    return lifecycle.with_condition(workload, names.REQUEUED, True, reason, message, view.stamp)


def released(workload: Obj, view: WorkloadView, reason: str, message: str) -> Obj:
    """`workload` without its reservation."""
    required = [state["name"] for state in wl.check_states_of(workload)]
    return lifecycle.release(workload, required, view.stamp, message=message, reason=reason)


def with_requeue_at(workload: Obj, due: float, *, counted: bool = False) -> Obj:
    """The earliest next try moved to `due`, and counted if asked; it never moves back."""
    old = status_of(workload).get("requeueState") or {}
    state = dict(old)
    if counted:
        state["count"] = int(old.get("count") or 0) + 1
    if not old.get("requeueAt") or parse_time(old["requeueAt"]) < due:
        state["requeueAt"] = format_time(due)
    return workload if state == old else with_status(workload, {**status_of(workload), "requeueState": state})


def without_requeue_state(workload: Obj) -> Obj:
    """`workload` as if it had never been put off."""
    return with_status(workload, {name: value for name, value in status_of(workload).items() if name != "requeueState"})
