"""The objects an installation of queueing consists of, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import yaml

from corral.core.meta import Obj, annotations_of, metadata_of, name_of, namespace_of, spec_of, status_of, uid_of
from corral.core.patch.apply import STAND_IN
from corral.core.resource import Resource
from corral.jobs.framework.roles import user_rules
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, SERVICES
from corral.kinds.kubernetes.rbac import CLUSTER_ROLES
from corral.node.endpoints import ANSWERED_BY_API

DEPLOYMENT_NAME = "kueue-controller-manager"
CONFIG_NAME = "kueue-manager-config"
CONFIG_KEY = "controller_manager_config.yaml"
WEBHOOK_SERVICE = "kueue-webhook-service"
METRICS_SERVICE = "kueue-controller-manager-metrics-service"
VISIBILITY_SERVICE = "kueue-visibility-server"
LEASE_NAME = "c1f6bfd2.kueue.x-k8s.io"
SCHEDULER_NAME = "corral.dev/in-process"
"""Asks for no node: the pods of the Deployment stand for what runs in the API server's own process."""
LABELS = {"app.kubernetes.io/name": "kueue", "app.kubernetes.io/component": "controller"}
POD_LABELS = {**LABELS, "control-plane": "controller-manager"}

MANAGER_NAME = "kueue-installation"
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"

EDIT = ["create", "delete", "get", "list", "patch", "update", "watch"]
VIEW = ["get", "list", "watch"]


def installed_objects(namespace: str, document: Obj) -> Iterator[tuple[Resource, Obj]]:
    """Everything but the endpoints and the Lease, in the order to create it."""
    yield NAMESPACES, {"metadata": {"name": namespace}}
    yield SERVICE_ACCOUNTS, {"metadata": _named(DEPLOYMENT_NAME, namespace)}
    yield CONFIG_MAPS, {"metadata": _named(CONFIG_NAME, namespace), "data": configuration_data(document)}
    yield DEPLOYMENTS, _deployment(namespace)
    yield SERVICES, _service(WEBHOOK_SERVICE, namespace, {"port": 443, "protocol": "TCP", "targetPort": 9443})
    yield (
        SERVICES,
        _service(METRICS_SERVICE, namespace, {"name": "https", "port": 8443, "protocol": "TCP", "targetPort": 8443}),
    )
    yield (
        SERVICES,
        _service(VISIBILITY_SERVICE, namespace, {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 8082}),
    )
    for name, rules in roles().items():
        yield CLUSTER_ROLES, {"metadata": {"name": name, "labels": LABELS}, "rules": rules}


def configuration_data(document: Obj) -> dict[str, str]:
    """What the ConfigMap holds of a configuration."""
    return {CONFIG_KEY: yaml.safe_dump(document, sort_keys=False)}


def is_edited(config_map: Obj) -> bool:
    """Whether somebody other than the installation has written a configuration into its ConfigMap."""
    return any(
        entry.get("manager") not in (STAND_IN, MANAGER_NAME) and "f:data" in (entry.get("fieldsV1") or {})
        for entry in metadata_of(config_map).get("managedFields") or ()
    )


def restart_of(templated: Obj) -> str:
    """Which restart of the Deployment a pod, or the Deployment's template, belongs to; empty before the first."""
    return annotations_of(templated).get(RESTARTED_AT, "")


def endpoint_slices(namespace: str, kubernetes: Obj, pods: Iterable[Obj]) -> Iterator[Obj]:
    """Who answers for the Services: the pods that stand for this API server, which admits, shows metrics and who waits itself.

    `kubernetes` is the Service of that name, whose port they answer at; `pods` are those that are ready.
    """
    port = int(spec_of(kubernetes)["ports"][0]["port"])
    endpoints = [_endpoint(pod) for pod in pods]
    for service, port_name in ((WEBHOOK_SERVICE, ""), (METRICS_SERVICE, "https"), (VISIBILITY_SERVICE, "https")):
        labels = {**LABELS, "kubernetes.io/service-name": service, ANSWERED_BY_API: "true"}
        yield {
            "metadata": {"name": f"{service}-api", "namespace": namespace, "labels": labels},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": port_name, "port": port, "protocol": "TCP"}],
        }


def _endpoint(pod: Obj) -> Obj:
    target = {"kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod)}
    conditions = {"ready": True, "serving": True, "terminating": False}
    return {"addresses": [status_of(pod)["podIP"]], "conditions": conditions, "targetRef": target}


def _named(name: str, namespace: str) -> Obj:
    return {"name": name, "namespace": namespace, "labels": LABELS}


def _service(name: str, namespace: str, port: Obj) -> Obj:
    return {"metadata": _named(name, namespace), "spec": {"ports": [port]}}


def _deployment(namespace: str) -> Obj:
    """The controllers run in the API server's own process; `own_pods` shows them as the Deployment's pod."""
    containers = [
        {"name": "manager", "image": "corral", "args": ["--config=/controller_manager_config.yaml"]},
        {"name": "metrics", "image": "corral"},
    ]
    pod = {"serviceAccountName": DEPLOYMENT_NAME, "schedulerName": SCHEDULER_NAME, "containers": containers}
    return {
        "metadata": {**_named(DEPLOYMENT_NAME, namespace), "labels": POD_LABELS},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"control-plane": "controller-manager"}},
            "template": {"metadata": {"labels": POD_LABELS}, "spec": pod},
        },
    }


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Obj:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


_KUEUE = ["kueue.x-k8s.io"]
_VISIBILITY = ["visibility.kueue.x-k8s.io"]
_EXPLAINED = _rule(["visibility.corral.dev"], ["workloadexplanations"], ["get", "list"])
_QUEUES = ["clusterqueues", "cohorts", "localqueues", "resourceflavors", "topologies", "workloadpriorityclasses"]


def roles() -> dict[str, list[Obj]]:
    """The ClusterRoles people get, by name."""
    jobs = user_rules()
    queues = [*_QUEUES, "workloads", "admissionchecks", "multikueueconfigs", "multikueueclusters"]
    pending = ["clusterqueues/pendingworkloads", "localqueues/pendingworkloads"]
    return {
        "kueue-batch-admin-role": [
            _rule(_KUEUE, queues, EDIT),
            _rule(_KUEUE, ["clusterqueues/status", "localqueues/status", "workloads/status"], VIEW),
            _rule(_VISIBILITY, pending, VIEW),
            _EXPLAINED,
            *jobs,
        ],
        "kueue-batch-user-role": [
            _rule(_KUEUE, ["localqueues", "workloads", "localqueues/status", "workloads/status"], VIEW),
            _rule(_VISIBILITY, ["localqueues/pendingworkloads"], VIEW),
            _EXPLAINED,
            *jobs,
        ],
        "kueue-metrics-reader": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
