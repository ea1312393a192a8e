"""A TrainJob composed with its runtime into a JobSet, as the trainer does it.

The runtime is the template; patches, then the trainer's own settings, then the framework's environment are laid over
it. Composition is a pure function of TrainJob and runtime, so composing again changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.core.meta import Obj, name_of, namespace_of, owner_ref, spec_of
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.trainjob import progress as reporting
from corral.jobs.trainjob.frameworks import environment, trained, tuned, with_port
from corral.jobs.trainjob.gang import group_scheduler, grouped, pod_group
from corral.jobs.trainjob.kind import CONTROLLER, ancestor_of, injection_targets
from corral.jobs.trainjob.mpi import hostfile, ssh_secret_name, with_mpi
from corral.jobs.trainjob.patches import patched, patched_metadata
from corral.jobs.trainjob.status import is_suspended
from corral.jobs.trainjob.templates import pod_spec_of, sized, with_container, with_env, with_pod_spec
from corral.jobs.trainjob.torchtune import is_torchtune
from corral.jobs.trainjob.view import Training

SNAPSHOT_KEY = "runtime"

_INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}


def is_managed_here(train_job: Obj) -> bool:
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


def compose(train_job: Obj, runtime: Obj, agent: str = "", *, reports: bool = False) -> Composition:
    """The JobSet (and what it mounts) of a TrainJob that uses `runtime`.

    `agent` is the program that carries MPI's commands from the launcher to the nodes; `reports` lets the trainer's pods
    report their progress.
    """
    training = Training(train_job, runtime)
    jobs = _with_injection(training, [_with_environment(training, job) for job in _steps(training)])
    if reports:
        jobs = [_with_reports(train_job, job) if ancestor_of(job) == "trainer" else job for job in jobs]
    job_set = _job_set(training, jobs)
    scheduler = group_scheduler(training)
    group = pod_group(training, job_set, scheduler) if scheduler else None
    if training.policy != "mpi":
        return Composition(job_set, pod_group=group)
    return Composition(job_set, hostfile(training, agent), ssh_secret_name(training), group)


def counted_job_set(train_job: Obj, runtime: Obj) -> Obj:
    """The JobSet by which a TrainJob is counted: without what the trainer is told through its environment."""
    training = Training(train_job, runtime)
    return _job_set(training, _steps(training))


def _job_set(training: Training, jobs: list[Obj]) -> Obj:
    scheduler, template = group_scheduler(training), spec_of(training.runtime).get("template") or {}
    if scheduler:
        jobs = [grouped(training, job, scheduler) for job in jobs]
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": {
            "name": training.name,
            "namespace": namespace_of(training.job),
            **patched_metadata(training.job, template),
            "ownerReferences": [owner_ref(training.job)],
        },
        "spec": {**spec_of(template), "replicatedJobs": jobs, "suspend": is_suspended(training.job)},
    }


# Steps of the training, one replicated job each


def _steps(training: Training) -> list[Obj]:
    """The replicated jobs of the runtime with the TrainJob's patches and what it says about each step."""
    template = spec_of(training.runtime).get("template") or {}
    jobs = [dict(job) for job in spec_of(template).get("replicatedJobs") or ()]
    return [_with_step(training, job) for job in patched(training.job, jobs)]


def _with_step(training: Training, job: Obj) -> Obj:
    step = ancestor_of(job)
    if step in _INITIALIZERS:
        config = (spec_of(training.job).get("initializer") or {}).get(_INITIALIZERS[step])
        return with_container(job, step, lambda container: _initialized(container, config)) if config else job
    if training.policy == "mpi":
        return with_mpi(training, job)
    if step != "trainer":
        return job
    job = sized(job, training.nodes)
    if _is_tuned(training):
        return with_container(job, "node", lambda container: tuned(training, job, container))
    return with_container(job, "node", lambda container: trained(training, container))


def _is_tuned(training: Training) -> bool:
    return training.policy == "torch" and is_torchtune(training.job)


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


# What containers are told


def _with_environment(training: Training, job: Obj) -> Obj:
    """The trainer's own container with its framework's variables."""
    if ancestor_of(job) != "trainer":
        return job
    env = environment(training, job)
    if _is_tuned(training):
        env = [entry for entry in env if not entry["name"].startswith("PET_MASTER_")]
    return with_container(job, "node", lambda container: with_port(with_env(container, env))) if env else job


def _with_injection(training: Training, jobs: list[Obj]) -> list[Obj]:
    """Torch's variables for containers beside the trainer's."""
    trainer = next((job for job in jobs if ancestor_of(job) == "trainer"), None)
    targets = {target["jobName"]: set(target["containerNames"]) for target in injection_targets(training.runtime)}
    if training.policy != "torch" or trainer is None or not targets:
        return jobs
    env = environment(training, trainer)

    def change(job: Obj) -> Obj:
        pod, wanted = pod_spec_of(job), targets[str(job.get("name"))]
        for field in ("initContainers", "containers"):
            if pod.get(field):
                pod[field] = [with_env(item, env) if item.get("name") in wanted else item for item in pod[field]]
        return with_pod_spec(job, pod)

    return [change(job) if job.get("name") in targets else job for job in jobs]


def _with_reports(train_job: Obj, job: Obj) -> Obj:
    """The trainer's pods with the address, certificate and token to report progress with."""
    pod, env = pod_spec_of(job), reporting.environment(train_job)
    containers = [
        with_env({**item, "volumeMounts": [*(item.get("volumeMounts") or ()), reporting.mount()]}, env)
        for item in pod.get("containers") or ()
    ]
    volumes = [*(pod.get("volumes") or ()), reporting.volume()]
    return with_pod_spec(job, {**pod, "containers": containers, "volumes": volumes})
