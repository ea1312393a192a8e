"""What a pod's containers do next: init containers in order, sidecars, restarts with back-off, the end.

`plan` looks at what is known and says which containers to start and stop now and when to look again. It is called after
every change and does not remember anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from corral.core.backoff import doubled
from corral.core.meta import Obj, is_deleting, spec_of
from corral.decide.pods.record import (
    ContainerRecord,
    Ended,
    PodRecord,
    Running,
    Waiting,
    init_containers,
    is_sidecar,
    main_containers,
)

FIRST_BACKOFF_S = 10.0
MAX_BACKOFF_S = 300.0
LONG_RUN_S = 600.0
DEADLINE = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
LOST = "The container could not be located when the pod was terminated"


@dataclass(slots=True)
class Plan:
    """What to do now."""

    start: list[str] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)
    backing_off: dict[str, float] = field(default_factory=dict)
    """Containers that wait for their restart, with the length of the whole wait."""
    wake_at: float | None = None
    is_over: bool = False
    """Nothing runs and nothing will run again."""

    def wake(self, at: float) -> None:
        self.wake_at = at if self.wake_at is None else min(self.wake_at, at)


def plan(pod: Obj, record: PodRecord, now: float) -> Plan:
    """The next step for `pod`."""
    result = Plan()
    if is_deleting(pod) or record.failure is not None:
        _end(record, result)
        return result
    deadline = spec_of(pod).get("activeDeadlineSeconds")
    if deadline is not None and record.started_at is not None:
        result.wake(record.started_at + float(deadline))
    if not _initialize(pod, record, now, result):
        return result
    finished = [_advance(pod, record.containers[c["name"]], now, result) for c in main_containers(pod)]
    if all(finished):
        result.start.clear()
        _end(record, result)
    return result


def exceeds_deadline(pod: Obj, record: PodRecord, now: float) -> bool:
    deadline = spec_of(pod).get("activeDeadlineSeconds")
    return deadline is not None and record.started_at is not None and now >= record.started_at + float(deadline)


def backoff(crashes: int) -> float:
    """Seconds between the end of a container and its restart, after `crashes` ends in a row."""
    return 0.0 if crashes <= 1 else doubled(FIRST_BACKOFF_S, crashes - 2, MAX_BACKOFF_S)


def will_restart(pod: Obj, container: Obj, ended: Ended) -> bool:
    """Whether the restart policy brings a container back after it ended like this."""
    policy = container.get("restartPolicy") or spec_of(pod).get("restartPolicy") or "Always"
    if is_sidecar(container) or policy == "Always":
        return not (container in init_containers(pod) and not is_sidecar(container) and ended.exit_code == 0)
    return bool(policy == "OnFailure" and ended.exit_code != 0)


def started(record: ContainerRecord, attempt: int, identity: str, at: float, *, is_ready: bool) -> ContainerRecord:
    """The record after run number `attempt` has begun."""
    last = record.state if isinstance(record.state, Ended) else record.last
    return replace(record, state=Running(at), attempt=attempt, id=identity, last=last, started=is_ready, ready=is_ready)


def ended(record: ContainerRecord, ending: Ended) -> ContainerRecord:
    """The record after its run has ended."""
    was_long = ending.finished_at - ending.started_at >= LONG_RUN_S
    crashes = 1 if was_long else record.crashes + 1
    return replace(record, state=ending, crashes=crashes, ready=False, started=False)


def abandoned(pod: Obj, record: PodRecord, now: float) -> PodRecord:
    """The record of a pod that ended before some of its main containers ever ran."""
    for container in main_containers(pod):
        entry = record.containers[container["name"]]
        if isinstance(entry.state, Waiting):
            record = record.with_container(
                replace(entry, state=Ended(137, "ContainerStatusUnknown", now, now, LOST), ready=False)
            )
    return record


def _end(record: PodRecord, result: Plan) -> None:
    result.stop = [entry.name for entry in record.containers.values() if isinstance(entry.state, Running)]
    result.is_over = not result.stop


def _initialize(pod: Obj, record: PodRecord, now: float, result: Plan) -> bool:
    """Move the init containers on; True when the main containers may run."""
    begun = any(
        not isinstance(record.containers[c["name"]].state, Waiting) or record.containers[c["name"]].last
        for c in main_containers(pod)
    )
    for container in init_containers(pod):
        entry = record.containers[container["name"]]
        if is_sidecar(container):
            _advance(pod, entry, now, result, container)
            if not begun and not entry.started:
                return False
        elif not begun:
            if isinstance(entry.state, Ended) and entry.state.exit_code == 0:
                continue
            if _advance(pod, entry, now, result, container):
                _end(record, result)  # it failed for good, and with it the pod
            return False
    return True


def _advance(pod: Obj, entry: ContainerRecord, now: float, result: Plan, container: Obj | None = None) -> bool:
    """Start or restart one container when it is time; True when it has ended for good."""
    if isinstance(entry.state, Running):
        return False
    if isinstance(entry.state, Waiting):
        result.start.append(entry.name)
        return False
    spec = container or next(c for c in main_containers(pod) if c["name"] == entry.name)
    if not will_restart(pod, spec, entry.state):
        return True
    delay = backoff(entry.crashes)
    due = entry.state.finished_at + delay
    if due <= now:
        result.start.append(entry.name)
    else:
        result.backing_off[entry.name] = delay
        result.wake(due)
    return False
