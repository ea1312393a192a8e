"""The API group ray.io/v1: RayCluster, RayJob and RayService."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from corral.core import validation as v
from corral.core import yaml_documents
from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of
from corral.jobs.ray import inert_fields
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, Schema, VersionDef, age_column

GROUP = "ray.io"
CONTROLLER = "ray.io/kuberay-operator"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
SUBMISSION_MODES = ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")


def _manager() -> Schema:
    allowed = f"['{CONTROLLER}', '{MULTIKUEUE}']"
    return s.string(
        rules=(
            s.rule("self == oldSelf", "the managedBy field is immutable"),
            s.rule(
                f"self in {allowed}",
                f"the managedBy field value must be either '{CONTROLLER}' or '{MULTIKUEUE}'",
            ),
        )
    )


def _settled() -> tuple[Schema, ...]:
    """Nor may a manager be named, or dropped, later; upstream compares only values that are there."""
    return (s.rule("has(self.managedBy) == has(oldSelf.managedBy)", "the managedBy field is immutable"),)


def _parameters() -> Schema:
    return s.mapping(s.string())


def cluster_spec(rules: tuple[Schema, ...] = ()) -> Schema:
    """RayClusterSpec; RayJob and RayService contain one."""
    head = s.obj(
        {
            "template": s.pod_template(),
            "rayStartParams": _parameters(),
            "serviceType": s.string(),
            "enableIngress": s.boolean(),
            "headService": s.anything(),
            "labels": s.mapping(s.string()),
            "resources": s.mapping(s.string()),
        },
        required=("template",),
    )
    worker = s.obj(
        {
            "groupName": s.string(),
            "replicas": s.integer(default=0),
            "minReplicas": s.integer(default=0),
            "maxReplicas": s.integer(default=2147483647),
            "numOfHosts": s.integer(default=1),
            "idleTimeoutSeconds": s.integer(),
            "suspend": s.boolean(),
            "template": s.pod_template(),
            "rayStartParams": _parameters(),
            "labels": s.mapping(s.string()),
            "resources": s.mapping(s.string()),
            "scaleStrategy": s.obj({"workersToDelete": s.array(s.string())}),
        },
        required=("groupName", "template"),
    )
    return s.obj(
        {
            "suspend": s.boolean(),
            "managedBy": _manager(),
            "enableInTreeAutoscaling": s.boolean(),
            "autoscalerOptions": s.anything(),
            "rayVersion": s.string(),
            "gcsFaultToleranceOptions": s.anything(),
            "authOptions": s.anything(),
            "upgradeStrategy": s.anything(),
            "headServiceAnnotations": s.mapping(s.string()),
            "headGroupSpec": head,
            "workerGroupSpecs": s.array(worker),
        },
        required=("headGroupSpec",),
        **({"rules": rules} if rules else {}),
    )


def cluster_status() -> Schema:
    numbers = (
        "desiredWorkerReplicas",
        "readyWorkerReplicas",
        "availableWorkerReplicas",
        "minWorkerReplicas",
        "maxWorkerReplicas",
    )
    amounts = ("desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU")
    return s.obj(
        {
            "state": s.string(),
            "reason": s.string(),
            **{name: s.integer() for name in numbers},
            **{name: s.quantity() for name in amounts},
            "head": s.mapping(s.string()),
            "endpoints": s.mapping(s.string()),
            "lastUpdateTime": s.time(nullable=True),
            "stateTransitionTimes": s.mapping(s.time(nullable=True)),
            "observedGeneration": s.integer("int64"),
            "conditions": s.conditions(),
        }
    )


def _cluster() -> Schema:
    return s.root(spec=cluster_spec(_settled()), status=cluster_status())


def _job() -> Schema:
    spec = s.obj(
        {
            "entrypoint": s.string(),
            "entrypointNumCpus": s.number(),
            "entrypointNumGpus": s.number(),
            "entrypointResources": s.string(),
            "runtimeEnvYAML": s.string(),
            "metadata": s.mapping(s.string()),
            "jobId": s.string(),
            "submissionMode": s.string(default="K8sJobMode"),
            "rayClusterSpec": cluster_spec(),
            "clusterSelector": s.mapping(s.string()),
            "submitterPodTemplate": s.pod_template(),
            "submitterConfig": s.obj({"backoffLimit": s.integer()}),
            "backoffLimit": s.integer(default=0),
            "activeDeadlineSeconds": s.integer(),
            "preRunningDeadlineSeconds": s.integer(),
            "waitingTtlSeconds": s.integer(),
            "shutdownAfterJobFinishes": s.boolean(),
            "ttlSecondsAfterFinished": s.integer(default=0),
            "suspend": s.boolean(),
            "managedBy": _manager(),
            "deletionStrategy": s.anything(),
        },
        rules=_settled(),
    )
    status = s.obj(
        {
            "jobId": s.string(),
            "rayClusterName": s.string(),
            "dashboardURL": s.string(),
            "jobStatus": s.string(),
            "jobDeploymentStatus": s.string(),
            "reason": s.string(),
            "message": s.string(),
            "startTime": s.time(nullable=True),
            "endTime": s.time(nullable=True),
            "succeeded": s.integer(),
            "failed": s.integer(),
            "rayClusterStatus": cluster_status(),
            "rayJobInfo": s.anything(),
            "jobStatusCheckFailureStartTime": s.time(nullable=True),
            "observedGeneration": s.integer("int64"),
        }
    )
    return s.root(spec=spec, status=status)


def _service() -> Schema:
    spec = s.obj(
        {
            "serveConfigV2": s.string(),
            "rayClusterConfig": cluster_spec(),
            "upgradeStrategy": s.obj(
                {
                    "type": s.string(enum=("NewCluster", "NewClusterWithIncrementalUpgrade", "None")),
                    "clusterUpgradeOptions": s.anything(),
                }
            ),
            "serveService": s.anything(),
            "excludeHeadPodFromServeSvc": s.boolean(),
            "rayClusterDeletionDelaySeconds": s.integer(),
            "serviceUnhealthySecondThreshold": s.integer(),
            "deploymentUnhealthySecondThreshold": s.integer(),
            "suspend": s.boolean(),
            "managedBy": _manager(),
        },
        rules=_settled(),
    )
    one = s.obj(
        {
            "rayClusterName": s.string(),
            "rayClusterStatus": cluster_status(),
            "applicationStatuses": s.mapping(s.anything()),
            "targetCapacity": s.integer(),
            "trafficRoutedPercent": s.integer(),
            "lastTrafficMigratedTime": s.time(nullable=True),
        }
    )
    status = s.obj(
        {
            "activeServiceStatus": one,
            "pendingServiceStatus": one,
            "serviceStatus": s.string(),
            "numServeEndpoints": s.integer(),
            "lastUpdateTime": s.time(nullable=True),
            "observedGeneration": s.integer("int64"),
            "conditions": s.conditions(),
        }
    )
    return s.root(spec=spec, status=status)


# Facts and rules


def worker_groups(spec: Obj) -> Iterator[tuple[str, int, Obj]]:
    """Name, number of pods and spec of each worker group of a RayClusterSpec."""
    for group in spec.get("workerGroupSpecs") or ():
        replicas = int(group.get("replicas") or 0)
        minimum, maximum = int(group.get("minReplicas") or 0), group.get("maxReplicas")
        replicas = max(minimum, replicas if maximum is None else min(replicas, int(maximum)))
        if group.get("suspend"):
            replicas = 0
        yield str(group.get("groupName")), replicas * int(group.get("numOfHosts") or 1), group


def cluster_errors(spec: Obj, path: str = "spec") -> list[Cause]:
    """What the operator refuses to run in a RayClusterSpec."""
    causes = []
    if not _containers(spec.get("headGroupSpec")):
        causes.append(
            v.required(
                f"{path}.headGroupSpec.template.spec.containers", "headGroupSpec should have at least one container"
            )
        )
    seen = set()
    for position, group in enumerate(spec.get("workerGroupSpecs") or ()):
        here = f"{path}.workerGroupSpecs[{position}]"
        name = group.get("groupName")
        if name in seen:
            causes.append(v.duplicate(f"{here}.groupName", name))
        seen.add(name)
        if not _containers(group):
            causes.append(
                v.required(f"{here}.template.spec.containers", "workerGroupSpec should have at least one container")
            )
    return causes


def _containers(group: Obj | None) -> list[Obj]:
    return list((((group or {}).get("template") or {}).get("spec") or {}).get("containers") or [])


def job_errors(obj: Obj) -> str:
    """Why a RayJob cannot run; empty when it can."""
    complaint = next((text for text in _complaints(spec_of(obj)) if text), "")
    if complaint:
        return f"The RayJob spec is invalid: {complaint}"
    return _odd_mode(spec_of(obj))


def _complaints(spec: Obj) -> Iterator[str]:
    selector, cluster = spec.get("clusterSelector") or {}, spec.get("rayClusterSpec")
    shutdown, ttl = spec.get("shutdownAfterJobFinishes"), int(spec.get("ttlSecondsAfterFinished") or 0)
    if spec.get("suspend") and not shutdown:
        yield "a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"
    if ttl < 0:
        yield "TTLSecondsAfterFinished must be a non-negative integer"
    if ttl and not shutdown:
        yield "a RayJob with shutdownAfterJobFinishes set to false cannot have TTLSecondsAfterFinished"
    if spec.get("suspend") and selector:
        yield "the ClusterSelector mode doesn't support the suspend operation"
    if cluster is None and not selector:
        yield "one of RayClusterSpec or ClusterSelector must be set"
    yield from _odd_deletions(spec)
    if cluster is not None and selector:
        yield "both RayClusterSpec and ClusterSelector cannot be set at the same time"
    retries = int(spec.get("backoffLimit") or 0)
    if selector and retries > 0:
        yield "BackoffLimit is incompatible with ClusterSelector mode"
    if spec.get("submissionMode") == "InteractiveMode" and retries > 0:
        yield "BackoffLimit is incompatible with InteractiveMode"
    for name in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        if spec.get(name) is not None and int(spec[name]) <= 0:
            yield f"{name} must be a positive integer"
    if retries < 0:
        yield "backoffLimit must be a positive integer"
    yield from (str(cause) for cause in cluster_errors(cluster or {}, "spec.rayClusterSpec") if cluster)


def _odd_deletions(spec: Obj) -> Iterator[str]:
    """What a deletion strategy does not go together with."""
    strategy = spec.get("deletionStrategy")
    if strategy is None:
        return
    rules, legacy = strategy.get("deletionRules") or [], [strategy.get(name) for name in ("onSuccess", "onFailure")]
    if rules and spec.get("shutdownAfterJobFinishes"):
        yield "spec.shutdownAfterJobFinishes and spec.deletionStrategy.deletionRules are mutually exclusive"
    if rules and any(legacy):
        yield "Cannot use both legacy onSuccess/onFailure fields and deletionRules simultaneously"
    if not rules and not any(legacy):
        yield (
            "DeletionStrategy requires either BOTH onSuccess and onFailure, OR the deletionRules field (cannot be empty)"
        )
    if not rules and any(legacy) and not all((entry or {}).get("policy") for entry in legacy):
        yield "both DeletionStrategy.OnSuccess and DeletionStrategy.OnFailure must be set"
    policies = {(entry or {}).get("policy") for entry in (*legacy, *rules)}
    if spec.get("clusterSelector") and policies & {"DeleteCluster", "DeleteWorkers"}:
        yield "the ClusterSelector mode doesn't support deleting the cluster or its workers"
    if (spec.get("rayClusterSpec") or {}).get("enableInTreeAutoscaling") and "DeleteWorkers" in policies:
        yield "DeletionStrategy=DeleteWorkers currently does not support RayCluster with autoscaling enabled"
    if spec.get("shutdownAfterJobFinishes") and "DeleteNone" in policies:
        yield "shutdownAfterJobFinshes is set to 'true' while deletion policy is 'DeleteNone'"


def _odd_mode(spec: Obj) -> str:
    """What a submission mode does not go together with."""
    mode, selector = spec.get("submissionMode") or "K8sJobMode", spec.get("clusterSelector") or {}
    if mode not in SUBMISSION_MODES:
        return f"invalid submissionMode {mode}"
    if selector and not selector.get("ray.io/cluster"):
        return "cluster name in ClusterSelector should not be empty"
    if mode == "InteractiveMode" and spec.get("entrypoint"):
        return "Entrypoint must not be set in InteractiveMode"
    if mode == "SidecarMode":
        if selector:
            return "ClusterSelector is not supported in SidecarMode"
        for name in ("submitterPodTemplate", "submitterConfig"):
            if spec.get(name) is not None:
                return f"Currently, SidecarMode doesn't support {name[0].upper()}{name[1:]}"
        head = (((spec.get("rayClusterSpec") or {}).get("headGroupSpec") or {}).get("template") or {}).get("spec") or {}
        if head.get("restartPolicy") not in (None, "", "Never"):
            return "restartPolicy for head Pod should be Never or unset when using SidecarMode"
    try:
        yaml_documents.load(spec.get("runtimeEnvYAML") or "")
    except (yaml.YAMLError, ValueError) as error:
        return f"failed to unmarshal RuntimeEnvYAML: {' '.join(str(error).split())}"
    return ""


_CLUSTER_COLUMNS = (
    Column("desired workers", ".status.desiredWorkerReplicas", type="integer"),
    Column("available workers", ".status.availableWorkerReplicas", type="integer"),
    Column("cpus", ".status.desiredCPU"),
    Column("memory", ".status.desiredMemory"),
    Column("gpus", ".status.desiredGPU"),
    Column("status", ".status.state"),
    age_column(),
)
_JOB_COLUMNS = (
    Column("job status", ".status.jobStatus"),
    Column("deployment status", ".status.jobDeploymentStatus"),
    Column("ray cluster name", ".status.rayClusterName"),
    Column("start time", ".status.startTime"),
    Column("end time", ".status.endTime"),
    age_column(),
)
_SERVICE_COLUMNS = (
    Column("service status", ".status.serviceStatus"),
    Column("num serve endpoints", ".status.numServeEndpoints", type="integer"),
    age_column(),
)

RAY_CLUSTER = KindDef(
    group=GROUP,
    descriptions="corral.jobs.ray.descriptions:DESCRIPTIONS",
    kind="RayCluster",
    inert_fields=inert_fields.CLUSTER,
    plural="rayclusters",
    categories=("all",),
    versions=(VersionDef("v1", _cluster, status=True, columns=_CLUSTER_COLUMNS),),
)
RAY_JOB = KindDef(
    group=GROUP,
    descriptions="corral.jobs.ray.descriptions:DESCRIPTIONS",
    kind="RayJob",
    inert_fields=inert_fields.JOB,
    plural="rayjobs",
    categories=("all",),
    versions=(VersionDef("v1", _job, status=True, columns=_JOB_COLUMNS),),
)
RAY_SERVICE = KindDef(
    group=GROUP,
    descriptions="corral.jobs.ray.descriptions:DESCRIPTIONS",
    kind="RayService",
    inert_fields=inert_fields.SERVICE,
    plural="rayservices",
    categories=("all",),
    versions=(VersionDef("v1", _service, status=True, columns=_SERVICE_COLUMNS),),
)
RAY_CLUSTERS = RAY_CLUSTER.resource()
RAY_JOBS = RAY_JOB.resource()
RAY_SERVICES = RAY_SERVICE.resource()
KINDS = (RAY_CLUSTER, RAY_JOB, RAY_SERVICE)
