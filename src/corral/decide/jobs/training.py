"""A training job's next step: one engine for every kubeflow.org/v1 kind.

Replicas have fixed names; a missing one is made, one too many is deleted, a failed one is deleted when its restart
policy says so and made again under the same name. Each has a headless service, so that the others find it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from corral.core import conditions
from corral.core.meta import Obj, annotations_of, labels_of, name_of, namespace_of, owner_ref, spec_of, status_of
from corral.core.timestamps import format_time, parse_time
from corral.decide.jobs import gang
from corral.decide.jobs.pods import phase_of, restarts
from corral.decide.jobs.training_env import environment, replica_name, replicas_of, with_environment
from corral.decide.jobs.training_status import (
    JOB_ROLE,
    REPLICA_INDEX,
    REPLICA_TYPE,
    Judge,
    count_replicas,
    exit_code,
    index_of,
    is_finished,
    is_retryable,
    put,
    type_labels,
)
from corral.kinds.kubeflow import (
    CONTROLLER,
    JAX,
    MPI,
    PADDLE,
    PYTORCH,
    Framework,
    replica_specs_of,
    run_policy_of,
)

RESTARTS = "corral.dev/replica-restarts"
INIT_SCRIPT = "err=1;for i in $(seq 100); do if nslookup {master}; then err=0 && break; fi;echo waiting for master; sleep 2; done; exit $err"

Event = tuple[str, str, str]


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


def is_ours(job: Obj) -> bool:
    return run_policy_of(job).get("managedBy") in (None, CONTROLLER)


def clean_policy(job: Obj) -> str:
    """Which pods go when the job is finished; MPIJob v1 may say it in the spec itself."""
    return str(run_policy_of(job).get("cleanPodPolicy") or spec_of(job).get("cleanPodPolicy") or "None")


@dataclass(frozen=True, slots=True)
class Look:
    """What a step is decided from."""

    framework: Framework
    job: Obj
    pods: Sequence[Obj]
    services: Sequence[Obj]
    now: float
    settings: Settings
    group: Obj | None = None
    """The PodGroup of the job, where a gang scheduler is used."""

    @property
    def specs(self) -> dict[str, Obj]:
        return replica_specs_of(self.framework, self.job)

    def reason(self, word: str) -> str:
        return f"{self.framework.kind}{word}"

    def says(self, word: str) -> str:
        return f"{self.framework.kind} {name_of(self.job)} is {word}."


def plan_training(look: Look) -> TrainingPlan:
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


def by_type(specs: Mapping[str, Obj], children: Sequence[Obj]) -> dict[str, list[Obj]]:
    """Children by replica type; those of no known type are left out."""
    names = {kind.lower(): kind for kind in specs}
    found: dict[str, list[Obj]] = {kind: [] for kind in specs}
    for child in children:
        kind = names.get(labels_of(child).get(REPLICA_TYPE, ""))
        if kind is not None:
            found[kind].append(child)
    return found


# Stages of a job's life


def _created(look: Look) -> Obj:
    status = dict(status_of(look.job))
    entries = status.get("conditions") or []
    if not entries:
        status["conditions"] = put(entries, "Created", True, look.reason("Created"), look.says("created"), look.now)
    return status


def _started(look: Look, status: Obj) -> tuple[Obj, tuple[Event, ...]]:
    """A resumed or new job gets its start time."""
    entries = status["conditions"]
    events: tuple[Event, ...] = ()
    if conditions.is_true(entries, "Suspended"):
        reason, text = look.reason("Resumed"), look.says("resumed")
        entries = put(entries, "Suspended", False, reason, text, look.now)
        status = {**status, "conditions": entries, "startTime": format_time(look.now)}
        events = (("Normal", reason, text),)
    return {**status, "startTime": status.get("startTime") or format_time(look.now)}, events


def _suspended(look: Look, status: Obj) -> TrainingPlan:
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


def _cleaned(look: Look) -> tuple[tuple[Obj, ...], tuple[Obj, ...]]:
    """Pods and services a finished job does not keep."""
    policy = clean_policy(look.job)
    if policy == "None":
        return (), ()
    doomed = [pod for pod in look.pods if policy == "All" or phase_of(pod) in ("Running", "Pending")]
    names = {name_of(pod) for pod in doomed}
    orphaned = (service for service in look.services if policy == "All" or name_of(service) in names)
    return _leaving(doomed), tuple(orphaned)


def _finished(look: Look, status: Obj) -> TrainingPlan:
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


# Limits


def _excess(look: Look, status: Obj) -> str:
    """Which limit the job has reached, in the words its failure is reported with."""
    policy = run_policy_of(look.job)
    limit = policy.get("backoffLimit")
    if limit is not None and _restarts(look) >= max(1, int(limit)):
        return f"Job {name_of(look.job)} has failed because it has reached the specified backoff limit"
    if _deadline_left(look, status) == 0:
        return f"Job {name_of(look.job)} has failed because it was active longer than specified deadline"
    return ""


def _restarts(look: Look) -> int:
    """Replicas replaced so far plus containers restarted in place."""
    total, specs = int(annotations_of(look.job).get(RESTARTS) or 0), look.specs
    for kind, members in by_type(specs, look.pods).items():
        if (specs[kind].get("restartPolicy") or look.framework.restart_policy) in ("OnFailure", "Always"):
            total += sum(restarts(pod) for pod in members if phase_of(pod) == "Running")
    return total


def _deadline_left(look: Look, status: Obj) -> float | None:
    limit = run_policy_of(look.job).get("activeDeadlineSeconds")
    if limit is None or is_finished(status):
        return None
    return max(0.0, parse_time(status["startTime"]) + float(limit) - look.now)


def _exceeded(look: Look, status: Obj, text: str, events: tuple[Event, ...]) -> TrainingPlan:
    found, reason = by_type(look.specs, look.pods), look.reason("Failed")
    counts = {kind: count_replicas(look.framework, look.job, kind, members) for kind, members in found.items()}
    status = {**status, "replicaStatuses": counts, "completionTime": format_time(look.now)}
    status["conditions"] = put(status["conditions"], "Failed", True, reason, text, look.now)
    doomed, orphaned = _cleaned(look)
    news = (*events, ("Normal", reason, text))
    return TrainingPlan(status, delete_pods=doomed, delete_services=orphaned, events=news)


# Convergence


def _converge(look: Look, status: Obj, events: tuple[Event, ...]) -> TrainingPlan:
    specs, framework = look.specs, look.framework
    members, reached = by_type(specs, look.pods), by_type(specs, look.services)
    create: list[Obj] = []
    delete: list[Obj] = []
    said: list[Event] = list(events)
    entries, replaced = status["conditions"], 0
    for kind, replica in specs.items():
        total = replicas_of(framework, kind, replica)
        held = {index_of(pod) for pod in members[kind]}
        create += [build_pod(look, kind, index) for index in range(total) if index not in held]
        if len(held) < total and _names_another_scheduler(look):
            text = "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten"
            said.append(("Warning", "SetPodTemplateSchedulerName", text))
        if (replica.get("template") or {}).get("spec", {}).get("restartPolicy") and len(held) < total:
            text = "Restart policy in pod template will be overwritten by restart policy in replica spec"
            said.append(("Warning", "SetPodTemplateRestartPolicy", text))
        for pod in _leaving(members[kind]):
            if _is_surplus(framework, specs, kind, pod):
                delete.append(pod)
            elif phase_of(pod) == "Failed":
                entries, gone, news = _failed_pod(look, kind, pod, entries)
                said += news
                if gone:
                    delete.append(pod)
                    replaced += 1
            elif phase_of(pod) == "Succeeded":
                said += _exited(look, pod)
    counts = {kind: count_replicas(framework, look.job, kind, members[kind]) for kind in specs}
    status = {**status, "conditions": entries, "replicaStatuses": counts}
    status = Judge(framework, look.job, specs, look.now).conclude(status, members)
    announced = ("Running", "Succeeded", "Failed") if framework is MPI else ("Succeeded", "Failed")
    said += _changes(status_of(look.job).get("conditions") or [], status["conditions"], announced)
    surplus = [service for kind in specs for service in reached[kind] if _is_surplus(framework, specs, kind, service)]
    missing = _services(look, reached)
    if gang.holds_pods_back(look.settings.gang_scheduler, look.group):
        create, missing = [], []
    if is_finished(status):
        create, missing = [], []
        status = {**status, "completionTime": status.get("completionTime") or format_time(look.now)}
    return TrainingPlan(
        status,
        tuple(create),
        tuple(delete),
        tuple(missing),
        tuple(surplus),
        restarts=replaced,
        wait_s=_deadline_left(look, status),
        events=tuple(said),
    )


def _names_another_scheduler(look: Look) -> bool:
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


def _exited(look: Look, pod: Obj) -> list[Event]:
    code = exit_code(look.framework, pod)
    if code is None:
        return []
    return [("Normal", "ExitedWithCode", f"Pod: {namespace_of(pod)}.{name_of(pod)} exited with code {code}")]


def _failed_pod(look: Look, kind: str, pod: Obj, entries: Sequence[Obj]) -> tuple[list[Obj], bool, list[Event]]:
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


# Children


def _is_surplus(framework: Framework, specs: Mapping[str, Obj], kind: str, child: Obj) -> bool:
    index = index_of(child)
    return index is not None and index >= replicas_of(framework, kind, specs[kind])


def _services(look: Look, held: Mapping[str, Sequence[Obj]]) -> list[Obj]:
    if look.framework is MPI:
        return []  # its launcher reaches workers by exec, not by name
    missing = []
    for kind, replica in look.specs.items():
        there = {index_of(service) for service in held[kind]}
        missing += [
            build_service(look.framework, look.job, kind, index)
            for index in range(replicas_of(look.framework, kind, replica))
            if index not in there
        ]
    return missing


def _has_role(framework: Framework, specs: Mapping[str, Obj], kind: str, index: int) -> bool:
    """Whether a replica is the one that speaks for the job."""
    if framework is JAX:
        return index == 0
    if framework is MPI:
        return kind == "Launcher"
    if kind in ("Master", "Chief"):
        return True
    if framework is PADDLE or "Master" in specs or "Chief" in specs:
        return False
    return kind == "Worker" and index == 0


def child_labels(framework: Framework, job: Obj, specs: Mapping[str, Obj], kind: str, index: int) -> dict[str, str]:
    labels = {**type_labels(framework, job, kind), REPLICA_INDEX: str(index)}
    if _has_role(framework, specs, kind, index):
        labels[JOB_ROLE] = "master"
    return labels


def _with_port(framework: Framework, containers: Sequence[Obj]) -> list[Obj]:
    """The main container listens on the framework's port unless it names its own."""
    result = []
    for container in containers:
        ports = container.get("ports") or []
        if container.get("name") == framework.container and not any(
            port.get("name") == framework.port_name for port in ports
        ):
            own = {"containerPort": framework.port, "name": framework.port_name, "protocol": "TCP"}
            container = {**container, "ports": [*ports, own]}
        result.append(container)
    return result


def build_pod(look: Look, kind: str, index: int) -> Obj:
    """One replica's pod, with its name, labels, environment and restart policy."""
    framework, job, specs, settings = look.framework, look.job, look.specs, look.settings
    replica = specs[kind]
    template = replica.get("template") or {}
    metadata, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    env = environment(framework, job, specs, kind, index, settings.domain)
    containers = _with_port(framework, spec.get("containers") or [])
    spec["containers"] = with_environment(framework, containers, env)
    policy = replica.get("restartPolicy") or framework.restart_policy
    spec["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    if settings.init_container and framework is PYTORCH and kind == "Worker" and "Master" in specs:
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _init_container(job, settings)]
    labels = {**(metadata.get("labels") or {}), **child_labels(framework, job, specs, kind, index)}
    body: Obj = {
        "name": replica_name(job, kind, index),
        "namespace": namespace_of(job),
        "labels": labels,
        "ownerReferences": [owner_ref(job)],
    }
    if metadata.get("annotations"):
        body["annotations"] = metadata["annotations"]
    pod: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": body, "spec": spec}
    if not settings.gang_scheduler:
        return pod
    return gang.marked(pod, settings.gang_scheduler, name_of(job), kind.lower())


def build_group(look: Look, priority_of: gang.PriorityOf) -> Obj:
    """The PodGroup that lets all replicas start together."""
    members = [
        gang.Member(replica.get("template") or {}, replicas_of(look.framework, kind, replica))
        for kind, replica in look.specs.items()
    ]
    policy = run_policy_of(look.job).get("schedulingPolicy") or {}
    body = gang.job_group(look.job, policy, members, look.settings.gang_scheduler, priority_of, default_queue="default")
    if annotations_of(look.job):
        body["metadata"]["annotations"] = annotations_of(look.job)
    return body


def _init_container(job: Obj, settings: Settings) -> Obj:
    script = INIT_SCRIPT.format(master=replica_name(job, "Master", 0))
    return {
        "name": "init-pytorch",
        "image": settings.init_image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": {"cpu": "100m", "memory": "20Mi"},
            "requests": {"cpu": "50m", "memory": "10Mi"},
        },
        "command": ["sh", "-c", script],
    }


def build_service(framework: Framework, job: Obj, kind: str, index: int) -> Obj:
    """The headless service of one replica, with the ports of its main container."""
    specs = replica_specs_of(framework, job)
    replica, labels = specs[kind], child_labels(framework, job, specs, kind, index)
    containers = _with_port(framework, ((replica.get("template") or {}).get("spec") or {}).get("containers") or [])
    main = next((entry for entry in containers if entry.get("name") == framework.container), {})
    ports = [
        {"name": port.get("name") or f"port-{port['containerPort']}", "port": port["containerPort"]}
        for port in main.get("ports") or ()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": replica_name(job, kind, index),
            "namespace": namespace_of(job),
            "labels": labels,
            "ownerReferences": [owner_ref(job)],
        },
        "spec": {"clusterIP": "None", "selector": labels, "ports": ports},
    }
