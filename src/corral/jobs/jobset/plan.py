"""A JobSet's next step: which Jobs to make, restart, suspend or delete, and what its status says.

The order of questions matters and is fixed: ended? old attempts? all ready? failed? succeeded? then what is missing is
made and suspension is carried to the Jobs. Restarting is a counter: Jobs of an earlier attempt are deleted and made
again under the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from corral.core import conditions
from corral.core.conditions import condition
from corral.core.meta import (
    Obj,
    labels_of,
    name_of,
    spec_of,
)
from corral.decide.pods.growth import STEP, at_once, first
from corral.jobs.framework.resuming import resumed
from corral.jobs.jobset.children import (
    ALPHA,
    PREFIX,
    REPLICATED_JOB,
    build_job,
    claims_of,
    headless_service,
    is_suspended,
    job_name,
    replicas_of,
    replicated_jobs,
)
from corral.jobs.jobset.ending import after_failure, ended, has_succeeded, succeed
from corral.jobs.jobset.in_place_restart import restart_in_place, restarts_in_place
from corral.jobs.jobset.kind import CONTROLLER
from corral.jobs.jobset.plan_values import Event, JobSetPlan
from corral.jobs.jobset.status import (
    Children,
    counted,
    counts_of,
    finished,
    is_started,
    live,
    put,
    sort_children,
    unready,
    with_readiness,
)

_OWN_PREFIXES = (f"{PREFIX}/", f"{ALPHA}/")
"""Labels and annotations that JobSets put on their pods."""

_STARTING = conditions.condition(
    "StartupPolicyInProgress", True, "InOrderStartupPolicyInProgress", "in order startup policy is in progress"
)
_STARTED = conditions.condition(
    "StartupPolicyCompleted", True, "InOrderStartupPolicyCompleted", "in order startup policy has completed"
)


def is_managed_here(job_set: Obj) -> bool:
    return spec_of(job_set).get("managedBy") in (None, CONTROLLER)


def plan_job_set(
    job_set: Obj, jobs: Sequence[Obj], now: float, pods: Sequence[Obj] = (), room: int = STEP
) -> JobSetPlan:
    """The next step of a JobSet that owns `jobs`; `pods` are looked at only where containers restart in place.

    At most `room` Jobs are made."""
    children = sort_children(job_set, jobs)
    status = counted(job_set, children)
    end = finished(job_set)
    if end is not None:
        return ended(job_set, children, status, end, now)
    status = with_readiness(job_set, status, now)
    if children.failed:
        return after_failure(job_set, children, status, now)
    if has_succeeded(job_set, children):
        return succeed(children, status, now)
    plan = _converge(job_set, children, status, now, at_once(room, unready(children)))
    if not restarts_in_place(job_set):
        return plan
    return replace(plan, status=restart_in_place(job_set, plan.status, pods, now))


def _converge(job_set: Obj, children: Children, status: Obj, now: float, room: int) -> JobSetPlan:
    status, events = _with_suspension(job_set, status, now)
    create, status = _missing(job_set, children, status, now, room)
    suspend, resume = _suspension(job_set, children, status)
    return JobSetPlan(
        status,
        delete=tuple(live(children.outdated)),
        create=tuple(create),
        suspend=tuple(suspend),
        resume=tuple(resume),
        service=headless_service(job_set),
        claims=tuple(claims_of(job_set)),
        events=events,
    )


def _with_suspension(job_set: Obj, status: Obj, now: float) -> tuple[Obj, tuple[Event, ...]]:
    if is_suspended(job_set):
        entry = condition("Suspended", True, "SuspendedJobs", "jobset is suspended")
    else:
        entry = condition("Suspended", False, "ResumeJobs", "jobset is resumed")
    old = conditions.find(status.get("conditions") or [], "Suspended")
    changed = put(status, entry, now)
    if changed is status or (old is not None and old["status"] == entry["status"]):
        return status, ()
    return changed, (("Normal", entry["reason"], entry["message"]),)


def _is_in_order(job_set: Obj) -> bool:
    return (spec_of(job_set).get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"


def _missing(job_set: Obj, children: Children, status: Obj, now: float, room: int) -> tuple[list[Obj], Obj]:
    """The Jobs to make now, as far as order, dependencies, restarts and room allow."""
    blocking = (spec_of(job_set).get("failurePolicy") or {}).get("restartStrategy") == "BlockingRecreate"
    if blocking and children.outdated:
        return [], status
    held = {name_of(job) for job in children.all}
    in_order = _is_in_order(job_set) and not is_suspended(job_set)
    create: list[Obj] = []
    for replicated in replicated_jobs(job_set):
        if not _dependencies_met(job_set, replicated, status):
            continue
        missing = (
            build_job(job_set, replicated, index)
            for index in range(replicas_of(replicated))
            if job_name(job_set, replicated, index) not in held
        )
        create += first(missing, room - len(create))
        if in_order and not is_started(replicated, status):
            return create, put(status, _STARTING, now)
    if in_order:
        entries = conditions.without(status.get("conditions") or [], _STARTING["type"])
        status = put({**status, "conditions": entries}, _STARTED, now)
    return create, status


def _dependencies_met(job_set: Obj, replicated: Obj, status: Obj) -> bool:
    by_name = {entry["name"]: entry for entry in replicated_jobs(job_set)}
    for dependency in replicated.get("dependsOn") or ():
        other = by_name.get(dependency["name"])
        if other is None:
            return False
        if dependency.get("status") == "Complete":
            if int(counts_of(status, other["name"]).get("succeeded") or 0) < replicas_of(other):
                return False
        elif not is_started(other, status):
            return False
    return True


def _suspension(job_set: Obj, children: Children, status: Obj) -> tuple[list[Obj], list[Obj]]:
    """Child Jobs whose suspension differs from the JobSet's."""
    if is_suspended(job_set):
        return [job for job in children.active if not spec_of(job).get("suspend")], []
    resume: list[Obj] = []
    for replicated in replicated_jobs(job_set):
        mine = [job for job in children.active if labels_of(job).get(REPLICATED_JOB) == replicated["name"]]
        wanted = spec_of(replicated.get("template") or {}).get("template") or {}
        resume += [resumed(job, wanted, _OWN_PREFIXES) for job in mine if spec_of(job).get("suspend")]
        if _is_in_order(job_set) and not is_started(replicated, status):
            break
    return [], resume
