"""A training job's next step: one engine for every kubeflow.org/v1 kind.

Replicas have fixed names; a missing one is made, one too many is deleted, a failed one is deleted when its restart
policy says so and made again under the same name. Each has a headless service, so that the others find it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from corral.core import conditions
from corral.core.meta import Obj, annotations_of, name_of, namespace_of, spec_of, status_of
from corral.core.timestamps import format_time, parse_time
from corral.core.whole_numbers import whole_number
from corral.decide.pods.facts import phase_of, restarts
from corral.decide.pods.growth import at_once, first
from corral.jobs.framework import gang
from corral.jobs.kubeflow.children import build_pod, is_surplus, missing_services
from corral.jobs.kubeflow.environment import is_too_long, replicas_of
from corral.jobs.kubeflow.kind import CONTROLLER, MPI, run_policy_of
from corral.jobs.kubeflow.status import Judge, count_replicas, exit_code, index_of, is_finished, is_retryable, put
from corral.jobs.kubeflow.view import TrainingView, by_type

RESTARTS = "corral.dev/replica-restarts"
Event = tuple[str, str, str]

_TOO_LONG = "the addresses of all its replicas are longer than any process may be told"


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Everything one look decides."""

    status: Obj
    create_pods: tuple[Obj, ...] = ()
    delete_pods: tuple[Obj, ...] = ()
    create_services: tuple[Obj, ...] = ()
    delete_services: tuple[Obj, ...] = ()
    restarts: int = 0
    """Replicas replaced because they failed, to be added to the job's account."""
    expire: bool = False
    wait_s: float | None = None
    events: tuple[Event, ...] = ()


def is_managed_here(job: Obj) -> bool:
    return run_policy_of(job).get("managedBy") in (None, CONTROLLER)


def clean_policy(job: Obj) -> str:
    """Which pods go when the job is finished; MPIJob v1 may say it in the spec itself."""
    return str(run_policy_of(job).get("cleanPodPolicy") or spec_of(job).get("cleanPodPolicy") or "None")


def plan_training(look: TrainingView) -> TrainingPlan:
    """The next step of a training job."""
    status = _created(look)
    if is_finished(status):
        return _finished(look, status)
    if run_policy_of(look.job).get("suspend"):
        return _suspended(look, status)
    status, events = _started(look, status)
    status = {**status, "replicaStatuses": {}}
    excess = _excess(look, status)
    if excess:
        return _exceeded(look, status, excess, events)
    return _converge(look, status, events)


def _created(look: TrainingView) -> Obj:
    status = dict(status_of(look.job))
    entries = status.get("conditions") or []
    if not entries:
        status["conditions"] = put(entries, "Created", True, look.reason("Created"), look.says("created"), look.now)
    return status


def _started(look: TrainingView, status: Obj) -> tuple[Obj, tuple[Event, ...]]:
    """A resumed or new job gets its start time."""
    entries = status["conditions"]
    events: tuple[Event, ...] = ()
    if conditions.is_true(entries, "Suspended"):
        reason, text = look.reason("Resumed"), look.says("resumed")
        entries = put(entries, "Suspended", False, reason, text, look.now)
        status = {**status, "conditions": entries, "startTime": format_time(look.now)}
        events = (("Normal", reason, text),)
    return {**status, "startTime": status.get("startTime") or format_time(look.now)}, events


def _suspended(look: TrainingView, status: Obj) -> TrainingPlan:
    """Nothing of a suspended job is left but its status."""
    entries, reason, text = status["conditions"], look.reason("Suspended"), look.says("suspended")
    already = conditions.is_true(entries, "Suspended")
    if conditions.is_true(entries, "Running"):
        entries = put(entries, "Running", False, reason, text, look.now)
    entries = put(entries, "Suspended", True, reason, text, look.now)
    counts = {
        kind: {name: value for name, value in numbers.items() if name != "active"}
        for kind, numbers in (status.get("replicaStatuses") or {}).items()
    }
    status = {**status, "conditions": entries}
    if "replicaStatuses" in status:
        status["replicaStatuses"] = counts
    events = () if already else (("Normal", reason, text),)
    return TrainingPlan(status, delete_pods=_leaving(look.pods), delete_services=tuple(look.services), events=events)


def _leaving(pods: Sequence[Obj]) -> tuple[Obj, ...]:
    return tuple(pod for pod in pods if pod["metadata"].get("deletionTimestamp") is None)


def _cleaned(look: TrainingView) -> tuple[tuple[Obj, ...], tuple[Obj, ...]]:
    """Pods and services a finished job does not keep."""
    policy = clean_policy(look.job)
    if policy == "None":
        return (), ()
    doomed = [pod for pod in look.pods if policy == "All" or phase_of(pod) in ("Running", "Pending")]
    names = {name_of(pod) for pod in doomed}
    orphaned = (service for service in look.services if policy == "All" or name_of(service) in names)
    return _leaving(doomed), tuple(orphaned)


def _finished(look: TrainingView, status: Obj) -> TrainingPlan:
    doomed, orphaned = _cleaned(look)
    if conditions.is_true(status["conditions"], "Succeeded") and "replicaStatuses" in status:
        status = {**status, "replicaStatuses": _settled(status["replicaStatuses"])}
    ttl, end = run_policy_of(look.job).get("ttlSecondsAfterFinished"), status.get("completionTime")
    plan = TrainingPlan(status, delete_pods=doomed, delete_services=orphaned)
    if ttl is None or not end:
        return plan
    left = parse_time(end) + float(ttl) - look.now
    return replace(plan, expire=left <= 0, wait_s=left if left > 0 else None)


def _settled(counts: Obj) -> Obj:
    """After success, replicas that still ran count as succeeded."""
    result = {}
    for kind, numbers in counts.items():
        active = int(numbers.get("active") or 0)
        kept = {name: value for name, value in numbers.items() if name != "active"}
        if active:
            kept["succeeded"] = int(numbers.get("succeeded") or 0) + active
        result[kind] = kept
    return result


def _excess(look: TrainingView, status: Obj) -> str:
    """Which limit the job has reached, in the words its failure is reported with."""
    policy = run_policy_of(look.job)
    limit = policy.get("backoffLimit")
    if limit is not None and _restarts(look) >= max(1, int(limit)):
        return f"Job {name_of(look.job)} has failed because it has reached the specified backoff limit"
    if _deadline_left(look, status) == 0:
        return f"Job {name_of(look.job)} has failed because it was active longer than specified deadline"
    if is_too_long(look.framework, look.job, look.specs):
        return f"Job {name_of(look.job)} has failed because {_TOO_LONG}"
    return ""


def _restarts(look: TrainingView) -> int:
    """Replicas replaced so far plus containers restarted in place."""
    total, specs = whole_number(annotations_of(look.job).get(RESTARTS, "")) or 0, look.specs
    for kind, members in by_type(specs, look.pods).items():
        if (specs[kind].get("restartPolicy") or look.framework.restart_policy) in ("OnFailure", "Always"):
            total += sum(restarts(pod) for pod in members if phase_of(pod) == "Running")
    return total


def _deadline_left(look: TrainingView, status: Obj) -> float | None:
    limit = run_policy_of(look.job).get("activeDeadlineSeconds")
    if limit is None or is_finished(status):
        return None
    return max(0.0, parse_time(status["startTime"]) + float(limit) - look.now)


def _exceeded(look: TrainingView, status: Obj, text: str, events: tuple[Event, ...]) -> TrainingPlan:
    found, reason = by_type(look.specs, look.pods), look.reason("Failed")
    counts = {kind: count_replicas(look.framework, look.job, kind, members) for kind, members in found.items()}
    status = {**status, "replicaStatuses": counts, "completionTime": format_time(look.now)}
    status["conditions"] = put(status["conditions"], "Failed", True, reason, text, look.now)
    doomed, orphaned = _cleaned(look)
    news = (*events, ("Normal", reason, text))
    return TrainingPlan(status, delete_pods=doomed, delete_services=orphaned, events=news)


def _converge(look: TrainingView, status: Obj, events: tuple[Event, ...]) -> TrainingPlan:
    specs, framework = look.specs, look.framework
    members, reached = by_type(specs, look.pods), by_type(specs, look.services)
    room = _room(look)
    create = first((pod for kind in specs for pod in _missing_pods(look, kind, members[kind])), room)
    services = first(missing_services(look, reached), room)
    entries, doomed = status["conditions"], _Doomed()
    said = list(events)
    for kind in specs:
        said += _overwritten(look, kind, members[kind])
        for pod in _leaving(members[kind]):
            entries, news = _judge_pod(look, kind, pod, entries, doomed)
            said += news
    counts = {kind: count_replicas(framework, look.job, kind, members[kind]) for kind in specs}
    status = {**status, "conditions": entries, "replicaStatuses": counts}
    status = Judge(framework, look.job, specs, look.now).conclude(status, members)
    announced = ("Running", "Succeeded", "Failed") if framework is MPI else ("Succeeded", "Failed")
    said += _changes(status_of(look.job).get("conditions") or [], status["conditions"], announced)
    if is_finished(status):
        status = {**status, "completionTime": status.get("completionTime") or format_time(look.now)}
    if is_finished(status) or gang.holds_pods_back(look.settings.gang_scheduler, look.group):
        create, services = [], []
    surplus = (service for kind in specs for service in reached[kind] if is_surplus(framework, specs, kind, service))
    return TrainingPlan(
        status,
        create_pods=tuple(create),
        delete_pods=tuple(doomed.pods),
        create_services=tuple(services),
        delete_services=tuple(surplus),
        restarts=doomed.restarts,
        wait_s=_deadline_left(look, status),
        events=tuple(said),
    )


@dataclass(slots=True)
class _Doomed:
    """Pods to delete, and how many of them are replaced because they failed."""

    pods: list[Obj] = field(default_factory=list)
    restarts: int = 0


def _room(look: TrainingView) -> int:
    """How many replicas to make now; those of a gang cannot start before all of them are there."""
    waiting = 0 if look.settings.gang_scheduler else sum(phase_of(pod) == "Pending" for pod in look.pods)
    return at_once(look.room, waiting)


def _missing_pods(look: TrainingView, kind: str, members: Sequence[Obj]) -> Iterator[Obj]:
    held = {index_of(pod) for pod in members}
    total = replicas_of(look.framework, kind, look.specs[kind])
    return (build_pod(look, kind, index) for index in range(total) if index not in held)


def _overwritten(look: TrainingView, kind: str, members: Sequence[Obj]) -> list[Event]:
    """What pods that are about to be made say, and will not get."""
    replica = look.specs[kind]
    if len({index_of(pod) for pod in members}) >= replicas_of(look.framework, kind, replica):
        return []
    news: list[Event] = []
    if _names_another_scheduler(look):
        text = "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten"
        news.append(("Warning", "SetPodTemplateSchedulerName", text))
    if (replica.get("template") or {}).get("spec", {}).get("restartPolicy"):
        text = "Restart policy in pod template will be overwritten by restart policy in replica spec"
        news.append(("Warning", "SetPodTemplateRestartPolicy", text))
    return news


def _judge_pod(
    look: TrainingView, kind: str, pod: Obj, entries: Sequence[Obj], doomed: _Doomed
) -> tuple[Sequence[Obj], list[Event]]:
    """The conditions after a look at one pod, and what to say about it."""
    if is_surplus(look.framework, look.specs, kind, pod):
        doomed.pods.append(pod)
        return entries, []
    if phase_of(pod) == "Succeeded":
        return entries, _exited(look, pod)
    if phase_of(pod) != "Failed":
        return entries, []
    entries, is_replaced, news = _failed_pod(look, kind, pod, entries)
    if is_replaced:
        doomed.pods.append(pod)
        doomed.restarts += 1
    return entries, news


def _names_another_scheduler(look: TrainingView) -> bool:
    scheduler = look.settings.gang_scheduler
    templates = [replica.get("template") or {} for replica in look.specs.values()]
    return bool(scheduler) and gang.names_another_scheduler(templates, scheduler)


def _changes(before: Sequence[Obj], after: Sequence[Obj], announced: Sequence[str]) -> list[Event]:
    """Events for conditions that became true."""
    news: list[Event] = []
    for entry in after:
        if entry["status"] == "True" and entry["type"] in announced:
            old = conditions.find(before, entry["type"])
            if old is None or old["status"] != "True":
                news.append(("Normal", entry["reason"], entry["message"]))
    return news


def _exited(look: TrainingView, pod: Obj) -> list[Event]:
    code = exit_code(look.framework, pod)
    if code is None:
        return []
    return [("Normal", "ExitedWithCode", f"Pod: {namespace_of(pod)}.{name_of(pod)} exited with code {code}")]


def _failed_pod(look: TrainingView, kind: str, pod: Obj, entries: Sequence[Obj]) -> tuple[list[Obj], bool, list[Event]]:
    """What a failed pod means: the conditions, whether it is replaced, and what to say about it."""
    policy = look.specs[kind].get("restartPolicy") or look.framework.restart_policy
    code, job = exit_code(look.framework, pod), name_of(look.job)
    news = _exited(look, pod)
    if policy in ("OnFailure", "Always") or (policy == "ExitCode" and is_retryable(code)):
        reason, text = look.reason("Restarting"), f"job {job} is restarting because {kind} replica(s) failed."
        news.append(("Warning", reason, text))
        return put(entries, "Restarting", True, reason, text, look.now), True, news
    if policy == "ExitCode":
        reason, text = look.reason("Failed"), f'job "{job}" is failing because "{kind}" replica(s) failed.'
        return put(entries, "Failed", True, reason, text, look.now), False, news
    return list(entries), False, news
