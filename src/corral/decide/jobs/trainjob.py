"""A TrainJob composed with its runtime into a JobSet, as the trainer does it.

The runtime is the template; patches, then the trainer's own settings, then the framework's environment are laid over
it. Composition is a pure function of TrainJob and runtime, so composing again changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.core.meta import Obj, name_of, namespace_of, owner_ref, spec_of
from corral.decide.jobs import reports
from corral.decide.jobs.mpi_hosts import AGENT_KEY
from corral.decide.jobs.trainjob_frameworks import (
    PORT,
    environment,
    first_host,
    processes_per_node,
    resources_of,
    trained,
    with_port,
)
from corral.decide.jobs.trainjob_gang import group_scheduler, grouped, pod_group
from corral.decide.jobs.trainjob_mpi import hostfile_of, mpi_job
from corral.decide.jobs.trainjob_patches import patch_template, patched
from corral.decide.jobs.trainjob_status import is_suspended
from corral.decide.jobs.trainjob_templates import pod_spec_of, sized, with_container, with_env, with_pod_spec
from corral.kinds.jobset import JOB_SETS
from corral.kinds.torchtune import command_of, is_torchtune
from corral.kinds.trainer import (
    CONTROLLER,
    ancestor_of,
    gpus_in,
    injection_targets,
    policy_of,
)

SNAPSHOT_KEY = "runtime"


def is_ours(train_job: Obj) -> bool:
    return spec_of(train_job).get("managedBy") in (None, CONTROLLER)


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
    jobs = patched(train_job, jobs)
    policy = policy_of(runtime)
    nodes = node_count(train_job, runtime)
    jobs = [_with_step(train_job, runtime, entry, policy, nodes, injected=injected) for entry in jobs]
    if policy == "torch" and injected:
        jobs = _with_injection(train_job, runtime, jobs, nodes)
    if reports:
        jobs = [_with_reports(train_job, entry) if ancestor_of(entry) == "trainer" else entry for entry in jobs]
    scheduler = group_scheduler(runtime)
    if scheduler:
        jobs = [grouped(train_job, entry, scheduler) for entry in jobs]
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
    group = pod_group(train_job, runtime, body, scheduler) if scheduler else None
    if policy != "mpi":
        return Composition(body, pod_group=group)
    hostfile = hostfile_of(train_job, runtime, nodes)
    hostfile["data"][AGENT_KEY] = agent
    return Composition(body, hostfile, f"{name_of(train_job)}-mpi-ssh-auth", group)


def _job_set_metadata(train_job: Obj, template: Obj) -> Obj:
    sources = [template.get("metadata") or {}, spec_of(train_job)]
    sources += [patch_template(entry).get("metadata") or {} for entry in spec_of(train_job).get("runtimePatches") or ()]
    merged = {
        name: {key: value for source in sources for key, value in (source.get(name) or {}).items()}
        for name in ("labels", "annotations")
    }
    return {name: values for name, values in merged.items() if values}


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
        return with_container(job, step, lambda container: _initialized(container, config)) if config else job
    if policy == "mpi":
        return mpi_job(train_job, runtime, job, nodes)
    if step != "trainer":
        return job
    job = sized(job, nodes)
    env = environment(train_job, runtime, job, policy, nodes)
    if policy == "torch" and is_torchtune(train_job):
        env = [entry for entry in env if not entry["name"].startswith("PET_MASTER_")]
        job = with_container(job, "node", lambda container: _tuned(train_job, runtime, job, container, nodes))
    else:
        job = with_container(job, "node", lambda container: trained(train_job, container))
    if not env or not injected:
        return job
    return with_container(job, "node", lambda container: with_port(with_env(container, env)))


def _tuned(train_job: Obj, runtime: Obj, job: Obj, container: Obj, nodes: int) -> Obj:
    """A TorchTune container: the command is completed with the recipe and the runtime's own settings."""
    processes, gpus = processes_per_node(train_job, runtime, job), gpus_in(resources_of(train_job, job))
    endpoint = f"{first_host(train_job, job)}:{PORT}"
    command = command_of(train_job, container.get("command") or (), nodes, processes, gpus, endpoint)
    return {**trained(train_job, container), "command": command}


def _with_injection(train_job: Obj, runtime: Obj, jobs: list[Obj], nodes: int) -> list[Obj]:
    """Torch's variables for containers beside the trainer's."""
    trainer = next((entry for entry in jobs if ancestor_of(entry) == "trainer"), None)
    targets = {target["jobName"]: set(target["containerNames"]) for target in injection_targets(runtime)}
    if trainer is None or not targets:
        return jobs
    env = environment(train_job, runtime, trainer, "torch", nodes)

    def change(job: Obj) -> Obj:
        pod, wanted = pod_spec_of(job), targets.get(str(job.get("name")), set())
        for field in ("initContainers", "containers"):
            if pod.get(field):
                pod[field] = [with_env(item, env) if item.get("name") in wanted else item for item in pod[field]]
        return with_pod_spec(job, pod)

    return [change(job) if job.get("name") in targets else job for job in jobs]


def _with_reports(train_job: Obj, job: Obj) -> Obj:
    """The trainer's pods with the address, certificate and token to report progress with."""
    pod = pod_spec_of(job)
    mounted = [
        with_env(
            {**item, "volumeMounts": [*(item.get("volumeMounts") or ()), reports.mount()]},
            reports.environment(train_job),
        )
        for item in pod.get("containers") or ()
    ]
    return with_pod_spec(
        job, {**pod, "containers": mounted, "volumes": [*(pod.get("volumes") or ()), reports.volume()]}
    )


def _initialized(container: Obj, config: Obj) -> Obj:
    """An initializer told where to read from."""
    env = list(config.get("env") or ())
    if config.get("storageUri"):
        env = [{"name": "STORAGE_URI", "value": config["storageUri"]}, *env]
    container = with_env(container, env)
    if config.get("secretRef"):
        sources = [*(container.get("envFrom") or ()), {"secretRef": {"name": config["secretRef"]["name"]}}]
        container = {**container, "envFrom": sources}
    return container
