"""Printed columns of the other core/v1 kinds: services, nodes, events, volumes, quotas."""

from __future__ import annotations

from collections.abc import Callable

from corral.core import conditions
from corral.core.meta import Obj, annotations_of, is_deleting, labels_of, spec_of, status_of
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import (  # fmt: skip
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    container_images,
    container_names,
    count,
    format_labels,
    limited,
    number,
    since,
    text,
)

# Services and endpoints


def _load_balancer(status: Obj) -> str:
    ingress = (status.get("loadBalancer") or {}).get("ingress") or ()
    return ",".join(entry.get("ip") or entry.get("hostname") or "" for entry in ingress)


def _external_ip(service: Obj, now: float) -> Cell:
    spec = spec_of(service)
    kind, addresses = spec.get("type"), ",".join(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return spec.get("externalName") or ""
    if kind == "LoadBalancer":
        return ",".join(part for part in (_load_balancer(status_of(service)), addresses) if part) or "<pending>"
    return (addresses or NONE) if kind in ("ClusterIP", "NodePort") else UNKNOWN


def _ports(service: Obj, now: float) -> Cell:
    shown = []
    for port in spec_of(service).get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node_port}/{port.get('protocol')}")
    return ",".join(shown) or NONE


SERVICE = (
    NAME,
    Column("Type", cell=text(".spec.type")),
    Column("Cluster-IP", cell=text(".spec.clusterIPs[0]", NONE)),
    Column("External-IP", cell=_external_ip),
    Column("Port(s)", cell=_ports),
    AGE,
    Column("Selector", priority=1, cell=lambda obj, now: format_labels(spec_of(obj).get("selector"))),
)


def _endpoints(obj: Obj, now: float) -> Cell:
    shown: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        shown += [f"{ip}:{port.get('port')}" for port in ports for ip in addresses] if ports else addresses
    return limited(shown, len(shown), empty=NONE if not obj.get("subsets") else "")


ENDPOINTS = (NAME, Column("Endpoints", cell=_endpoints), AGE)

# Nodes


def _node_status(node: Obj, now: float) -> Cell:
    ready = conditions.find(node, "Ready")
    words = ["Unknown"] if ready is None else ["Ready" if ready.get("status") == "True" else "NotReady"]
    if spec_of(node).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Obj, now: float) -> Cell:
    prefix = "node-role.kubernetes.io/"
    labels = labels_of(node)
    roles = {label.removeprefix(prefix) for label in labels if label.startswith(prefix) and label != prefix}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or NONE


NODE = (
    NAME,
    Column("Status", cell=_node_status),
    Column("Roles", cell=_node_roles),
    AGE,
    Column("Version", cell=text(".status.nodeInfo.kubeletVersion")),
    Column("Internal-IP", priority=1, cell=text('.status.addresses[?(@.type=="InternalIP")].address', NONE)),
    Column("External-IP", priority=1, cell=text('.status.addresses[?(@.type=="ExternalIP")].address', NONE)),
    Column("OS-Image", priority=1, cell=text(".status.nodeInfo.osImage", UNKNOWN)),
    Column("Kernel-Version", priority=1, cell=text(".status.nodeInfo.kernelVersion", UNKNOWN)),
    Column("Container-Runtime", priority=1, cell=text(".status.nodeInfo.containerRuntimeVersion", UNKNOWN)),
)

# Events


def _first_seen(event: Obj, now: float) -> Cell:
    return since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Obj, now: float) -> Cell:
    if event.get("series") is not None:
        return since(event["series"].get("lastObservedTime"), now)
    last = event.get("lastTimestamp")
    return since(last, now) if last else _first_seen(event, now)


def _target(event: Obj, now: float) -> Cell:
    involved = event.get("involvedObject") or {}
    kind, name = (involved.get("kind") or "").lower(), involved.get("name") or ""
    return f"{kind}/{name}" if name else kind


def _source(event: Obj, now: float) -> Cell:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


def _event_count(event: Obj, now: float) -> Cell:
    return event["series"].get("count") or 0 if event.get("series") is not None else event.get("count") or 1


EVENT = (
    Column("Last Seen", cell=_last_seen),
    Column("Type", cell=text(".type")),
    Column("Reason", cell=text(".reason")),
    Column("Object", cell=_target),
    Column("Subobject", priority=1, cell=text(".involvedObject.fieldPath")),
    Column("Source", priority=1, cell=_source),
    Column("Message", cell=lambda obj, now: (obj.get("message") or "").strip()),
    Column("First Seen", priority=1, cell=_first_seen),
    Column("Count", priority=1, cell=_event_count),
    Column("Name", priority=1, format="name", cell=text(".metadata.name")),
)

# Volumes

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: object) -> str:
    given = modes if isinstance(modes, list) else ()
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _phase(obj: Obj, now: float) -> Cell:
    return "Terminating" if is_deleting(obj) else status_of(obj).get("phase") or ""


def _class(obj: Obj, now: float) -> Cell:
    legacy = annotations_of(obj).get("volume.beta.kubernetes.io/storage-class")
    return legacy if legacy is not None else spec_of(obj).get("storageClassName") or ""


def _claim_ref(volume: Obj, now: float) -> Cell:
    claim = spec_of(volume).get("claimRef")
    return "" if claim is None else f"{claim.get('namespace') or ''}/{claim.get('name') or ''}"


_ATTRIBUTES = Column("VolumeAttributesClass", cell=text(".spec.volumeAttributesClassName", "<unset>"))
_VOLUME_MODE = Column("VolumeMode", priority=1, cell=text(".spec.volumeMode", "<unset>"))

PERSISTENT_VOLUME = (
    NAME,
    Column("Capacity", cell=text(".spec.capacity.storage", "0")),
    Column("Access Modes", cell=lambda obj, now: _modes(spec_of(obj).get("accessModes"))),
    Column("Reclaim Policy", cell=text(".spec.persistentVolumeReclaimPolicy")),
    Column("Status", cell=_phase),
    Column("Claim", cell=_claim_ref),
    Column("StorageClass", cell=_class),
    _ATTRIBUTES,
    Column("Reason", cell=text(".status.reason")),
    AGE,
    _VOLUME_MODE,
)

_BOUND_CAPACITY = text(".status.capacity.storage", "0")


def _claim_capacity(claim: Obj, now: float) -> Cell:
    return _BOUND_CAPACITY(claim, now) if spec_of(claim).get("volumeName") else ""


def _claim_modes(claim: Obj, now: float) -> Cell:
    return _modes(status_of(claim).get("accessModes")) if spec_of(claim).get("volumeName") else ""


PERSISTENT_VOLUME_CLAIM = (
    NAME,
    Column("Status", cell=_phase),
    Column("Volume", cell=text(".spec.volumeName")),
    Column("Capacity", cell=_claim_capacity),
    Column("Access Modes", cell=_claim_modes),
    Column("StorageClass", cell=_class),
    _ATTRIBUTES,
    AGE,
    _VOLUME_MODE,
)

# The rest


def _quota_column(limits: bool) -> Callable[[Obj, float], Cell]:
    def cell(quota: Obj, now: float) -> Cell:
        status = status_of(quota)
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


RESOURCE_QUOTA = (
    NAME,
    Column("Request", cell=_quota_column(False)),
    Column("Limit", cell=_quota_column(True)),
    AGE,
)
NAMESPACE = (NAME, Column("Status", cell=text(".status.phase")), AGE)
SECRET = (NAME, Column("Type", cell=text(".type")), Column("Data", cell=count(".data")), AGE)
SERVICE_ACCOUNT = (NAME, Column("Secrets", cell=count(".secrets")), AGE)


def _config_map_data(obj: Obj, now: float) -> Cell:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


CONFIG_MAP = (NAME, Column("Data", cell=_config_map_data), AGE)


def _template(obj: Obj) -> Obj:
    return (obj.get("template") or {}).get("spec") or {}


POD_TEMPLATE = (
    NAME,
    Column("Containers", cell=lambda obj, now: container_names(_template(obj))),
    Column("Images", cell=lambda obj, now: container_images(_template(obj))),
    Column("Pod Labels", cell=lambda obj, now: format_labels(labels_of(obj.get("template") or {}))),
)


def _template_spec(obj: Obj) -> Obj:
    return (spec_of(obj).get("template") or {}).get("spec") or {}


REPLICATION_CONTROLLER = (
    NAME,
    Column("Desired", type="integer", cell=number(".spec.replicas")),
    Column("Current", type="integer", cell=number(".status.replicas")),
    Column("Ready", type="integer", cell=number(".status.readyReplicas")),
    AGE,
    Column("Containers", priority=1, cell=lambda obj, now: container_names(_template_spec(obj))),
    Column("Images", priority=1, cell=lambda obj, now: container_images(_template_spec(obj))),
    Column("Selector", priority=1, cell=lambda obj, now: format_labels(spec_of(obj).get("selector"))),
)


def _healthy(obj: Obj) -> Obj:
    return next((entry for entry in obj.get("conditions") or () if entry.get("type") == "Healthy"), {})


def _component_status(obj: Obj, now: float) -> Cell:
    status = _healthy(obj).get("status")
    return "Unknown" if status is None else "Healthy" if status == "True" else "Unhealthy"


COMPONENT_STATUS = (
    NAME,
    Column("Status", cell=_component_status),
    Column("Message", cell=lambda obj, now: _healthy(obj).get("message") or ""),
    Column("Error", cell=lambda obj, now: _healthy(obj).get("error") or ""),
)
