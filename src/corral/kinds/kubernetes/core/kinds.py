"""The core group, v1: pods, nodes, services, configuration, namespaces and what else has no group name."""

from __future__ import annotations

from collections.abc import Callable

from corral.core.meta import Obj, spec_of, status_of
from corral.core.names import check_label, check_label_1035, check_path_segment
from corral.kinds.kubernetes.apps.defaults import default_claim, default_claim_status, default_replication_controller
from corral.kinds.kubernetes.apps.rules import (  # fmt: skip
    check_replicas_status,
    check_replication_controller,
    check_replication_controller_update,
)
from corral.kinds.kubernetes.core import columns as core_printing
from corral.kinds.kubernetes.core import events as event_rules
from corral.kinds.kubernetes.core import persistent_volumes as persistent_volume_rules
from corral.kinds.kubernetes.core import quotas as quota_rules
from corral.kinds.kubernetes.core import rules
from corral.kinds.kubernetes.core import services as service_rules
from corral.kinds.kubernetes.networking import rules as network_rules
from corral.kinds.kubernetes.pods import columns as pod_printing
from corral.kinds.kubernetes.pods.defaults import default_pod, default_pod_status
from corral.kinds.kubernetes.pods.initial_status import prepare_pod, prepare_pod_status
from corral.kinds.kubernetes.pods.rules import check_pod, check_pod_status, check_pod_update
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import ScalePaths, Subresource

_PROXY = ("create", "delete", "get", "patch", "update")


def _bool(value: object) -> str:
    return "true" if value else "false"


def _pod_ip(pod: Obj) -> str:
    ips = status_of(pod).get("podIPs") or ()
    return str(ips[0].get("ip") or "") if ips else ""


POD = kind(
    "core.v1.Pod",
    "pods",
    short_names=("po",),
    categories=("all",),
    columns=pod_printing.COLUMNS,
    status=True,
    has_generation=True,
    default=default_pod,
    default_status=default_pod_status,
    prepare_create=prepare_pod,
    prepare_status=prepare_pod_status,
    validate=check_pod,
    validate_update=check_pod_update,
    validate_status=check_pod_status,
    subresources=(
        Subresource("attach", "PodAttachOptions", ("create", "get")),
        Subresource("binding", "Binding", ("create",)),
        Subresource("ephemeralcontainers", "Pod", ("get", "patch", "update")),
        Subresource("eviction", "Eviction", ("create",), group="policy", version="v1"),
        Subresource("exec", "PodExecOptions", ("create", "get")),
        Subresource("log", "Pod", ("get",)),
        Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
        Subresource("proxy", "PodProxyOptions", _PROXY),
        Subresource("resize", "Pod", ("get", "patch", "update")),
    ),
    fields={
        "spec.nodeName": lambda pod: spec_of(pod).get("nodeName") or "",
        "spec.restartPolicy": lambda pod: spec_of(pod).get("restartPolicy") or "",
        "spec.schedulerName": lambda pod: spec_of(pod).get("schedulerName") or "",
        "spec.serviceAccountName": lambda pod: spec_of(pod).get("serviceAccountName") or "",
        "spec.hostNetwork": lambda pod: _bool(spec_of(pod).get("hostNetwork")),
        "status.phase": lambda pod: status_of(pod).get("phase") or "",
        "status.podIP": _pod_ip,
        "status.podIPs": _pod_ip,
        "status.nominatedNodeName": lambda pod: status_of(pod).get("nominatedNodeName") or "",
    },
)
NODE = kind(
    "core.v1.Node",
    "nodes",
    namespaced=False,
    short_names=("no",),
    columns=core_printing.NODE,
    status=True,
    default=rules.default_node,
    default_status=rules.default_node_status,
    validate=rules.check_node,
    validate_update=rules.check_node_update,
    validate_status=rules.check_node_status,
    subresources=(Subresource("proxy", "NodeProxyOptions", _PROXY),),
    fields={"spec.unschedulable": lambda node: _bool(spec_of(node).get("unschedulable"))},
)
NAMESPACE = kind(
    "core.v1.Namespace",
    "namespaces",
    namespaced=False,
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    columns=core_printing.NAMESPACE,
    status=True,
    default=rules.default_namespace,
    prepare_create=rules.prepare_namespace,
    prepare_update=rules.prepare_namespace_update,
    validate=rules.check_namespace,
    validate_update=rules.check_namespace_update,
    validate_status=rules.check_namespace_status,
    check_name=check_label,
    subresources=(Subresource("finalize", "Namespace", ("update",)),),
    fields={"status.phase": lambda obj: status_of(obj).get("phase") or ""},
)
SERVICE = kind(
    "core.v1.Service",
    "services",
    short_names=("svc",),
    categories=("all",),
    columns=core_printing.SERVICE,
    status=True,
    default=service_rules.default_service,
    prepare_create=service_rules.prepare_service,
    prepare_update=service_rules.prepare_service_update,
    validate=service_rules.check_service,
    validate_update=service_rules.check_service_update,
    validate_status=service_rules.check_service_status,
    allow_create_on_update=True,
    check_name=check_label_1035,
    subresources=(Subresource("proxy", "ServiceProxyOptions", _PROXY),),
    fields={
        "spec.clusterIP": lambda obj: spec_of(obj).get("clusterIP") or "",
        "spec.type": lambda obj: spec_of(obj).get("type") or "",
    },
)
CONFIG_MAP = kind(
    "core.v1.ConfigMap",
    "configmaps",
    short_names=("cm",),
    columns=core_printing.CONFIG_MAP,
    validate=rules.check_config_map,
    validate_update=rules.check_config_map_update,
)
SECRET = kind(
    "core.v1.Secret",
    "secrets",
    columns=core_printing.SECRET,
    default=rules.default_secret,
    prepare_create=rules.prepare_secret,
    prepare_update=rules.prepare_secret_update,
    validate=rules.check_secret,
    validate_update=rules.check_secret_update,
    fields={"type": lambda obj: obj.get("type") or ""},
)
SERVICE_ACCOUNT = kind(
    "core.v1.ServiceAccount",
    "serviceaccounts",
    short_names=("sa",),
    columns=core_printing.SERVICE_ACCOUNT,
    validate_update=rules.check_service_account_update,
    subresources=(Subresource("token", "TokenRequest", ("create",), group="authentication.k8s.io", version="v1"),),
)
EVENT_FIELDS: dict[str, Callable[[Obj], str]] = {
    "involvedObject.kind": lambda event: (event.get("involvedObject") or {}).get("kind") or "",
    "involvedObject.namespace": lambda event: (event.get("involvedObject") or {}).get("namespace") or "",
    "involvedObject.name": lambda event: (event.get("involvedObject") or {}).get("name") or "",
    "involvedObject.uid": lambda event: (event.get("involvedObject") or {}).get("uid") or "",
    "involvedObject.apiVersion": lambda event: (event.get("involvedObject") or {}).get("apiVersion") or "",
    "involvedObject.resourceVersion": lambda event: (event.get("involvedObject") or {}).get("resourceVersion") or "",
    "involvedObject.fieldPath": lambda event: (event.get("involvedObject") or {}).get("fieldPath") or "",
    "reason": lambda event: event.get("reason") or "",
    "reportingComponent": lambda event: event.get("reportingComponent") or "",
    "source": lambda event: (event.get("source") or {}).get("component") or event.get("reportingComponent") or "",
    "type": lambda event: event.get("type") or "",
}
EVENT = kind(
    "core.v1.Event",
    "events",
    short_names=("ev",),
    columns=core_printing.EVENT,
    check_name=check_path_segment,
    validate=event_rules.check_event,
    validate_update=event_rules.check_event_update,
    allow_create_on_update=True,
    fields=EVENT_FIELDS,
)
ENDPOINTS_KIND = kind(
    "core.v1.Endpoints",
    "endpoints",
    singular="endpoints",
    short_names=("ep",),
    columns=core_printing.ENDPOINTS,
    default=network_rules.default_endpoints,
    validate=network_rules.check_endpoints,
    validate_update=network_rules.check_endpoints_update,
    allow_create_on_update=True,
)
PERSISTENT_VOLUME = kind(
    "core.v1.PersistentVolume",
    "persistentvolumes",
    namespaced=False,
    short_names=("pv",),
    columns=core_printing.PERSISTENT_VOLUME,
    status=True,
    default=rules.default_volume,
    default_status=rules.default_volume_status,
    prepare_create=rules.prepare_volume,
    validate=persistent_volume_rules.check_volume,
    validate_update=persistent_volume_rules.check_volume_update,
    validate_status=rules.check_metadata_only_update,
)
PERSISTENT_VOLUME_CLAIM = kind(
    "core.v1.PersistentVolumeClaim",
    "persistentvolumeclaims",
    short_names=("pvc",),
    columns=core_printing.PERSISTENT_VOLUME_CLAIM,
    status=True,
    default=default_claim,
    default_status=default_claim_status,
    prepare_create=rules.prepare_claim,
    validate=rules.check_claim,
    validate_update=rules.check_claim_update,
    validate_status=rules.check_claim_status,
)
POD_TEMPLATE = kind(
    "core.v1.PodTemplate",
    "podtemplates",
    columns=core_printing.POD_TEMPLATE,
    has_generation=True,
    default=rules.default_pod_template,
    validate=rules.check_pod_template,
    validate_update=rules.check_pod_template_update,
)
REPLICATION_CONTROLLER = kind(
    "core.v1.ReplicationController",
    "replicationcontrollers",
    short_names=("rc",),
    categories=("all",),
    columns=core_printing.REPLICATION_CONTROLLER,
    status=True,
    scale=ScalePaths(selector=".spec.selector"),
    has_generation=True,
    default_propagation="Orphan",
    default=default_replication_controller,
    validate=check_replication_controller,
    validate_update=check_replication_controller_update,
    validate_status=check_replicas_status,
    fields={"status.replicas": lambda obj: str(status_of(obj).get("replicas") or 0)},
)
RESOURCE_QUOTA = kind(
    "core.v1.ResourceQuota",
    "resourcequotas",
    short_names=("quota",),
    columns=core_printing.RESOURCE_QUOTA,
    status=True,
    validate=quota_rules.check_quota,
    validate_update=quota_rules.check_quota_update,
    validate_status=quota_rules.check_quota_status,
)
LIMIT_RANGE = kind(
    "core.v1.LimitRange",
    "limitranges",
    short_names=("limits",),
    allow_create_on_update=True,
    default=quota_rules.default_limit_range,
    prepare_create=quota_rules.prepare_limit_range,
    validate=quota_rules.check_limit_range,
    validate_update=quota_rules.check_limit_range_update,
)
COMPONENT_STATUS = kind(
    "core.v1.ComponentStatus",
    "componentstatuses",
    singular="componentstatus",
    namespaced=False,
    short_names=("cs",),
    verbs=("get", "list"),
    columns=core_printing.COMPONENT_STATUS,
)
BINDING = kind("core.v1.Binding", "bindings", verbs=("create",))

KINDS = (
    BINDING, COMPONENT_STATUS, CONFIG_MAP, ENDPOINTS_KIND, EVENT, LIMIT_RANGE, NAMESPACE, NODE, PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME, POD, POD_TEMPLATE, REPLICATION_CONTROLLER, RESOURCE_QUOTA, SECRET, SERVICE_ACCOUNT, SERVICE,
)  # fmt: skip

PODS = POD.resource()
NODES = NODE.resource()
NAMESPACES = NAMESPACE.resource()
SERVICES = SERVICE.resource()
CONFIG_MAPS = CONFIG_MAP.resource()
SECRETS = SECRET.resource()
SERVICE_ACCOUNTS = SERVICE_ACCOUNT.resource()
EVENTS = EVENT.resource()
ENDPOINTS = ENDPOINTS_KIND.resource()
PERSISTENT_VOLUME_CLAIMS = PERSISTENT_VOLUME_CLAIM.resource()
POD_TEMPLATES = POD_TEMPLATE.resource()
RESOURCE_QUOTAS = RESOURCE_QUOTA.resource()
LIMIT_RANGES = LIMIT_RANGE.resource()
BINDINGS = BINDING.resource()
