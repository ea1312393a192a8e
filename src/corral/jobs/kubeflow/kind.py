"""The API group kubeflow.org/v1: TFJob, PyTorchJob, XGBoostJob, PaddleJob and JAXJob.

The kinds differ in the name of their replica specs, the replica types they know and the container they look at; those
facts are one `Framework` each, which schemas, rules, the operator and the queueing adapter all read. MPIJob shares them
from `kinds.mpi`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corral.core import names
from corral.core import validation as v
from corral.core.errors import Cause
from corral.core.meta import Obj, metadata_of, spec_of
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, ScalePaths, Schema, VersionDef, age_column

GROUP = "kubeflow.org"
CONTROLLER = "kubeflow.org/training-operator"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@dataclass(frozen=True, slots=True)
class Framework:
    """What sets one kind of training job apart from the others."""

    kind: str
    plural: str
    field: str
    types: tuple[str, ...]
    """Replica types in the order a queue counts them."""
    container: str
    port_name: str
    port: int
    restart_policy: str
    scalable: bool = False
    worker_default: int = 1
    checks_types: bool = True
    """Whether upstream refuses unknown replica types."""

    @property
    def lower(self) -> str:
        return self.kind.lower()

    @property
    def webhook(self) -> str:
        return f"validator.{self.lower}.training-operator.kubeflow.org"


TENSORFLOW = Framework(
    "TFJob", "tfjobs", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator"),
    "tensorflow", "tfjob-port", 2222, "Never", checks_types=False,
)  # fmt: skip
PYTORCH = Framework(
    "PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs", ("Master", "Worker"),
    "pytorch", "pytorchjob-port", 23456, "OnFailure", scalable=True,
)  # fmt: skip
XGBOOST = Framework(
    "XGBoostJob", "xgboostjobs", "xgbReplicaSpecs", ("Master", "Worker"),
    "xgboost", "xgboostjob-port", 9999, "Never",
)  # fmt: skip
PADDLE = Framework(
    "PaddleJob", "paddlejobs", "paddleReplicaSpecs", ("Master", "Worker"),
    "paddle", "master", 36543, "OnFailure", scalable=True,
)  # fmt: skip
JAX = Framework(
    "JAXJob", "jaxjobs", "jaxReplicaSpecs", ("Worker",), "jax", "jaxjob-port", 6666, "Never", scalable=True,
)  # fmt: skip
MPI = Framework(
    "MPIJob", "mpijobs", "mpiReplicaSpecs", ("Launcher", "Worker"),
    "mpi", "mpi-port", 9999, "Never", worker_default=0,
)  # fmt: skip
FRAMEWORKS = (TENSORFLOW, PYTORCH, XGBOOST, PADDLE, JAX)


def framework_of(kind: str) -> Framework | None:
    """The framework of a kind, MPIJob v1 included."""
    return next((framework for framework in (*FRAMEWORKS, MPI) if framework.kind == kind), None)


# Schemas


def run_policy(misplaced: str, *, default_suspend: bool = True) -> Schema:
    """RunPolicy. `misplaced` is the field people write here although it belongs one level up."""
    scheduling = s.obj(
        {
            "minAvailable": s.integer(),
            "queue": s.string(rules=(s.rule("self == oldSelf", "spec.runPolicy.schedulingPolicy.queue is immutable"),)),
            "minResources": s.resource_list(),
            "priorityClass": s.string(),
            "scheduleTimeoutSeconds": s.integer(),
        },
    )
    suspend = s.boolean(default=False) if default_suspend else s.boolean()
    return s.obj(
        {
            "cleanPodPolicy": s.string(),
            "ttlSecondsAfterFinished": s.integer(),
            "activeDeadlineSeconds": s.integer("int64"),
            "backoffLimit": s.integer(),
            "schedulingPolicy": scheduling,
            "suspend": suspend,
            "managedBy": s.string(),
            misplaced: s.anything(description=f"Belongs directly under spec: spec.{misplaced}."),
        }
    )


def replica_specs() -> Schema:
    replica = s.obj(
        {
            "replicas": s.integer(),
            "restartPolicy": s.string(),
            "template": s.pod_template(),
        }
    )
    return s.mapping(replica)


def misplaced_rules(field: str) -> tuple[Schema, ...]:
    """Rules that say where replica specs belong when they were written under runPolicy, or not at all."""
    nested = f"(has(self.runPolicy) && has(self.runPolicy.{field}))"
    return (
        s.rule(
            f"!{nested}",
            f"replica specs belong directly under spec: move spec.runPolicy.{field} to spec.{field}",
            fieldPath=f".runPolicy.{field}",
        ),
        s.rule(f"has(self.{field}) || {nested}", reason="FieldValueRequired", fieldPath=f".{field}"),
    )


def job_status() -> Schema:
    condition = s.obj(
        {
            "type": s.string(),
            "status": s.string(),
            "reason": s.string(),
            "message": s.string(),
            "lastUpdateTime": s.time(),
            "lastTransitionTime": s.time(),
        },
        required=("status", "type"),
    )
    replica = s.obj(
        {
            "active": s.integer(),
            "succeeded": s.integer(),
            "failed": s.integer(),
            "selector": s.string(),
            "labelSelector": s.label_selector(),
        }
    )
    return s.obj(
        {
            "conditions": s.array(condition),
            "replicaStatuses": s.mapping(replica),
            "startTime": s.time(),
            "completionTime": s.time(),
            "lastReconcileTime": s.time(),
        }
    )


def _extras(framework: Framework) -> Mapping[str, Schema]:
    """Fields only one kind has."""
    metrics = s.array(s.anything())
    if framework is TENSORFLOW:
        return {"successPolicy": s.string(), "enableDynamicWorker": s.boolean()}
    if framework is PYTORCH:
        pair = s.obj({"key": s.string(), "value": s.string()})
        elastic = s.obj(
            {
                "minReplicas": s.integer(),
                "maxReplicas": s.integer(),
                "rdzvBackend": s.string(enum=("c10d", "etcd", "etcd-v2")),
                "rdzvPort": s.integer(),
                "rdzvHost": s.string(),
                "rdzvId": s.string(),
                "rdzvConf": s.array(pair),
                "standalone": s.boolean(),
                "nProcPerNode": s.integer(),
                "maxRestarts": s.integer(),
                "metrics": metrics,
            }
        )
        return {"nprocPerNode": s.string(), "elasticPolicy": elastic}
    if framework is PADDLE:
        fields = ("minReplicas", "maxReplicas", "maxRestarts")
        return {"elasticPolicy": s.obj({**{name: s.integer() for name in fields}, "metrics": metrics})}
    return {}


def _schema(framework: Framework) -> Schema:
    spec = s.obj(
        {
            "runPolicy": run_policy(framework.field),
            framework.field: replica_specs(),
            **_extras(framework),
        },
        rules=misplaced_rules(framework.field),
    )
    return s.root(spec=spec, status=job_status())


def _kind(framework: Framework) -> KindDef:
    paths = ScalePaths(
        f".spec.{framework.field}.Worker.replicas",
        ".status.replicaStatuses.Worker.active",
        ".status.replicaStatuses.Worker.selector",
    )
    return KindDef(
        group=GROUP,
        descriptions="corral.jobs.kubeflow.descriptions:DESCRIPTIONS",
        kind=framework.kind,
        plural=framework.plural,
        versions=(
            VersionDef(
                "v1",
                lambda: _schema(framework),
                status=True,
                scale=paths if framework.scalable else None,
                columns=STATE_COLUMNS,
            ),
        ),
    )


STATE_COLUMNS = (Column("State", ".status.conditions[-1:].type"), age_column())


# Rules of upstream's webhooks


def replica_specs_of(framework: Framework, obj: Obj) -> dict[str, Obj]:
    """The replica specs by canonical type, in the framework's order; keys may be written in any case."""
    written = spec_of(obj).get(framework.field) or {}
    canonical = {name.lower(): name for name in framework.types}
    found = {canonical.get(key.lower(), key): value or {} for key, value in written.items()}
    ordered = [name for name in framework.types if name in found]
    return {name: found[name] for name in (*ordered, *sorted(set(found) - set(ordered)))}


def run_policy_of(obj: Obj) -> Obj:
    return spec_of(obj).get("runPolicy") or {}


def validate_training_job(framework: Framework, new: Obj, old: Obj | None) -> list[Cause]:
    """What a training job may not say; enforced for every kind, also where upstream forgets to."""
    causes = []
    name = metadata_of(new).get("name") or ""
    if old is None and name:
        causes += [v.invalid("metadata.name", name, text) for text in names.check_label_1035(name)]
    causes += validate_manager("spec.runPolicy.managedBy", CONTROLLER, new, old)
    return causes + _check_replicas(framework, new)


def validate_manager(path: str, own: str, new: Obj, old: Obj | None) -> list[Cause]:
    """managedBy is the operator itself or MultiKueue, and does not change while the job may run."""
    value = run_policy_of(new).get("managedBy")
    causes = []
    if value is not None and value not in (own, MULTIKUEUE):
        causes.append(v.not_supported(path, value, (own, MULTIKUEUE)))
    if old is not None and not run_policy_of(old).get("suspend"):
        causes += v.immutable(path, value, run_policy_of(old).get("managedBy"))
    return causes


def _check_replicas(framework: Framework, obj: Obj) -> list[Cause]:
    path = f"spec.{framework.field}"
    specs = replica_specs_of(framework, obj)
    if not specs:
        return [v.required(path, "must be required")]
    causes = []
    for kind, replica in specs.items():
        here = f"{path}[{kind}]"
        if framework.checks_types and kind not in framework.types:
            causes.append(v.not_supported(here, kind, framework.types))
        causes += _check_containers(framework, f"{here}.template.spec.containers", replica)
    return causes + _CHECKS.get(framework.kind, _no_more)(framework, path, specs, obj)


def _check_containers(framework: Framework, path: str, replica: Obj) -> list[Cause]:
    containers = ((replica.get("template") or {}).get("spec") or {}).get("containers") or []
    if not containers:
        return [v.required(path, "must be specified")]
    causes = []
    for position, container in enumerate(containers):
        if not container.get("image"):
            causes.append(v.required(f"{path}[{position}].image", "must be required"))
    if not any(container.get("name") == framework.container for container in containers):
        causes.append(v.required(path, f"must have at least one container with name {framework.container}"))
    return causes


def _no_more(framework: Framework, path: str, specs: Mapping[str, Obj], obj: Obj) -> list[Cause]:
    return []


def _check_pytorch(framework: Framework, path: str, specs: Mapping[str, Obj], obj: Obj) -> list[Cause]:
    causes = []
    master, worker = specs.get("Master"), specs.get("Worker")
    if master is not None and master.get("replicas") not in (None, 1):
        causes.append(v.forbidden(f"{path}[Master].replicas", "must be 1"))
    if worker is not None and worker.get("replicas") is not None and int(worker["replicas"]) < 1:
        causes.append(v.forbidden(f"{path}[Worker].replicas", "must be at least 1"))
    elastic = spec_of(obj).get("elasticPolicy")
    if elastic is not None and worker is None:
        causes.append(v.required(f"{path}[Worker]", "must be configured if elastic policy is used"))
    if elastic and elastic.get("nProcPerNode") is not None and spec_of(obj).get("nprocPerNode") is not None:
        text = "must not be used with spec.nprocPerNode"
        causes.append(v.forbidden("spec.elasticPolicy.nProcPerNode", text))
    return causes


def _check_tensorflow(framework: Framework, path: str, specs: Mapping[str, Obj], obj: Obj) -> list[Cause]:
    chiefs = sum(int(specs[kind].get("replicas", 1) or 0) for kind in ("Chief", "Master") if kind in specs)
    return [v.forbidden(path, "must not have more than 1 Chief or Master role")] if chiefs > 1 else []


def _check_xgboost(framework: Framework, path: str, specs: Mapping[str, Obj], obj: Obj) -> list[Cause]:
    master = specs.get("Master")
    if master is None:
        return [v.required(f"{path}[Master]", "must be present")]
    if master.get("replicas") not in (None, 1):
        return [v.forbidden(f"{path}[Master].replicas", "must be 1")]
    return []


_CHECKS = {"PyTorchJob": _check_pytorch, "TFJob": _check_tensorflow, "XGBoostJob": _check_xgboost}


def training_job_warnings(obj: Obj) -> list[str]:
    elastic = spec_of(obj).get("elasticPolicy") or {}
    if obj.get("kind") == "PyTorchJob" and elastic.get("nProcPerNode") is not None:
        return ["spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead"]
    return []


TF_JOB, PYTORCH_JOB, XGBOOST_JOB, PADDLE_JOB, JAX_JOB = KINDS = tuple(_kind(entry) for entry in FRAMEWORKS)
TF_JOBS = TF_JOB.resource()
PYTORCH_JOBS = PYTORCH_JOB.resource()
XGBOOST_JOBS = XGBOOST_JOB.resource()
PADDLE_JOBS = PADDLE_JOB.resource()
JAX_JOBS = JAX_JOB.resource()
