"""What the frameworks of a TrainJob read: the trainer's container, its processes and variables."""

from __future__ import annotations

import math
from collections.abc import Mapping

from corral.core.meta import Obj, name_of, spec_of
from corral.core.quantity import milli
from corral.decide.jobs.trainjob_templates import pod_spec_of, with_env
from corral.kinds.trainer import (
    gpus_in,
)

PORT = 29500
INDEX_PATH = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def trained(train_job: Obj, container: Obj) -> Obj:
    """The trainer's container with the TrainJob's image, command, arguments, resources and variables."""
    trainer = spec_of(train_job).get("trainer") or {}
    changes = {name: trainer[name] for name in ("image", "command", "args") if trainer.get(name)}
    if trainer.get("resourcesPerNode"):
        changes["resources"] = with_device_limits(trainer["resourcesPerNode"])
    return with_env({**container, **changes}, trainer.get("env") or ())


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


def environment(train_job: Obj, runtime: Obj, job: Obj, policy: str, nodes: int) -> list[Obj]:
    """The variables a framework's launcher reads on every node."""
    first = first_host(train_job, job)
    rank = {"valueFrom": {"fieldRef": {"fieldPath": INDEX_PATH}}}
    if policy == "torch":
        torch = (spec_of(runtime).get("mlPolicy") or {}).get("torch") or {}
        values = {
            "PET_NNODES": _elastic_nodes(torch, nodes),
            "PET_NPROC_PER_NODE": processes_per_node(train_job, runtime, job),
        }
        master = {"PET_MASTER_ADDR": first, "PET_MASTER_PORT": str(PORT)}
        return [*env_values(values), {"name": "PET_NODE_RANK", **rank}, *env_values(master)]
    if policy == "jax":
        return [
            *env_values({"JAX_NUM_PROCESSES": str(nodes)}),
            {"name": "JAX_PROCESS_ID", **rank},
            *env_values({"JAX_COORDINATOR_ADDRESS": f"{first}:{PORT}"}),
        ]
    if policy == "xgboost":
        workers = nodes * max(1, gpus_in(resources_of(train_job, job)))
        return [
            *env_values({"DMLC_TRACKER_URI": first, "DMLC_TRACKER_PORT": str(PORT)}),
            {"name": "DMLC_TASK_ID", **rank},
            *env_values({"DMLC_NUM_WORKER": str(workers)}),
        ]
    return []


def first_host(train_job: Obj, job: Obj) -> str:
    return f"{name_of(train_job)}-{job['name']}-0-0.{name_of(train_job)}"


def env_values(values: Mapping[str, str]) -> list[Obj]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _elastic_nodes(torch: Obj, nodes: int) -> str:
    elastic = torch.get("elasticPolicy") or {}
    if elastic.get("minNodes") is None and elastic.get("maxNodes") is None:
        return str(nodes)
    return f"{elastic.get('minNodes', nodes)}:{elastic.get('maxNodes', nodes)}"


def resources_of(train_job: Obj, job: Obj) -> Obj:
    own = (spec_of(train_job).get("trainer") or {}).get("resourcesPerNode")
    if own:
        return dict(own)
    containers = pod_spec_of(job).get("containers") or ()
    return dict(next((entry.get("resources") or {} for entry in containers if entry.get("name") == "node"), {}))


def _amounts(resources: Obj) -> Obj:
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}


def processes_per_node(train_job: Obj, runtime: Obj, job: Obj) -> str:
    """How many processes each node starts: as told, else one per GPU (`auto`), else one per CPU."""
    torch = (spec_of(runtime).get("mlPolicy") or {}).get("torch") or {}
    told = (spec_of(train_job).get("trainer") or {}).get("numProcPerNode", torch.get("numProcPerNode", "auto"))
    if str(told) not in ("auto", "cpu"):
        return str(told)
    resources = resources_of(train_job, job)
    if str(told) == "auto" and gpus_in(resources) > 0:
        return "auto"
    cpus = _amounts(resources).get("cpu")
    return str(max(1, math.ceil(milli(cpus) / 1000))) if cpus is not None else "1"
