"""An MPIJob v2beta1's next step: worker pods, a launcher Job, and the hosts and keys they share.

Workers are pods with fixed names under one headless service; the launcher is a Job whose end is the MPIJob's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from corral.core import conditions
from corral.core.meta import (
    Obj,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
)
from corral.core.timestamps import format_time
from corral.decide.jobs import gang
from corral.decide.jobs.job import finish_of
from corral.decide.jobs.pods import is_ready, phase_of
from corral.decide.jobs.training_status import JOB_NAME, JOB_ROLE, OPERATOR, REPLICA_INDEX, put
from corral.kinds.kubeflow import MPI, replica_specs_of, run_policy_of
from corral.kinds.mpi import CONTROLLER, clean_policy_of

OPERATOR_NAME = "mpi-operator"
CONFIG_DIR = "/etc/mpi"
AGENT = f"{CONFIG_DIR}/mpi-agent"
AGENT_KEY = "mpi-agent"
AGENT_COMMAND = ("python3", AGENT)
"""Called through its interpreter, so that it works where a mounted file cannot be made executable."""

Event = tuple[str, str, str]


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


def is_ours(job: Obj) -> bool:
    return run_policy_of(job).get("managedBy") in (None, CONTROLLER)


def is_suspended(job: Obj) -> bool:
    return bool(run_policy_of(job).get("suspend"))


def is_finished(status: Obj) -> bool:
    entries = status.get("conditions") or []
    return conditions.is_true(entries, "Succeeded") or conditions.is_true(entries, "Failed")


def workers_wanted(job: Obj) -> int:
    worker = replica_specs_of(MPI, job).get("Worker")
    if worker is None:
        return 0
    value = worker.get("replicas")
    return 0 if value is None else int(value)


def launcher_name(job: Obj) -> str:
    return f"{name_of(job)}-launcher"


def worker_name(job: Obj, index: int) -> str:
    return f"{name_of(job)}-worker-{index}"


def _runs_launcher_as_worker(job: Obj) -> bool:
    return bool(spec_of(job).get("runLauncherAsWorker"))


def labels_for(job: Obj, role: str, index: int | None = None) -> dict[str, str]:
    labels = {OPERATOR: OPERATOR_NAME, JOB_NAME: name_of(job), JOB_ROLE: role}
    if index is not None:
        labels[REPLICA_INDEX] = str(index + 1 if role == "worker" and _runs_launcher_as_worker(job) else index)
    return labels


def worker_index(job: Obj, pod: Obj) -> int:
    text = labels_of(pod).get(REPLICA_INDEX, "")
    number = int(text) if text.isdigit() else 0
    return number - 1 if _runs_launcher_as_worker(job) else number


def plan_mpi(
    job: Obj,
    workers: Sequence[Obj],
    launcher: Obj | None,
    launcher_pods: Sequence[Obj],
    now: float,
    scheduler: str = "",
) -> MpiPlan:
    """The next step of an MPIJob with these worker pods, this launcher Job and its pods.

    `scheduler` is the gang scheduler that places them together, if any.
    """
    status = _created(job, now)
    if is_finished(status):
        return MpiPlan(status, delete_workers=_cleaned(job, workers))
    status, events = _with_suspension(job, status, now)
    if not is_suspended(job) and "startTime" not in status:
        status["startTime"] = format_time(now)
    status, more = _with_progress(job, status, workers, launcher, launcher_pods, now)
    events += more
    if is_finished(status):
        return MpiPlan(status, delete_workers=_cleaned(job, workers), events=events)
    return _converge(job, status, workers, launcher, events, scheduler)


def _created(job: Obj, now: float) -> Obj:
    status = dict(status_of(job))
    if not status.get("conditions"):
        text = f"MPIJob {namespace_of(job)}/{name_of(job)} is created."
        status["conditions"] = put([], "Created", True, "MPIJobCreated", text, now)
    return status


def _with_suspension(job: Obj, status: Obj, now: float) -> tuple[Obj, tuple[Event, ...]]:
    entries = status["conditions"]
    if is_suspended(job):
        if conditions.is_true(entries, "Suspended"):
            return status, ()
        if conditions.is_true(entries, "Running"):
            text = f"MPIJob {namespace_of(job)}/{name_of(job)} is suspended."
            entries = put(entries, "Running", False, "MPIJobSuspended", text, now)
        entries = put(entries, "Suspended", True, "MPIJobSuspended", "MPIJob suspended", now)
        status = {name: value for name, value in status.items() if name != "startTime"}
        return {**status, "conditions": entries}, (("Normal", "MPIJobSuspended", "MPIJob suspended"),)
    if conditions.is_true(entries, "Suspended"):
        entries = put(entries, "Suspended", False, "MPIJobResumed", "MPIJob resumed", now)
        status = {**status, "conditions": entries, "startTime": format_time(now)}
        return status, (("Normal", "MPIJobResumed", "MPIJob resumed"),)
    return status, ()


def _with_progress(
    job: Obj, status: Obj, workers: Sequence[Obj], launcher: Obj | None, pods: Sequence[Obj], now: float
) -> tuple[Obj, tuple[Event, ...]]:
    phases = [phase_of(pod) for pod in workers if not is_deleting(pod)]
    running = sum(phase_of(pod) == "Running" for pod in pods)
    counts = {
        "Launcher": _launcher_counts(launcher, running),
        "Worker": {
            name: number
            for name, number in (
                ("active", phases.count("Running")),
                ("succeeded", phases.count("Succeeded")),
                ("failed", phases.count("Failed")),
            )
            if number
        },
    }
    status = {**status, "replicaStatuses": counts}
    end = finish_of(launcher) if launcher is not None else None
    if end is not None and launcher is not None:
        return _ended(job, status, launcher, end, pods, now)
    evicted = [pod for pod in workers if status_of(pod).get("reason") == "Evicted"]
    if evicted:
        text = f"{len(evicted)}/{len(workers)} workers are evicted"
        status["conditions"] = put(status["conditions"], "Failed", True, "MPIJobEvicted", text, now)
        status["completionTime"] = status.get("completionTime") or format_time(now)
        return status, (("Warning", "MPIJobEvicted", text),)
    if running and phases.count("Running") == workers_wanted(job) and not is_suspended(job):
        text = f"MPIJob {namespace_of(job)}/{name_of(job)} is running."
        before = status["conditions"]
        status["conditions"] = put(before, "Running", True, "MPIJobRunning", text, now)
        if not conditions.is_true(before, "Running"):
            return status, (("Normal", "MPIJobRunning", text),)
    return status, ()


def _launcher_counts(launcher: Obj | None, running: int) -> Obj:
    if launcher is None:
        return {}
    held = status_of(launcher)
    end = finish_of(launcher)
    numbers = {
        "active": 0 if end is not None else running,
        "succeeded": 1 if end is not None and end["type"] == "Complete" else 0,
        "failed": int(held.get("failed") or 0),
    }
    return {name: number for name, number in numbers.items() if number}


def _ended(
    job: Obj, status: Obj, launcher: Obj, end: Obj, pods: Sequence[Obj], now: float
) -> tuple[Obj, tuple[Event, ...]]:
    """The launcher's end is the job's; a job that never ran says so, stamped with its end."""
    finish = status_of(launcher).get("completionTime") or end["lastTransitionTime"]
    status = {**status, "completionTime": status.get("completionTime") or finish}
    entries = status["conditions"]
    if end["type"] == "Complete":
        text = f"MPIJob {namespace_of(job)}/{name_of(job)} successfully completed."
        kind, reason = "Succeeded", "MPIJobSucceeded"
    else:
        text = str(end.get("message") or f"MPIJob {namespace_of(job)}/{name_of(job)} has failed")
        kind, reason = "Failed", str(end.get("reason") or "MPIJobFailed")
        last = sorted(
            (pod for pod in pods if phase_of(pod) == "Failed"),
            key=lambda pod: str(status_of(pod).get("startTime") or ""),
        )
        if last and reason == "BackoffLimitExceeded" and status_of(last[-1]).get("reason"):
            reason = f"{reason}/{status_of(last[-1])['reason']}"
            text = f"{text}: {status_of(last[-1]).get('message') or ''}".removesuffix(": ")
    if conditions.find(entries, "Running") is None:
        text_running = f"MPIJob {namespace_of(job)}/{name_of(job)} is not running."
        entry = {
            "type": "Running",
            "status": "False",
            "reason": "MPIJobRunning",
            "message": text_running,
            "lastUpdateTime": finish,
            "lastTransitionTime": finish,
        }
        entries = [*entries, entry]
    status["conditions"] = put(entries, kind, True, reason, text, now)
    return status, (("Normal" if kind == "Succeeded" else "Warning", reason, text),)


def _cleaned(job: Obj, workers: Sequence[Obj]) -> tuple[Obj, ...]:
    policy = clean_policy_of(job)
    if policy == "None":
        return ()
    return tuple(
        pod for pod in workers if not is_deleting(pod) and (policy == "All" or phase_of(pod) in ("Running", "Pending"))
    )


def _converge(
    job: Obj, status: Obj, workers: Sequence[Obj], launcher: Obj | None, events: tuple[Event, ...], scheduler: str
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
    resumed = None
    if launcher is not None and spec_of(launcher).get("suspend"):
        resumed = _resumed(job, launcher, scheduler)
    return MpiPlan(
        status,
        create_workers=tuple(worker_pod(job, index, scheduler) for index in range(wanted) if index not in held),
        delete_workers=surplus,
        create_launcher=launcher_job(job, scheduler) if launcher is None and (ready or not waits) else None,
        resume_launcher=resumed,
        shared=True,
        events=events,
    )


def _resumed(job: Obj, launcher: Obj, scheduler: str) -> Obj:
    """The launcher with the scheduling directives its MPIJob has now, running again."""
    wanted = launcher_job(job, scheduler)["spec"]["template"]
    template = spec_of(launcher).get("template") or {}
    metadata = dict(template.get("metadata") or {})
    for name in ("labels", "annotations"):
        own = {
            key: value
            for key, value in (metadata.get(name) or {}).items()
            if key.startswith("batch.kubernetes.io/") or key in ("controller-uid", "job-name")
        }
        merged = {**(wanted["metadata"].get(name) or {}), **own}
        metadata.pop(name, None)
        if merged:
            metadata[name] = merged
    fields = ("nodeSelector", "tolerations", "schedulingGates")
    pod = {key: value for key, value in (template.get("spec") or {}).items() if key not in fields}
    pod.update({key: value for key, value in wanted["spec"].items() if key in fields})
    spec = {**spec_of(launcher), "suspend": False, "template": {**template, "metadata": metadata, "spec": pod}}
    return {**launcher, "spec": spec}


# Children


def _host(job: Obj, name: str) -> str:
    return f"{name}.{name_of(job)}.{namespace_of(job)}.svc"


def hostfile(job: Obj) -> str:
    """Every host with its number of slots, in the form the MPI implementation reads."""
    slots = int(spec_of(job).get("slotsPerWorker") or 1)
    names = [worker_name(job, index) for index in range(workers_wanted(job))]
    if _runs_launcher_as_worker(job):
        names.insert(0, launcher_name(job))
    form = "{host} slots={slots}" if _implementation(job) == "OpenMPI" else "{host}:{slots}"
    return "".join(form.format(host=_host(job, name), slots=slots) + "\n" for name in names)


def discover_script(job: Obj, workers: Sequence[Obj]) -> str:
    """A script that prints the hosts that run now, for elastic frameworks."""
    slots = int(spec_of(job).get("slotsPerWorker") or 1)
    running = sorted((pod for pod in workers if phase_of(pod) == "Running"), key=lambda pod: worker_index(job, pod))
    lines = [f"echo {_host(job, name_of(pod))}:{slots}" for pod in running]
    return "\n".join(["#!/bin/sh", *lines, ""])


def config_map(job: Obj, workers: Sequence[Obj], agent: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{name_of(job)}-config",
            "namespace": namespace_of(job),
            "labels": {"app": name_of(job)},
            "ownerReferences": [owner_ref(job)],
        },
        "data": {
            "hostfile": hostfile(job),
            "discover_hosts.sh": discover_script(job, workers),
            AGENT_KEY: agent,
        },
    }


def service(job: Obj) -> Obj:
    labels = {OPERATOR: OPERATOR_NAME, JOB_NAME: name_of(job)}
    spec: Obj = {"clusterIP": "None", "selector": labels}
    if _runs_launcher_as_worker(job):
        spec["publishNotReadyAddresses"] = True
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name_of(job),
            "namespace": namespace_of(job),
            "labels": {"app": name_of(job)},
            "ownerReferences": [owner_ref(job)],
        },
        "spec": spec,
    }


def _implementation(job: Obj) -> str:
    return str(spec_of(job).get("mpiImplementation") or "OpenMPI")


def _launcher_env(job: Obj) -> list[Obj]:
    slots = str(spec_of(job).get("slotsPerWorker") or 1)
    hosts = f"{CONFIG_DIR}/hostfile"
    values = {
        "OpenMPI": {
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_default_hostfile": hosts,
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
            "OMPI_MCA_orte_set_default_slots": slots,
            "OMPI_MCA_plm_rsh_agent": " ".join(AGENT_COMMAND),
        },
        "Intel": {
            "I_MPI_HYDRA_HOST_FILE": hosts,
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
            "I_MPI_PERHOST": slots,
            "I_MPI_HYDRA_BOOTSTRAP": "rsh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": AGENT,
        },
        "MPICH": {
            "HYDRA_HOST_FILE": hosts,
            "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
            "HYDRA_LAUNCHER": "rsh",
            "HYDRA_LAUNCHER_EXEC": AGENT,
        },
    }[_implementation(job)]
    if not _runs_launcher_as_worker(job):
        values = {**values, "NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    return [{"name": name, "value": value} for name, value in values.items()]


def agent_env(path: str) -> list[Obj]:
    return [
        {"name": "MPI_SSH_PATH", "value": path},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]


def _pod(job: Obj, kind: str, name: str, labels: dict[str, str], restart_policy: str, scheduler: str) -> Obj:
    """The pod template of a role, with its place in the network, the keys and the hosts."""
    replica = replica_specs_of(MPI, job)[kind]
    template = replica.get("template") or {}
    metadata, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    path = str(spec_of(job).get("sshAuthMountPath") or "/root/.ssh")
    containers = [dict(container) for container in spec.get("containers") or ()]
    first = containers[0]
    role = kind.lower()
    env = [*(first.get("env") or ()), {"name": "K_MPI_JOB_ROLE", "value": role}, *agent_env(path)]
    if kind == "Launcher":
        env += _launcher_env(job)
    mounts = [{"name": "ssh-auth", "mountPath": path}, {"name": "mpi-job-config", "mountPath": CONFIG_DIR}]
    first["env"] = env
    first["volumeMounts"] = [*(first.get("volumeMounts") or ()), *mounts]
    if kind == "Worker" and is_ssh_daemon(first):
        first["command"], first["args"] = [*AGENT_COMMAND, "serve"], []
    spec["containers"] = containers
    spec["hostname"], spec["subdomain"] = name, name_of(job)
    search = f"{name_of(job)}.{namespace_of(job)}.svc.cluster.local"
    dns = dict(spec.get("dnsConfig") or {})
    spec["dnsConfig"] = {**dns, "searches": [*(dns.get("searches") or ()), search]}
    spec["restartPolicy"] = restart_policy
    spec["volumes"] = [*(spec.get("volumes") or ()), *_volumes(job)]
    made = {"metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}, "spec": spec}
    return gang.marked(made, scheduler, name_of(job), overwrite=True) if scheduler else made


def is_ssh_daemon(container: Obj) -> bool:
    """A worker that only waits to be logged into; here it waits for the job's own agent instead."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return not words or str(words[0]).rpartition("/")[2] == "sshd"


def _volumes(job: Obj) -> list[Obj]:
    keys = [
        {"key": "ssh-privatekey", "path": "id_rsa"},
        {"key": "ssh-publickey", "path": "id_rsa.pub"},
        {"key": "ssh-publickey", "path": "authorized_keys"},
    ]
    files = [
        {"key": "hostfile", "path": "hostfile", "mode": 0o444},
        {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555},
        {"key": AGENT_KEY, "path": AGENT_KEY, "mode": 0o555},
    ]
    return [
        {"name": "ssh-auth", "secret": {"secretName": f"{name_of(job)}-ssh", "items": keys, "defaultMode": 0o600}},
        {"name": "mpi-job-config", "configMap": {"name": f"{name_of(job)}-config", "items": files}},
    ]


def build_group(job: Obj, scheduler: str, priority_of: gang.PriorityOf) -> Obj:
    """The PodGroup of launcher and workers; the launcher comes first."""
    specs = replica_specs_of(MPI, job)
    counts = {"Launcher": 1, "Worker": workers_wanted(job)}
    members = [
        gang.Member(specs[kind].get("template") or {}, count) for kind, count in counts.items() if specs.get(kind)
    ]
    named = next((member.priority_class for member in members if member.priority_class), "")
    policy = run_policy_of(job).get("schedulingPolicy") or {}
    if scheduler != gang.VOLCANO:
        policy = {"scheduleTimeoutSeconds": 0, **policy}
    return gang.job_group(job, policy, members, scheduler, priority_of, priority_class=named)


def worker_pod(job: Obj, index: int, scheduler: str = "") -> Obj:
    policy = replica_specs_of(MPI, job)["Worker"].get("restartPolicy") or "Never"
    pod = _pod(job, "Worker", worker_name(job, index), labels_for(job, "worker", index), policy, scheduler)
    metadata = {
        **pod["metadata"],
        "name": worker_name(job, index),
        "namespace": namespace_of(job),
        "ownerReferences": [owner_ref(job)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}


def launcher_job(job: Obj, scheduler: str = "") -> Obj:
    """The Job whose pod runs mpirun; it is as suspended as the MPIJob."""
    policy = replica_specs_of(MPI, job)["Launcher"].get("restartPolicy") or "OnFailure"
    index = 0 if _runs_launcher_as_worker(job) else None
    pod = _pod(job, "Launcher", launcher_name(job), labels_for(job, "launcher", index), policy, scheduler)
    run = run_policy_of(job)
    limits = {
        name: run[name]
        for name in ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
        if run.get(name) is not None
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": launcher_name(job),
            "namespace": namespace_of(job),
            "labels": {"app": name_of(job)},
            "ownerReferences": [owner_ref(job)],
        },
        "spec": {
            **limits,
            "podReplacementPolicy": "Failed",
            "suspend": is_suspended(job),
            "template": pod,
        },
    }
