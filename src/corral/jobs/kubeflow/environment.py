"""The environment a training framework expects in each of its pods: who am I, who are the others, where is the first.

Every value is text. TFJob tells its main container in one JSON document; the others tell every container in single
variables that their launchers read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from corral.core.meta import Obj, name_of, namespace_of, spec_of
from corral.core.whole_numbers import whole_number
from corral.jobs.kubeflow.kind import JAX, PADDLE, PYTORCH, TENSORFLOW, XGBOOST, Framework

Env = list[Obj]

LONGEST = 128 * 1024
"""Bytes of one variable that Linux hands to a process."""


def replica_name(job: Obj, kind: str, index: int) -> str:
    """The name of a replica's pod and service; a launcher is alone and has no number."""
    return f"{name_of(job)}-launcher" if kind == "Launcher" else f"{name_of(job)}-{kind.lower()}-{index}"


def replicas_of(framework: Framework, kind: str, replica: Obj) -> int:
    value = replica.get("replicas")
    if value is not None:
        return int(value)
    return framework.worker_default if kind == "Worker" else 1


def port_of(framework: Framework, replica: Obj) -> int:
    """The port replicas talk on: the named one of the main container, or the framework's own."""
    for container in ((replica.get("template") or {}).get("spec") or {}).get("containers") or ():
        if container.get("name") == framework.container:
            for port in container.get("ports") or ():
                if port.get("name") == framework.port_name:
                    return int(port["containerPort"])
    return framework.port


def _total(framework: Framework, specs: Mapping[str, Obj]) -> int:
    return sum(replicas_of(framework, kind, replica) for kind, replica in specs.items())


def is_too_long(framework: Framework, job: Obj, specs: Mapping[str, Obj]) -> bool:
    """Whether a variable that names other replicas would be longer than the kernel hands to a process."""
    named: dict[str, int] = {}
    if framework is TENSORFLOW:
        dynamic = spec_of(job).get("enableDynamicWorker")
        listed = {kind: specs[kind] for kind in specs if kind == "PS" or not dynamic}
        named = {kind: len(_address(framework, job, kind, replica, 0, "")) for kind, replica in listed.items()}
    elif framework is XGBOOST and "Worker" in specs:
        named = {"Worker": len(replica_name(job, "Worker", 0))}
    return sum(replicas_of(framework, kind, specs[kind]) * length for kind, length in named.items()) > LONGEST


def _env(values: Mapping[str, object]) -> Env:
    return [{"name": name, "value": str(value)} for name, value in values.items()]


def environment(framework: Framework, job: Obj, specs: Mapping[str, Obj], kind: str, index: int, domain: str) -> Env:
    """The variables of one replica; `domain` is appended to host names in TF_CONFIG."""
    build = _BUILDERS.get(framework.kind)
    return build(framework, job, specs, kind, index, domain) if build else []


def _tensorflow(framework: Framework, job: Obj, specs: Mapping[str, Obj], kind: str, index: int, domain: str) -> Env:
    if _total(framework, specs) == 1:
        return []
    config = _sparse if spec_of(job).get("enableDynamicWorker") else _cluster
    document = config(framework, job, specs, kind, index, domain)
    return _env({"TF_CONFIG": json.dumps(document, separators=(",", ":"))})


def _address(framework: Framework, job: Obj, kind: str, replica: Obj, index: int, domain: str) -> str:
    host = f"{replica_name(job, kind, index)}.{namespace_of(job)}.svc"
    return f"{host}{'.' + domain if domain else ''}:{port_of(framework, replica)}"


def _addresses(framework: Framework, job: Obj, kind: str, replica: Obj, domain: str) -> list[str]:
    count = replicas_of(framework, kind, replica)
    return [_address(framework, job, kind, replica, index, domain) for index in range(count)]


def _cluster(framework: Framework, job: Obj, specs: Mapping[str, Obj], kind: str, index: int, domain: str) -> Obj:
    members = {
        name.lower(): _addresses(framework, job, name, replica, domain) for name, replica in sorted(specs.items())
    }
    return {"cluster": members, "task": {"type": kind.lower(), "index": index}, "environment": "cloud"}


def _sparse(framework: Framework, job: Obj, specs: Mapping[str, Obj], kind: str, index: int, domain: str) -> Obj:
    """With workers that come and go a replica sees only itself and the parameter servers."""
    servers = _addresses(framework, job, "PS", specs["PS"], domain) if "PS" in specs else []
    own = _address(framework, job, kind, specs[kind], index, domain)
    members: Obj = {"worker": {}, "ps": []}
    if kind == "Worker":
        members = {"worker": {str(index): own}, "ps": servers}
    elif kind == "PS":
        members["ps"] = [own]
    return {"cluster": members, "task": {"type": kind.lower(), "index": index}}


def _pytorch(framework: Framework, job: Obj, specs: Mapping[str, Obj], kind: str, index: int, domain: str) -> Env:
    spec = spec_of(job)
    elastic = spec.get("elasticPolicy")
    total = _total(framework, specs)
    values: dict[str, object] = {"PYTHONUNBUFFERED": "1"}
    per_node = spec.get("nprocPerNode")
    if per_node is None and not (elastic and elastic.get("nProcPerNode") is not None):
        per_node = "auto"
    if "Master" in specs:
        port, master = port_of(framework, specs["Master"]), replica_name(job, "Master", 0)
        rank = 0 if kind == "Master" else index + 1
        processes = number if (number := whole_number(str(per_node))) is not None else 1
        values |= {
            "MASTER_PORT": port,
            "PET_MASTER_PORT": port,
            "MASTER_ADDR": master,
            "PET_MASTER_ADDR": master,
            "WORLD_SIZE": total * processes,
            "RANK": rank,
            "PET_NODE_RANK": rank,
        }
    if per_node is not None:
        values["PET_NPROC_PER_NODE"] = per_node
    if elastic is None:
        values["PET_NNODES"] = total
    else:
        values |= _elastic(framework, job, specs, elastic)
    return _env(values)


def elastic_bounds(elastic: Obj, workers: int) -> tuple[int, int]:
    """The least and the most workers; each defaults to the other, then to the number asked for."""
    low, high = elastic.get("minReplicas"), elastic.get("maxReplicas")
    return int(low if low is not None else high if high is not None else workers), int(
        high if high is not None else low if low is not None else workers
    )


def _elastic(framework: Framework, job: Obj, specs: Mapping[str, Obj], elastic: Obj) -> dict[str, object]:
    worker = specs.get("Worker") or {}
    host = elastic.get("rdzvHost") or replica_name(job, "Worker", 0)
    port = elastic.get("rdzvPort") or port_of(framework, worker)
    low, high = elastic_bounds(elastic, replicas_of(framework, "Worker", worker))
    values: dict[str, object] = {
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_BACKEND": elastic.get("rdzvBackend") or "c10d",
        "PET_NNODES": f"{low}:{high}",
    }
    optional = {"PET_MAX_RESTARTS": "maxRestarts", "PET_NPROC_PER_NODE": "nProcPerNode", "PET_RDZV_ID": "rdzvId"}
    for name, field in optional.items():
        if elastic.get(field) is not None:
            values[name] = elastic[field]
    if elastic.get("rdzvConf"):
        values["PET_RDZV_CONF"] = ",".join(
            f"{entry.get('key') or ''}={entry.get('value') or ''}" for entry in elastic["rdzvConf"]
        )
    if elastic.get("standalone"):
        values["PET_STANDALONE"] = ""
    return values


def _xgboost(framework: Framework, job: Obj, specs: Mapping[str, Obj], kind: str, index: int, domain: str) -> Env:
    total = _total(framework, specs)
    masters = replicas_of(framework, "Master", specs["Master"]) if "Master" in specs else 0
    values: dict[str, object] = {
        "MASTER_PORT": port_of(framework, specs.get("Master") or {}),
        "MASTER_ADDR": replica_name(job, "Master", 0),
        "WORLD_SIZE": total,
        "RANK": index if kind == "Master" else index + masters,
        "PYTHONUNBUFFERED": "1",
    }
    if total > 1:
        worker = specs.get("Worker") or {}
        count = replicas_of(framework, "Worker", worker) if "Worker" in specs else 0
        values["WORKER_PORT"] = port_of(framework, worker)
        values["WORKER_ADDRS"] = ",".join(replica_name(job, "Worker", number) for number in range(count))
    return _env(values)


def _paddle(framework: Framework, job: Obj, specs: Mapping[str, Obj], kind: str, index: int, domain: str) -> Env:
    first = "Master" if "Master" in specs else "Worker"
    port = port_of(framework, specs.get(first) or {})
    env = _env(
        {
            "PYTHONUNBUFFERED": "1",
            "PADDLE_JOB_ID": name_of(job),
            "PADDLE_NNODES": _total(framework, specs),
        }
    )
    if kind == first and index == 0:
        source = {"fieldRef": {"fieldPath": "status.podIP"}}
        env.append({"name": "POD_IP_DUMMY", "valueFrom": source})
        env += _env({"PADDLE_MASTER": f"$(POD_IP_DUMMY):{port}"})
    else:
        env += _env({"PADDLE_MASTER": f"{replica_name(job, first, 0)}:{port}"})
    if "Master" in specs:
        env += _env({"PADDLE_SERVER_NUM" if kind == "Master" else "PADDLE_TRAINER_NUM": 1})
    return env


def _jax(framework: Framework, job: Obj, specs: Mapping[str, Obj], kind: str, index: int, domain: str) -> Env:
    return _env(
        {
            "PYTHONUNBUFFERED": "1",
            "COORDINATOR_PORT": port_of(framework, specs["Worker"]),
            "COORDINATOR_ADDRESS": replica_name(job, "Worker", 0),
            "NUM_PROCESSES": _total(framework, specs),
            "PROCESS_ID": index,
        }
    )


_BUILDERS: Mapping[str, Callable[[Framework, Obj, Mapping[str, Obj], str, int, str], Env]] = {
    TENSORFLOW.kind: _tensorflow,
    PYTORCH.kind: _pytorch,
    XGBOOST.kind: _xgboost,
    PADDLE.kind: _paddle,
    JAX.kind: _jax,
}


def with_environment(framework: Framework, containers: Sequence[Obj], env: Env) -> list[Obj]:
    """The containers with `env` appended: TFJob's main one only, all of them otherwise."""
    only_main = framework is TENSORFLOW
    return [
        {**container, "env": [*(container.get("env") or ()), *env]}
        if env and (not only_main or container.get("name") == framework.container)
        else container
        for container in containers
    ]
