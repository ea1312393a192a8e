"""What an MPIJob is made of: worker pods, the launcher Job, their service, hosts and group."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.meta import (
    Obj,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
)
from corral.core.whole_numbers import whole_number
from corral.decide.pods.facts import phase_of
from corral.jobs.framework import gang
from corral.jobs.kubeflow.kind import MPI, replica_specs_of, run_policy_of
from corral.jobs.kubeflow.status import JOB_NAME, JOB_ROLE, OPERATOR, REPLICA_INDEX
from corral.jobs.mpijob.hosts import AGENT, AGENT_COMMAND, AGENT_KEY, CONFIG_DIR, SSH_KEYS, agent_env, is_ssh_daemon

OPERATOR_NAME = "mpi-operator"


def is_suspended(job: Obj) -> bool:
    return bool(run_policy_of(job).get("suspend"))


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
    number = whole_number(labels_of(pod).get(REPLICA_INDEX, "")) or 0
    return number - 1 if _runs_launcher_as_worker(job) else number


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


def child_metadata(job: Obj, name: str) -> Obj:
    return {
        "name": name,
        "namespace": namespace_of(job),
        "labels": {"app": name_of(job)},
        "ownerReferences": [owner_ref(job)],
    }


def config_map(job: Obj, workers: Sequence[Obj], agent: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(job, f"{name_of(job)}-config"),
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
        "metadata": child_metadata(job, name_of(job)),
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


def _volumes(job: Obj) -> list[Obj]:
    files = [
        {"key": "hostfile", "path": "hostfile", "mode": 0o444},
        {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555},
        {"key": AGENT_KEY, "path": AGENT_KEY, "mode": 0o555},
    ]
    return [
        {
            "name": "ssh-auth",
            "secret": {"secretName": f"{name_of(job)}-ssh", "items": list(SSH_KEYS), "defaultMode": 0o600},
        },
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
        "metadata": child_metadata(job, launcher_name(job)),
        "spec": {
            **limits,
            "podReplacementPolicy": "Failed",
            "suspend": is_suspended(job),
            "template": pod,
        },
    }
