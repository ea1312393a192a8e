"""Fields of Ray's kinds that are taken, checked and kept, and that change nothing here, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

_NO_AUTOSCALER = "there is no autoscaler: groups have the replicas they name"
_RAY_LABELS = "`rayStartParams` say what Ray's nodes have"
_RAY_CLUSTER: Mapping[str, str] = {
    "authOptions": "there is no token; whoever reaches the head may use it",
    "autoscalerOptions": _NO_AUTOSCALER,
    "enableInTreeAutoscaling": f"{_NO_AUTOSCALER}; with a queue it is refused unless the job is elastic, as upstream does",
    "gcsFaultToleranceOptions": "there is no Redis: what a head knew goes with it",
    "headGroupSpec.enableIngress": "no Ingress is made",
    "headGroupSpec.headService": "the head's Service is made as the operator makes it by default",
    "headGroupSpec.labels": _RAY_LABELS,
    "headGroupSpec.resources": _RAY_LABELS,
    "rayVersion": "the image says which Ray it has",
    "upgradeStrategy": "pods of a cluster are not made anew when its spec changes",
    "workerGroupSpecs.idleTimeoutSeconds": _NO_AUTOSCALER,
    "workerGroupSpecs.labels": _RAY_LABELS,
    "workerGroupSpecs.resources": _RAY_LABELS,
}
_UNHEALTHY = "upstream takes and ignores it as well; a RayService is replaced when its spec changes"

CLUSTER: Mapping[str, str] = {f"spec.{name}": why for name, why in _RAY_CLUSTER.items()}
JOB: Mapping[str, str] = {
    **{f"spec.rayClusterSpec.{name}": why for name, why in _RAY_CLUSTER.items()},
    "spec.waitingTtlSeconds": "a job that waits for its user waits until it is deleted",
}
SERVICE: Mapping[str, str] = {
    **{f"spec.rayClusterConfig.{name}": why for name, why in _RAY_CLUSTER.items()},
    "spec.deploymentUnhealthySecondThreshold": _UNHEALTHY,
    "spec.rayClusterDeletionDelaySeconds": "the old cluster goes as soon as the new one serves",
    "spec.serveService": "the Service for requests is made as the operator makes it by default",
    "spec.serviceUnhealthySecondThreshold": _UNHEALTHY,
    "spec.upgradeStrategy.clusterUpgradeOptions": "all requests move to a new cluster at once, when it is ready",
}
