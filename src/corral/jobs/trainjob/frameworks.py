"""What the frameworks of a TrainJob read: the trainer's container, its processes and variables."""

from __future__ import annotations

import math
from collections.abc import Mapping

from corral.core.meta import Obj, spec_of
from corral.core.quantity import milli
from corral.jobs.trainjob.kind import gpus_in
from corral.jobs.trainjob.templates import pod_spec_of, with_env
from corral.jobs.trainjob.torchtune import command_of
from corral.jobs.trainjob.view import Training

PORT = 29500
INDEX_PATH = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def trained(training: Training, container: Obj) -> Obj:
    """The trainer's container with the TrainJob's image, command, arguments, resources and variables."""
    trainer = training.trainer
    changes = {name: trainer[name] for name in ("image", "command", "args") if trainer.get(name)}
    if trainer.get("resourcesPerNode"):
        changes["resources"] = with_device_limits(trainer["resourcesPerNode"])
    return with_env({**container, **changes}, trainer.get("env") or ())


def tuned(training: Training, job: Obj, container: Obj) -> Obj:
    """A TorchTune container: the command is completed with the recipe and the runtime's own settings."""
    processes, gpus = processes_per_node(training, job), gpus_in(_resources(training, job))
    endpoint = f"{_first_host(training, job)}:{PORT}"
    command = command_of(training.job, container.get("command") or (), training.nodes, processes, gpus, endpoint)
    return {**trained(training, container), "command": command}


def with_device_limits(resources: Obj) -> Obj:
    """Devices cannot be overcommitted: where only a request for them is given, it is the limit too.

    Without this a pod that requests a GPU the way people write it would be refused.
    """
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    missing = {name: value for name, value in requests.items() if "/" in name and name not in limits}
    return {**resources, "limits": {**limits, **missing}} if missing else resources


def with_port(container: Obj) -> Obj:
    ports = container.get("ports") or []
    if any(port.get("containerPort") == PORT for port in ports):
        return container
    return {**container, "ports": [*ports, {"containerPort": PORT, "protocol": "TCP"}]}


def environment(training: Training, job: Obj) -> list[Obj]:
    """The variables a framework's launcher reads on every node."""
    first, nodes = _first_host(training, job), training.nodes
    rank = {"valueFrom": {"fieldRef": {"fieldPath": INDEX_PATH}}}
    if training.policy == "torch":
        size = {"PET_NNODES": _elastic_nodes(training), "PET_NPROC_PER_NODE": processes_per_node(training, job)}
        master = {"PET_MASTER_ADDR": first, "PET_MASTER_PORT": str(PORT)}
        return [*env_values(size), {"name": "PET_NODE_RANK", **rank}, *env_values(master)]
    if training.policy == "jax":
        return [
            *env_values({"JAX_NUM_PROCESSES": str(nodes)}),
            {"name": "JAX_PROCESS_ID", **rank},
            *env_values({"JAX_COORDINATOR_ADDRESS": f"{first}:{PORT}"}),
        ]
    if training.policy == "xgboost":
        workers = nodes * max(1, gpus_in(_resources(training, job)))
        return [
            *env_values({"DMLC_TRACKER_URI": first, "DMLC_TRACKER_PORT": str(PORT)}),
            {"name": "DMLC_TASK_ID", **rank},
            *env_values({"DMLC_NUM_WORKER": str(workers)}),
        ]
    return []


def _first_host(training: Training, job: Obj) -> str:
    return f"{training.name}-{job['name']}-0-0.{training.name}"


def env_values(values: Mapping[str, str]) -> list[Obj]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _elastic_nodes(training: Training) -> str:
    elastic, nodes = training.policy_settings.get("elasticPolicy") or {}, training.nodes
    if elastic.get("minNodes") is None and elastic.get("maxNodes") is None:
        return str(nodes)
    return f"{elastic.get('minNodes', nodes)}:{elastic.get('maxNodes', nodes)}"


def _resources(training: Training, job: Obj) -> Obj:
    own = training.trainer.get("resourcesPerNode")
    if own:
        return dict(own)
    containers = pod_spec_of(job).get("containers") or ()
    return dict(next((entry.get("resources") or {} for entry in containers if entry.get("name") == "node"), {}))


def processes_per_node(training: Training, job: Obj) -> str:
    """How many processes each node starts: as told, else one per GPU (`auto`), else one per CPU."""
    torch = (spec_of(training.runtime).get("mlPolicy") or {}).get("torch") or {}
    given = str(training.trainer.get("numProcPerNode", torch.get("numProcPerNode", "auto")))
    if given not in ("auto", "cpu"):
        return given
    resources = _resources(training, job)
    if given == "auto" and gpus_in(resources) > 0:
        return "auto"
    cpus = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.get("cpu")
    return str(max(1, math.ceil(milli(cpus) / 1000))) if cpus is not None else "1"
