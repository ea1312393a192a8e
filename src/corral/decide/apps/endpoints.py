"""Who answers for a Service: EndpointSlices and the older Endpoints object, made from its pods."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.meta import Obj, is_deleting, labels_of, name_of, namespace_of, owner_ref, spec_of, status_of, uid_of
from corral.decide.pods.facts import is_ready, is_terminal

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
CONTROLLER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"
MAX_ENDPOINTS = 100


def _answers(service: Obj, pod: Obj) -> bool:
    return bool(status_of(pod).get("podIP")) and not is_terminal(pod)


def _is_ready(service: Obj, pod: Obj) -> bool:
    if spec_of(service).get("publishNotReadyAddresses"):
        return True
    return is_ready(pod) and not is_deleting(pod)


def _hostname(service: Obj, pod: Obj) -> str:
    spec = spec_of(pod)
    return str(spec.get("hostname") or "") if spec.get("subdomain") == name_of(service) else ""


def _target(pod: Obj) -> Obj:
    return {"kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod)}


def _endpoint(service: Obj, pod: Obj) -> Obj:
    serving = is_ready(pod) or bool(spec_of(service).get("publishNotReadyAddresses"))
    entry: Obj = {
        "addresses": [status_of(pod)["podIP"]],
        "conditions": {"ready": _is_ready(service, pod), "serving": serving, "terminating": is_deleting(pod)},
        "targetRef": _target(pod),
    }
    if _hostname(service, pod):
        entry["hostname"] = _hostname(service, pod)
    if spec_of(pod).get("nodeName"):
        entry["nodeName"] = spec_of(pod)["nodeName"]
    return entry


def _port_number(port: Obj, pod: Obj | None) -> int | None:
    """The number a Service port reaches: itself, its target, or the pod's port of that name."""
    target = port.get("targetPort", port.get("port"))
    if isinstance(target, int):
        return target or int(port["port"])
    if str(target).isdigit():
        return int(str(target))
    containers = spec_of(pod).get("containers") or [] if pod is not None else []
    ports = (entry for container in containers for entry in container.get("ports") or ())
    return next((int(entry["containerPort"]) for entry in ports if entry.get("name") == target), None)


def _ports(service: Obj, pods: Sequence[Obj]) -> list[Obj]:
    result = []
    for port in spec_of(service).get("ports") or ():
        number = next((found for pod in pods if (found := _port_number(port, pod)) is not None), None)
        if number is None and not pods:
            number = _port_number(port, None)
        if number is not None:
            entry = {"name": port.get("name") or "", "port": number, "protocol": port.get("protocol") or "TCP"}
            if port.get("appProtocol"):
                entry["appProtocol"] = port["appProtocol"]
            result.append(entry)
    return result


def _labels(service: Obj) -> dict[str, str]:
    labels = {**labels_of(service), SERVICE_NAME: name_of(service), MANAGED_BY: CONTROLLER}
    if spec_of(service).get("clusterIP") == "None":
        labels[HEADLESS] = ""
    return labels


def wanted_slices(service: Obj, pods: Sequence[Obj]) -> list[Obj]:
    """The slices a Service needs, at most a hundred endpoints each; always at least one."""
    answering = sorted((pod for pod in pods if _answers(service, pod)), key=name_of)
    chunks = [answering[start : start + MAX_ENDPOINTS] for start in range(0, len(answering), MAX_ENDPOINTS)] or [[]]
    owner = {"apiVersion": "v1", "kind": "Service", **service}
    return [
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": f"{name_of(service)}-",
                "namespace": namespace_of(service),
                "labels": _labels(service),
                "ownerReferences": [owner_ref(owner)],
            },
            "addressType": "IPv4",
            "endpoints": [_endpoint(service, pod) for pod in chunk],
            "ports": _ports(service, chunk),
        }
        for chunk in chunks
    ]


def wanted_endpoints(service: Obj, pods: Sequence[Obj]) -> Obj:
    """The Endpoints object of a Service: ready and unready addresses side by side."""
    answering = sorted((pod for pod in pods if _answers(service, pod)), key=name_of)
    ready = [_address(service, pod) for pod in answering if _is_ready(service, pod)]
    unready = [_address(service, pod) for pod in answering if not _is_ready(service, pod)]
    subset: Obj = {}
    if ready:
        subset["addresses"] = ready
    if unready:
        subset["notReadyAddresses"] = unready
    ports = [
        {name: value for name, value in port.items() if name != "name" or value} for port in _ports(service, answering)
    ]
    if ports:
        subset["ports"] = ports
    labels = {**labels_of(service), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    if spec_of(service).get("clusterIP") == "None":
        labels[HEADLESS] = ""
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name_of(service), "namespace": namespace_of(service), "labels": labels},
        **({"subsets": [subset]} if ready or unready else {}),
    }


def _address(service: Obj, pod: Obj) -> Obj:
    entry: Obj = {"ip": status_of(pod)["podIP"], "targetRef": _target(pod)}
    if _hostname(service, pod):
        entry["hostname"] = _hostname(service, pod)
    if spec_of(pod).get("nodeName"):
        entry["nodeName"] = spec_of(pod)["nodeName"]
    return entry
