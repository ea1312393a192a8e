"""Availability per kind."""

from __future__ import annotations

from typing import Any

import pytest

from corral.decide.member.availability import AVAILABLE, NOT_TRACKABLE, NOT_YET, availability

DEPLOYMENT = {"observedGeneration": 2, "availableReplicas": 3, "updatedReplicas": 3}
STATEFUL = {
    "observedGeneration": 2,
    "availableReplicas": 3,
    "currentReplicas": 3,
    "updatedReplicas": 3,
    "currentRevision": "r",
    "updateRevision": "r",
}
DAEMON = {
    "observedGeneration": 2,
    "numberAvailable": 4,
    "desiredNumberScheduled": 4,
    "currentNumberScheduled": 4,
    "updatedNumberScheduled": 4,
}
TRUE = [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "status", "want"),
    [
        ("apps/v1", "Deployment", {"replicas": 3}, DEPLOYMENT, AVAILABLE),
        ("apps/v1", "Deployment", {"replicas": 3}, {**DEPLOYMENT, "observedGeneration": 1}, NOT_YET),
        ("apps/v1", "Deployment", {"replicas": 3}, {**DEPLOYMENT, "updatedReplicas": 2}, NOT_YET),
        ("apps/v1", "Deployment", {"replicas": 3}, {**DEPLOYMENT, "unavailableReplicas": 1}, NOT_YET),
        (
            "apps/v1",
            "Deployment",
            {},
            {"observedGeneration": 2, "availableReplicas": 1, "updatedReplicas": 1},
            AVAILABLE,
        ),
        ("apps/v1", "Deployment", {"replicas": 0}, {"observedGeneration": 2}, AVAILABLE),
        ("apps/v1", "StatefulSet", {"replicas": 3}, STATEFUL, AVAILABLE),
        ("apps/v1", "StatefulSet", {"replicas": 3}, {**STATEFUL, "updateRevision": "s"}, NOT_YET),
        ("apps/v1", "StatefulSet", {"replicas": 3}, {**STATEFUL, "currentReplicas": 1}, NOT_YET),
        ("apps/v1", "DaemonSet", {}, DAEMON, AVAILABLE),
        ("apps/v1", "DaemonSet", {}, {**DAEMON, "numberAvailable": 3}, NOT_YET),
        ("apps/v1", "DaemonSet", {}, {**DAEMON, "updatedNumberScheduled": 3}, NOT_YET),
        ("v1", "Service", {"clusterIPs": ["10.0.0.1"]}, {}, AVAILABLE),
        ("v1", "Service", {"type": "NodePort"}, {}, NOT_YET),
        ("v1", "Service", {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}, {}, NOT_YET),
        ("v1", "Service", {"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}, AVAILABLE),
        ("v1", "Service", {"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"hostname": "h"}]}}, AVAILABLE),
        ("v1", "Service", {"type": "ExternalName"}, {}, NOT_TRACKABLE),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}, {"conditions": TRUE}, AVAILABLE),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}, {"conditions": TRUE[:1]}, NOT_YET),
        ("policy/v1", "PodDisruptionBudget", {}, {}, NOT_YET),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {},
            {"conditions": [{"type": "DisruptionAllowed", "status": "False", "observedGeneration": 2}]},
            AVAILABLE,
        ),
        ("v1", "Namespace", {}, {}, AVAILABLE),
        ("v1", "ConfigMap", {}, {}, AVAILABLE),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", {}, {}, AVAILABLE),
        ("scheduling.k8s.io/v1", "PriorityClass", {}, {}, AVAILABLE),
        ("batch/v1", "Job", {}, {"conditions": [{"type": "Complete", "status": "True"}]}, NOT_TRACKABLE),
        ("batch/v1", "CronJob", {}, {}, NOT_TRACKABLE),
        ("kueue.x-k8s.io/v1beta1", "ClusterQueue", {}, {}, NOT_TRACKABLE),
        ("example.com/v1", "Deployment", {}, {}, NOT_TRACKABLE),
    ],
)
def test_availability(api_version: str, kind: str, spec: Any, status: Any, want: str) -> None:
    live = {"apiVersion": api_version, "kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": status}
    assert availability(live) == want
