"""MPIJob of kubeflow.org: v2beta1 (stored) and v1, two versions of one kind.

Upstream has two operators that cannot be installed together. Here one kind serves both; a job keeps the version it was
written in as an annotation, and that version's operator runs it. Nothing is lost on the way through the other version.
"""

from __future__ import annotations

from corral.core import names
from corral.core import validation as v
from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of, name_of, spec_of, with_annotations
from corral.jobs.kubeflow.kind import (
    GROUP,
    MPI,
    STATE_COLUMNS,
    job_status,
    misplaced_rules,
    replica_specs,
    replica_specs_of,
    run_policy,
    run_policy_of,
    validate_manager,
)
from corral.kinds.kubernetes.core.rules import MAX_DATA
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, Schema, VersionDef, age_column

CONTROLLER = "kubeflow.org/mpi-operator"
WRITTEN_IN = "corral.dev/written-in"


def _v2beta1() -> Schema:
    spec = s.obj(
        {
            "slotsPerWorker": s.integer(default=1),
            "runLauncherAsWorker": s.boolean(default=False),
            "runPolicy": run_policy(MPI.field, default_suspend=True),
            MPI.field: replica_specs(),
            "sshAuthMountPath": s.string(default="/root/.ssh"),
            "launcherCreationPolicy": s.string(enum=("AtStartup", "WaitForWorkersReady"), default="AtStartup"),
            "mpiImplementation": s.string(enum=("OpenMPI", "Intel", "MPICH"), default="OpenMPI"),
            # Only version v1 has these; they survive being stored.
            "cleanPodPolicy": s.string(),
            "mainContainer": s.string(),
        },
        rules=misplaced_rules(MPI.field),
    )
    return s.root(spec=spec, status=job_status())


def _v1() -> Schema:
    spec = s.obj(
        {
            "slotsPerWorker": s.integer(),
            "cleanPodPolicy": s.string(),
            "mainContainer": s.string(),
            "runPolicy": run_policy(MPI.field),
            MPI.field: replica_specs(),
        },
        rules=misplaced_rules(MPI.field),
    )
    return s.root(spec=spec, status=job_status())


def convert(obj: Obj, version: str) -> Obj:
    """The same job in another version."""
    target = f"{GROUP}/{version}"
    if obj.get("apiVersion") == target:
        return obj
    origin = annotations_of(obj).get(WRITTEN_IN) or str(obj.get("apiVersion")).rpartition("/")[2]
    return with_annotations({**obj, "apiVersion": target}, {WRITTEN_IN: origin if origin != version else None})


def is_v1(obj: Obj) -> bool:
    """Whether the job was written for the v1 operator, in whatever version it is held now."""
    written = annotations_of(obj).get(WRITTEN_IN)
    return written == "v1" if written else obj.get("apiVersion") == f"{GROUP}/v1"


def clean_policy_of(obj: Obj) -> str:
    """Which pods go when the job is finished; v1 may say it in two places."""
    return str(run_policy_of(obj).get("cleanPodPolicy") or spec_of(obj).get("cleanPodPolicy") or "None")


def validate_mpi_job(new: Obj, old: Obj | None) -> list[Cause]:
    """managedBy and its immutability; everything else the operator reports in an event, as upstream does."""
    own = "kubeflow.org/training-operator" if is_v1(new) else CONTROLLER
    return validate_manager("spec.runPolicy.managedBy", own, new, old)


def spec_errors(obj: Obj) -> list[Cause]:
    """What the operator refuses to run."""
    path = f"spec.{MPI.field}"
    specs = replica_specs_of(MPI, obj)
    causes = []
    if not is_v1(obj):
        longest = f"{name_of(obj)}-worker-{max(0, _replicas(specs.get('Worker'), 0) - 1)}"
        for text in names.check_label(longest):
            message = f"will not able to create pod and service with invalid DNS label {longest!r}: {text}"
            causes.append(v.invalid("metadata.name", name_of(obj), message))
    if not specs:
        return [*causes, v.required(path, "must have replica specs")]
    launcher, worker = specs.get("Launcher"), specs.get("Worker")
    if launcher is None:
        causes.append(v.required(f"{path}[Launcher]", "must have Launcher replica spec"))
    else:
        if _replicas(launcher, 1) != 1:
            causes.append(v.invalid(f"{path}[Launcher].replicas", launcher.get("replicas"), "must be 1"))
        causes += _check_replica(f"{path}[Launcher]", launcher, obj)
    if worker is not None:
        if _replicas(worker, 0) * len(f"{name_of(obj)}-worker-0 slots=1\n") > MAX_DATA:
            text = "the names of so many workers do not fit into the ConfigMap of the hosts"
            causes.append(v.invalid(f"{path}[Worker].replicas", worker.get("replicas", 0), text))
        if _replicas(worker, 0) < 1 and not is_v1(obj):
            text = "must be greater than or equal to 1"
            causes.append(v.invalid(f"{path}[Worker].replicas", worker.get("replicas", 0), text))
        causes += _check_replica(f"{path}[Worker]", worker, obj)
    if is_v1(obj):
        first, second = run_policy_of(obj).get("cleanPodPolicy"), spec_of(obj).get("cleanPodPolicy")
        if first and second and first != second:
            text = "must be the same as spec.runPolicy.cleanPodPolicy"
            causes.append(v.invalid("spec.cleanPodPolicy", second, text))
    elif run_policy_of(obj).get("cleanPodPolicy") not in (None, "None", "Running", "All"):
        value = run_policy_of(obj)["cleanPodPolicy"]
        causes.append(v.not_supported("spec.runPolicy.cleanPodPolicy", value, ("All", "None", "Running")))
    return causes


def _replicas(replica: Obj | None, default: int) -> int:
    value = (replica or {}).get("replicas")
    return default if value is None else int(value)


def _check_replica(path: str, replica: Obj, obj: Obj) -> list[Cause]:
    causes = []
    policy = replica.get("restartPolicy")
    if policy is not None and not is_v1(obj) and policy not in ("Never", "OnFailure"):
        causes.append(v.not_supported(f"{path}.restartPolicy", policy, ("Never", "OnFailure")))
    if not ((replica.get("template") or {}).get("spec") or {}).get("containers"):
        causes.append(v.required(f"{path}.template.spec.containers", "must define at least one container"))
    return causes


MPI_JOB = KindDef(
    group=GROUP,
    descriptions="corral.jobs.mpijob.descriptions:DESCRIPTIONS",
    kind=MPI.kind,
    plural=MPI.plural,
    versions=(
        VersionDef(
            "v2beta1",
            _v2beta1,
            storage=True,
            status=True,
            columns=(age_column(), Column("State", ".status.conditions[-1:].type")),
        ),
        VersionDef("v1", _v1, storage=False, status=True, columns=STATE_COLUMNS),
    ),
    convert=convert,
)
MPI_JOBS = MPI_JOB.resource()
KINDS = (MPI_JOB,)
