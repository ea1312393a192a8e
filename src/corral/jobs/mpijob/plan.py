"""An MPIJob v2beta1's next step: worker pods, a launcher Job, and the hosts and keys they share.

Workers are pods with fixed names under one headless service; the launcher is a Job whose end is the MPIJob's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from corral.core.meta import (
    Obj,
    is_deleting,
    spec_of,
)
from corral.core.timestamps import format_time
from corral.decide.pods.facts import is_ready, phase_of
from corral.decide.pods.growth import STEP, at_once, first
from corral.jobs.framework.resuming import resumed
from corral.jobs.kubeflow.kind import run_policy_of
from corral.jobs.mpijob.children import is_suspended, launcher_job, worker_index, worker_pod, workers_wanted
from corral.jobs.mpijob.kind import CONTROLLER, clean_policy_of
from corral.jobs.mpijob.status import Event, created, is_finished, with_progress, with_suspension


@dataclass(frozen=True, slots=True)
class MpiPlan:
    """Everything one look decides."""

    status: Obj
    create_workers: tuple[Obj, ...] = ()
    delete_workers: tuple[Obj, ...] = ()
    create_launcher: Obj | None = None
    suspend_launcher: bool = False
    resume_launcher: Obj | None = None
    """The launcher Job as it should be once resumed; its start time is cleared first."""
    shared: bool = False
    """Service, hosts and keys have to exist."""
    events: tuple[Event, ...] = field(default=())


def is_managed_here(job: Obj) -> bool:
    return run_policy_of(job).get("managedBy") in (None, CONTROLLER)


def plan_mpi(
    job: Obj,
    workers: Sequence[Obj],
    launcher: Obj | None,
    launcher_pods: Sequence[Obj],
    now: float,
    scheduler: str = "",
    room: int = STEP,
) -> MpiPlan:
    """The next step of an MPIJob with these worker pods, this launcher Job and its pods.

    `scheduler` is the gang scheduler that places them together, if any. At most `room` workers are made.
    """
    status = created(job, now)
    if is_finished(status):
        return MpiPlan(status, delete_workers=_cleaned(job, workers))
    status, events = with_suspension(job, status, now)
    if not is_suspended(job) and "startTime" not in status:
        status["startTime"] = format_time(now)
    status, more = with_progress(job, status, workers, launcher, launcher_pods, now)
    events += more
    if is_finished(status):
        return MpiPlan(status, delete_workers=_cleaned(job, workers), events=events)
    if not scheduler:  # of a gang none starts before all are there
        room = at_once(room, sum(phase_of(pod) == "Pending" for pod in workers))
    return _converge(job, status, workers, launcher, events, scheduler, room)


def _cleaned(job: Obj, workers: Sequence[Obj]) -> tuple[Obj, ...]:
    policy = clean_policy_of(job)
    if policy == "None":
        return ()
    return tuple(
        pod for pod in workers if not is_deleting(pod) and (policy == "All" or phase_of(pod) in ("Running", "Pending"))
    )


def _converge(
    job: Obj,
    status: Obj,
    workers: Sequence[Obj],
    launcher: Obj | None,
    events: tuple[Event, ...],
    scheduler: str,
    room: int,
) -> MpiPlan:
    if is_suspended(job):
        return MpiPlan(
            status,
            delete_workers=tuple(pod for pod in workers if not is_deleting(pod)),
            create_launcher=launcher_job(job, scheduler) if launcher is None else None,
            suspend_launcher=launcher is not None and not spec_of(launcher).get("suspend"),
            shared=True,
            events=events,
        )
    wanted = workers_wanted(job)
    held = {worker_index(job, pod) for pod in workers}
    surplus = tuple(pod for pod in workers if worker_index(job, pod) >= wanted and not is_deleting(pod))
    waits = spec_of(job).get("launcherCreationPolicy") == "WaitForWorkersReady"
    ready = sum(is_ready(pod) for pod in workers if not is_deleting(pod)) >= wanted
    missing = (worker_pod(job, index, scheduler) for index in range(wanted) if index not in held)
    running = None
    if launcher is not None and spec_of(launcher).get("suspend"):
        running = resumed(launcher, launcher_job(job, scheduler)["spec"]["template"])
    return MpiPlan(
        status,
        create_workers=tuple(first(missing, room)),
        delete_workers=surplus,
        create_launcher=launcher_job(job, scheduler) if launcher is None and (ready or not waits) else None,
        resume_launcher=running,
        shared=True,
        events=events,
    )
