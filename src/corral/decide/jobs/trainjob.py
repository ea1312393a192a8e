"""A TrainJob composed with its runtime into a JobSet, as the trainer does it.

The runtime is the template; patches, then the trainer's own settings, then the framework's environment are laid over
it. Composition is a pure function of TrainJob and runtime, so composing again changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from corral.core import conditions
from corral.core.meta import Obj, metadata_of, name_of, namespace_of, owner_ref, spec_of, status_of
from corral.core.quantity import milli
from corral.core.schema.structural import Schema, compile_schema
from corral.core.strategic import strategic_merge
from corral.core.timestamps import format_time, parse_time
from corral.decide.jobs import gang, reports
from corral.decide.jobs.mpijob import AGENT_COMMAND, AGENT_KEY, CONFIG_DIR, agent_env, is_ssh_daemon
from corral.kinds import schemas as s
from corral.kinds.jobset import JOB_SETS
from corral.kinds.torchtune import command_of, is_torchtune
from corral.kinds.trainer import (
    CONTROLLER,
    ancestor_of,
    gpus_in,
    injection_targets,
    policy_of,
    resources_per_node,
)

PORT = 29500
INDEX_PATH = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
HOSTFILE_DIR = CONFIG_DIR
SNAPSHOT_KEY = "runtime"


def is_ours(train_job: Obj) -> bool:
    return spec_of(train_job).get("managedBy") in (None, CONTROLLER)


def is_suspended(train_job: Obj) -> bool:
    return bool(spec_of(train_job).get("suspend"))


def snapshot_name(train_job: Obj) -> str:
    """The ConfigMap that keeps the runtime as it was when the TrainJob was first seen."""
    return f"{name_of(train_job)}-runtime-snapshot"


@dataclass(frozen=True, slots=True)
class Composition:
    """What a TrainJob turns into."""

    job_set: Obj
    hostfile: Obj | None = None
    """For MPI: the ConfigMap with the hosts."""
    ssh_secret: str = ""
    """For MPI: the name of the Secret with the keys hosts trust each other by."""
    pod_group: Obj | None = None
    """With a pod group policy: the PodGroup that starts all pods together."""


def compose(
    train_job: Obj, runtime: Obj, agent: str = "", *, reports: bool = False, injected: bool = True
) -> Composition:
    """The JobSet (and what it mounts) of a TrainJob that uses `runtime`.

    `agent` is the program that carries MPI's commands from the launcher to the nodes; `reports` lets the trainer's pods
    report their progress. What the trainer is told through its environment is left out unless `injected`.
    """
    template = spec_of(runtime).get("template") or {}
    spec: Obj = {**(template.get("spec") or {})}
    jobs = [dict(entry) for entry in spec.get("replicatedJobs") or ()]
    metadata = _job_set_metadata(train_job, template)
    jobs = _patched(train_job, jobs)
    policy = policy_of(runtime)
    nodes = node_count(train_job, runtime)
    jobs = [_with_step(train_job, runtime, entry, policy, nodes, injected=injected) for entry in jobs]
    if policy == "torch" and injected:
        jobs = _with_injection(train_job, runtime, jobs, nodes)
    if reports:
        jobs = [_with_reports(train_job, entry) if ancestor_of(entry) == "trainer" else entry for entry in jobs]
    scheduler = _group_scheduler(runtime)
    if scheduler:
        jobs = [_grouped(train_job, entry, scheduler) for entry in jobs]
    spec["replicatedJobs"] = jobs
    spec["suspend"] = is_suspended(train_job)
    body = {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": {
            "name": name_of(train_job),
            "namespace": namespace_of(train_job),
            **metadata,
            "ownerReferences": [owner_ref(train_job)],
        },
        "spec": spec,
    }
    group = _pod_group(train_job, runtime, body, scheduler) if scheduler else None
    if policy != "mpi":
        return Composition(body, pod_group=group)
    hostfile = _hostfile(train_job, runtime, nodes)
    hostfile["data"][AGENT_KEY] = agent
    return Composition(body, hostfile, f"{name_of(train_job)}-mpi-ssh-auth", group)


def _job_set_metadata(train_job: Obj, template: Obj) -> Obj:
    sources = [template.get("metadata") or {}, spec_of(train_job)]
    sources += [
        _patch_template(entry).get("metadata") or {} for entry in spec_of(train_job).get("runtimePatches") or ()
    ]
    merged = {
        name: {key: value for source in sources for key, value in (source.get(name) or {}).items()}
        for name in ("labels", "annotations")
    }
    return {name: values for name, values in merged.items() if values}


def _patch_template(entry: Obj) -> Obj:
    return (entry.get("trainingRuntimeSpec") or {}).get("template") or {}


# Patches


def _patched(train_job: Obj, jobs: list[Obj]) -> list[Obj]:
    """The replicated jobs with every patch and override applied in order."""
    spec = spec_of(train_job)
    for entry in spec.get("runtimePatches") or ():
        for change in (_patch_template(entry).get("spec") or {}).get("replicatedJobs") or ():
            jobs = [_patch_job(job, change) if job.get("name") == change.get("name") else job for job in jobs]
    for entry in spec.get("podTemplateOverrides") or ():
        pod = {name: entry[name] for name in ("metadata", "spec") if entry.get(name)}
        jobs = _override(jobs, entry, pod)
    for entry in spec.get("podSpecOverrides") or ():
        jobs = _override(jobs, entry, {"spec": {key: value for key, value in entry.items() if key != "targetJobs"}})
    return jobs


def _override(jobs: list[Obj], entry: Obj, pod: Obj) -> list[Obj]:
    targets = {target.get("name") for target in entry.get("targetJobs") or ()}
    change = {"template": {"spec": {"template": pod}}}
    return [_patch_job(job, change) if job.get("name") in targets else job for job in jobs]


@cache
def _pod_template_schema() -> Schema:
    return compile_schema(s.kubernetes("io.k8s.api.core.v1.PodTemplateSpec"))


def _patch_job(job: Obj, change: Obj) -> Obj:
    template, wanted = job.get("template") or {}, change.get("template") or {}
    job_spec = dict(template.get("spec") or {})
    pod = (wanted.get("spec") or {}).get("template") or {}
    if pod:
        job_spec["template"] = strategic_merge(job_spec.get("template") or {}, pod, _pod_template_schema())
    metadata = _merged_metadata(template.get("metadata") or {}, wanted.get("metadata") or {})
    return {**job, "template": {**template, **({"metadata": metadata} if metadata else {}), "spec": job_spec}}


def _merged_metadata(old: Obj, new: Obj) -> Obj:
    result = dict(old)
    for name in ("labels", "annotations"):
        if new.get(name):
            result[name] = {**(old.get(name) or {}), **new[name]}
    return result


# Steps


def node_count(train_job: Obj, runtime: Obj) -> int:
    """How many nodes train: the TrainJob's number, else the runtime's, else one."""
    own = (spec_of(train_job).get("trainer") or {}).get("numNodes")
    if own is not None:
        return int(own)
    return int((spec_of(runtime).get("mlPolicy") or {}).get("numNodes", 1))


def _with_step(train_job: Obj, runtime: Obj, job: Obj, policy: str, nodes: int, *, injected: bool = True) -> Obj:
    """One replicated job with what its step in the training needs."""
    step = ancestor_of(job)
    if step in ("dataset-initializer", "model-initializer"):
        config = (spec_of(train_job).get("initializer") or {}).get(step.removesuffix("-initializer"))
        return _with_container(job, step, lambda container: _initialized(container, config)) if config else job
    if policy == "mpi":
        return _mpi_job(train_job, runtime, job, nodes)
    if step != "trainer":
        return job
    job = _sized(job, nodes)
    env = environment(train_job, runtime, job, policy, nodes)
    if policy == "torch" and is_torchtune(train_job):
        env = [entry for entry in env if not entry["name"].startswith("PET_MASTER_")]
        job = _with_container(job, "node", lambda container: _tuned(train_job, runtime, job, container, nodes))
    else:
        job = _with_container(job, "node", lambda container: _trained(train_job, container))
    if not env or not injected:
        return job
    return _with_container(job, "node", lambda container: _with_port(_with_env(container, env)))


def _tuned(train_job: Obj, runtime: Obj, job: Obj, container: Obj, nodes: int) -> Obj:
    """A TorchTune container: the command is completed with the recipe and the runtime's own settings."""
    processes, gpus = processes_per_node(train_job, runtime, job), gpus_in(_resources(train_job, job))
    endpoint = f"{_first_host(train_job, job)}:{PORT}"
    command = command_of(train_job, container.get("command") or (), nodes, processes, gpus, endpoint)
    return {**_trained(train_job, container), "command": command}


def _with_injection(train_job: Obj, runtime: Obj, jobs: list[Obj], nodes: int) -> list[Obj]:
    """Torch's variables for containers beside the trainer's."""
    trainer = next((entry for entry in jobs if ancestor_of(entry) == "trainer"), None)
    targets = {target["jobName"]: set(target["containerNames"]) for target in injection_targets(runtime)}
    if trainer is None or not targets:
        return jobs
    env = environment(train_job, runtime, trainer, "torch", nodes)

    def change(job: Obj) -> Obj:
        pod, wanted = _pod_spec(job), targets.get(str(job.get("name")), set())
        for field in ("initContainers", "containers"):
            if pod.get(field):
                pod[field] = [_with_env(item, env) if item.get("name") in wanted else item for item in pod[field]]
        return _with_pod_spec(job, pod)

    return [change(job) if job.get("name") in targets else job for job in jobs]


def _with_reports(train_job: Obj, job: Obj) -> Obj:
    """The trainer's pods with the address, certificate and token to report progress with."""
    pod = _pod_spec(job)
    mounted = [
        _with_env(
            {**item, "volumeMounts": [*(item.get("volumeMounts") or ()), reports.mount()]},
            reports.environment(train_job),
        )
        for item in pod.get("containers") or ()
    ]
    return _with_pod_spec(
        job, {**pod, "containers": mounted, "volumes": [*(pod.get("volumes") or ()), reports.volume()]}
    )


# Gang scheduling


def _group_scheduler(runtime: Obj) -> str:
    """Whose PodGroup the runtime asks for; empty for none."""
    policy = spec_of(runtime).get("podGroupPolicy") or {}
    if policy.get("volcano") is not None:
        return gang.VOLCANO
    return "coscheduling" if policy.get("coscheduling") is not None else ""


def _grouped(train_job: Obj, job: Obj, scheduler: str) -> Obj:
    """The pods of a replicated job marked as members; which scheduler runs them is the runtime's to say."""
    template = job.get("template") or {}
    job_spec = template.get("spec") or {}
    pod = job_spec.get("template") or {}
    marked = gang.marked(pod, scheduler, name_of(train_job))
    pod = {**pod, "metadata": marked["metadata"]}
    return {**job, "template": {**template, "spec": {**job_spec, "template": pod}}}


def _pod_group(train_job: Obj, runtime: Obj, job_set: Obj, scheduler: str) -> Obj:
    members = [
        gang.Member(
            ((entry.get("template") or {}).get("spec") or {}).get("template") or {},
            int(((entry.get("template") or {}).get("spec") or {}).get("parallelism", 1)),
        )
        for entry in job_set["spec"]["replicatedJobs"]
    ]
    total = sum(member.count for member in members)
    spec: Obj = {"minMember": total, "minResources": gang.least_resources(members, total, lambda name: 0)}
    policy = spec_of(runtime).get("podGroupPolicy") or {}
    if scheduler == gang.VOLCANO:
        spec["queue"] = (job_set["metadata"].get("annotations") or {}).get(gang.QUEUE_NAME)
        named = [member.priority_class for member in members if member.priority_class]
        spec["priorityClassName"] = named[-1] if named else ""
        spec["networkTopology"] = (policy["volcano"] or {}).get("networkTopology")
    else:
        spec["scheduleTimeoutSeconds"] = (policy["coscheduling"] or {}).get("scheduleTimeoutSeconds", 60)
    return gang.pod_group(train_job, scheduler, spec)


# The trainer's container


def _sized(job: Obj, nodes: int) -> Obj:
    template = job.get("template") or {}
    spec = {**(template.get("spec") or {}), "parallelism": nodes, "completions": nodes}
    return {**job, "template": {**template, "spec": spec}}


def _pod_spec(job: Obj) -> Obj:
    job_spec = (job.get("template") or {}).get("spec") or {}
    return dict((job_spec.get("template") or {}).get("spec") or {})


def _with_pod_spec(job: Obj, pod_spec: Obj) -> Obj:
    template = job.get("template") or {}
    job_spec = template.get("spec") or {}
    pod = {**(job_spec.get("template") or {}), "spec": pod_spec}
    return {**job, "template": {**template, "spec": {**job_spec, "template": pod}}}


def _with_container(job: Obj, name: str, change: Any) -> Obj:
    pod = _pod_spec(job)
    containers = [change(entry) if entry.get("name") == name else entry for entry in pod.get("containers") or ()]
    return _with_pod_spec(job, {**pod, "containers": containers})


def _initialized(container: Obj, config: Obj) -> Obj:
    """An initializer told where to read from."""
    env = list(config.get("env") or ())
    if config.get("storageUri"):
        env = [{"name": "STORAGE_URI", "value": config["storageUri"]}, *env]
    container = _with_env(container, env)
    if config.get("secretRef"):
        sources = [*(container.get("envFrom") or ()), {"secretRef": {"name": config["secretRef"]["name"]}}]
        container = {**container, "envFrom": sources}
    return container


def _trained(train_job: Obj, container: Obj) -> Obj:
    """The trainer's container with the TrainJob's image, command, arguments, resources and variables."""
    trainer = spec_of(train_job).get("trainer") or {}
    changes = {name: trainer[name] for name in ("image", "command", "args") if trainer.get(name)}
    if trainer.get("resourcesPerNode"):
        changes["resources"] = with_device_limits(trainer["resourcesPerNode"])
    return _with_env({**container, **changes}, trainer.get("env") or ())


def with_device_limits(resources: Obj) -> Obj:
    """Devices cannot be overcommitted: where only a request for them is given, it is the limit too.

    Without this a pod that requests a GPU the way people write it would be refused.
    """
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    missing = {name: value for name, value in requests.items() if "/" in name and name not in limits}
    return {**resources, "limits": {**limits, **missing}} if missing else resources


def _with_env(container: Obj, env: Iterable[Obj]) -> Obj:
    """The container with variables set by name: what is set later wins, in its old place."""
    merged = {entry["name"]: entry for entry in container.get("env") or ()}
    for entry in env:
        merged[entry["name"]] = entry
    return {**container, "env": list(merged.values())} if merged else container


def _with_port(container: Obj) -> Obj:
    ports = container.get("ports") or []
    if any(port.get("containerPort") == PORT for port in ports):
        return container
    return {**container, "ports": [*ports, {"containerPort": PORT, "protocol": "TCP"}]}


# Frameworks


def environment(train_job: Obj, runtime: Obj, job: Obj, policy: str, nodes: int) -> list[Obj]:
    """The variables a framework's launcher reads on every node."""
    first = _first_host(train_job, job)
    rank = {"valueFrom": {"fieldRef": {"fieldPath": INDEX_PATH}}}
    if policy == "torch":
        torch = (spec_of(runtime).get("mlPolicy") or {}).get("torch") or {}
        values = {
            "PET_NNODES": _elastic_nodes(torch, nodes),
            "PET_NPROC_PER_NODE": processes_per_node(train_job, runtime, job),
        }
        master = {"PET_MASTER_ADDR": first, "PET_MASTER_PORT": str(PORT)}
        return [*_values(values), {"name": "PET_NODE_RANK", **rank}, *_values(master)]
    if policy == "jax":
        return [
            *_values({"JAX_NUM_PROCESSES": str(nodes)}),
            {"name": "JAX_PROCESS_ID", **rank},
            *_values({"JAX_COORDINATOR_ADDRESS": f"{first}:{PORT}"}),
        ]
    if policy == "xgboost":
        workers = nodes * max(1, gpus_in(_resources(train_job, job)))
        return [
            *_values({"DMLC_TRACKER_URI": first, "DMLC_TRACKER_PORT": str(PORT)}),
            {"name": "DMLC_TASK_ID", **rank},
            *_values({"DMLC_NUM_WORKER": str(workers)}),
        ]
    return []


def _first_host(train_job: Obj, job: Obj) -> str:
    return f"{name_of(train_job)}-{job['name']}-0-0.{name_of(train_job)}"


def _values(values: Mapping[str, str]) -> list[Obj]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _elastic_nodes(torch: Obj, nodes: int) -> str:
    elastic = torch.get("elasticPolicy") or {}
    if elastic.get("minNodes") is None and elastic.get("maxNodes") is None:
        return str(nodes)
    return f"{elastic.get('minNodes', nodes)}:{elastic.get('maxNodes', nodes)}"


def _resources(train_job: Obj, job: Obj) -> Obj:
    own = (spec_of(train_job).get("trainer") or {}).get("resourcesPerNode")
    if own:
        return dict(own)
    containers = _pod_spec(job).get("containers") or ()
    return dict(next((entry.get("resources") or {} for entry in containers if entry.get("name") == "node"), {}))


def _amounts(resources: Obj) -> Obj:
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}


def processes_per_node(train_job: Obj, runtime: Obj, job: Obj) -> str:
    """How many processes each node starts: as told, else one per GPU (`auto`), else one per CPU."""
    torch = (spec_of(runtime).get("mlPolicy") or {}).get("torch") or {}
    told = (spec_of(train_job).get("trainer") or {}).get("numProcPerNode", torch.get("numProcPerNode", "auto"))
    if str(told) not in ("auto", "cpu"):
        return str(told)
    resources = _resources(train_job, job)
    if str(told) == "auto" and gpus_in(resources) > 0:
        return "auto"
    cpus = _amounts(resources).get("cpu")
    return str(max(1, math.ceil(milli(cpus) / 1000))) if cpus is not None else "1"


# MPI


def _mpi_policy(runtime: Obj) -> Obj:
    return (spec_of(runtime).get("mlPolicy") or {}).get("mpi") or {}


def _mpi_nodes(runtime: Obj, nodes: int) -> int:
    return max(nodes - 1, 1) if _mpi_policy(runtime).get("runLauncherAsNode") else nodes


def _slots(train_job: Obj, runtime: Obj) -> int:
    """Processes per host: as told; one that nobody asked for gives way to one per GPU."""
    told = (spec_of(train_job).get("trainer") or {}).get("numProcPerNode")
    if told is not None:
        return int(told)
    slots = int(_mpi_policy(runtime).get("numProcPerNode", 1))
    return max(slots, gpus_in(resources_per_node(train_job, runtime))) if slots == 1 else slots


def _mpi_job(train_job: Obj, runtime: Obj, job: Obj, nodes: int) -> Obj:
    """Launcher and nodes share the keys; the launcher also has the hostfile and Open MPI's settings."""
    policy = _mpi_policy(runtime)
    keys = f"{name_of(train_job)}-mpi-ssh-auth"
    secret = {
        "name": "mpi-ssh-auth",
        "secret": {
            "secretName": keys,
            "items": [
                {"key": "ssh-privatekey", "path": "id_rsa"},
                {"key": "ssh-publickey", "path": "id_rsa.pub"},
                {"key": "ssh-publickey", "path": "authorized_keys"},
            ],
        },
    }
    path = str(policy.get("sshAuthMountPath") or "/root/.ssh")
    files = [{"key": "hostfile", "path": "hostfile"}, {"key": AGENT_KEY, "path": AGENT_KEY, "mode": 0o555}]
    config = {"name": "mpi-hostfile", "configMap": {"name": f"{name_of(train_job)}-mpi-hostfile", "items": files}}
    mounts = [{"name": "mpi-ssh-auth", "mountPath": path}, {"name": "mpi-hostfile", "mountPath": HOSTFILE_DIR}]
    if job.get("name") == "node":
        job = _sized(job, _mpi_nodes(runtime, nodes))
    elif job.get("name") != "launcher":
        return job
    env = agent_env(path) + (_launcher_env(train_job, runtime) if job.get("name") == "launcher" else [])
    pod = _pod_spec(job)
    job = _with_pod_spec(job, {**pod, "volumes": [*(pod.get("volumes") or ()), secret, config]})

    def change(container: Obj) -> Obj:
        if ancestor_of(job) == "trainer":
            container = _trained(train_job, container)
        elif is_ssh_daemon(container):
            container = {**container, "command": [*AGENT_COMMAND, "serve"], "args": []}
        return _with_env({**container, "volumeMounts": [*(container.get("volumeMounts") or ()), *mounts]}, env)

    return _with_container(job, "node", change)


def _launcher_env(train_job: Obj, runtime: Obj) -> list[Obj]:
    return _values(
        {
            "OMPI_MCA_orte_default_hostfile": f"{HOSTFILE_DIR}/hostfile",
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_set_default_slots": str(_slots(train_job, runtime)),
            "OMPI_MCA_plm_rsh_agent": " ".join(AGENT_COMMAND),
        }
    )


def _hostfile(train_job: Obj, runtime: Obj, nodes: int) -> Obj:
    policy, name = _mpi_policy(runtime), name_of(train_job)
    hosts = [f"{name}-node-0-{index}.{name}" for index in range(_mpi_nodes(runtime, nodes))]
    if policy.get("runLauncherAsNode"):
        hosts.insert(0, f"{name}-launcher-0-0.{name}")
    slots = _slots(train_job, runtime)
    intel = policy.get("mpiImplementation") in ("Intel", "MPICH")
    lines = [f"{host}:{slots}" if intel else f"{host} slots={slots}" for host in hosts]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{name}-mpi-hostfile",
            "namespace": namespace_of(train_job),
            "ownerReferences": [owner_ref(train_job)],
        },
        "data": {"hostfile": "\n".join(lines) + "\n"},
    }


# Status


def train_job_status(train_job: Obj, job_set: Obj | None, now: float) -> Obj:
    """The status: suspension, and what the JobSet reports."""
    status = dict(status_of(train_job))
    entries: Sequence[Obj] = status.get("conditions") or []
    if is_suspended(train_job):
        entry = conditions.condition("Suspended", True, "Suspended", "TrainJob is suspended")
        entries = conditions.set_condition(entries, entry, format_time(now))
    elif conditions.is_true(entries, "Suspended"):
        entry = conditions.condition("Suspended", False, "Resumed", "TrainJob is resumed")
        entries = conditions.set_condition(entries, entry, format_time(now))
    if job_set is not None:
        for theirs, ours in (("Completed", "Complete"), ("Failed", "Failed")):
            found = conditions.find(job_set, theirs)
            if found is not None and found["status"] == "True":
                entry = conditions.condition(ours, True, found["reason"], found.get("message", ""))
                entries = conditions.set_condition(entries, entry, format_time(now))
        counts = status_of(job_set).get("replicatedJobsStatus")
        if counts:
            status["jobsStatus"] = counts
    if entries:
        status["conditions"] = list(entries)
    return status


def failed_status(train_job: Obj, reason: str, message: str, now: float) -> Obj:
    status = status_of(train_job)
    entry = conditions.condition("Failed", True, reason, message)
    entries = conditions.set_condition(status.get("conditions") or [], entry, format_time(now))
    return {**status, "conditions": entries}


def is_finished(train_job: Obj) -> bool:
    return conditions.is_true(train_job, "Complete") or conditions.is_true(train_job, "Failed")


def deadline_left(train_job: Obj, now: float) -> float | None:
    """Seconds until the active deadline, counted from the last resumption or the creation; None when it does not run."""
    limit = spec_of(train_job).get("activeDeadlineSeconds")
    if limit is None or is_suspended(train_job) or is_finished(train_job):
        return None
    resumed = conditions.find(train_job, "Suspended")
    if resumed is not None:
        if resumed["status"] == "True":
            return None  # just resumed; the clock starts when that is written down
        since = parse_time(resumed["lastTransitionTime"])
    else:
        since = parse_time(metadata_of(train_job)["creationTimestamp"])
    return max(0.0, since + float(limit) - now)
