"""Defaults of apps/v1 kinds and of ReplicationControllers."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.kinds.kubernetes.pods.defaults import default_template

HISTORY_LIMIT = 10


def _spec(obj: Obj) -> Obj:
    spec: Obj = obj.setdefault("spec", {})
    default_template(spec.setdefault("template", {}))
    return spec


def default_deployment(deployment: Obj) -> None:
    spec = _spec(deployment)
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", HISTORY_LIMIT)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_replica_set(replica_set: Obj) -> None:
    _spec(replica_set).setdefault("replicas", 1)


def default_stateful_set(stateful_set: Obj) -> None:
    spec = _spec(stateful_set)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", HISTORY_LIMIT)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
        default_claim(claim)


def default_claim(claim: Obj) -> None:
    """Defaults of a PersistentVolumeClaim, alone or as a template."""
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    default_claim_status(claim)


def default_claim_status(claim: Obj) -> None:
    claim.setdefault("status", {}).setdefault("phase", "Pending")


def default_daemon_set(daemon_set: Obj) -> None:
    spec = _spec(daemon_set)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", HISTORY_LIMIT)


def default_replication_controller(controller: Obj) -> None:
    """A ReplicationController takes selector and labels from its template."""
    spec = controller.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template is None:
        return
    default_template(template)
    labels = template["metadata"].get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)
