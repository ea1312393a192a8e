"""Defaults of pods and pod templates, as a real server persists them.

Every function works in place on a private copy. A template gets what `default_pod_spec` fills in; a pod gets more
(requests from limits, service links), because some defaults only make sense once the pod is created.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from corral.core.meta import Obj

_FILE_MODE = 0o644


def default_pod(pod: Obj) -> None:
    """Defaults of a Pod."""
    spec = pod.setdefault("spec", {})
    for container in _all_containers(spec):
        _requests_from_limits(container.setdefault("resources", {}))
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))
    spec.setdefault("enableServiceLinks", True)
    default_pod_spec(spec)
    default_pod_status(pod)


def default_template(template: Obj) -> None:
    """Defaults of a PodTemplateSpec."""
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Obj) -> None:
    """Defaults that pods and templates share."""
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for container in _all_containers(spec):
        _default_container(container)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    _mirror_service_account(spec)
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")


def _all_containers(spec: Obj) -> Iterator[Obj]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def _requests_from_limits(resources: Obj) -> None:
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def _mirror_service_account(spec: Obj) -> None:
    """`serviceAccount` is the old name of `serviceAccountName`; both are always the same."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def default_pod_status(pod: Obj) -> None:
    """`podIP` is the first of `podIPs`; where they differ the single one wins, for old clients."""
    status = pod.get("status") or {}
    single, many = status.get("podIP"), status.get("podIPs")
    if single and (not many or many[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif many and not single:
        status["podIP"] = many[0].get("ip")


# Containers


_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.[a-zA-Z0-9-]+)*(?::[0-9]+)?/)?"
_REFERENCE = re.compile(
    rf"^{_HOST}{_PART}(?:/{_PART})*(?::(?P<tag>[\w][\w.-]{{0,127}}))?(?P<digest>@[A-Za-z][\w+.-]*:[0-9a-fA-F]{{32,}})?$"
)


def image_tag(image: str) -> str:
    """The tag of an image reference: `latest` when it has neither tag nor digest, empty when malformed or only a digest."""
    found = _REFERENCE.match(image)
    if found is None or len(image.partition("@")[0].rpartition(":")[0] or image) > 255:
        return ""
    return found["tag"] or ("" if found["digest"] else "latest")


def _default_container(container: Obj) -> None:
    if not container.get("imagePullPolicy"):
        latest = image_tag(container.get("image") or "") == "latest"
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        _default_field_ref((variable.get("valueFrom") or {}).get("fieldRef"))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is not None:
            _default_probe(probe)
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        _default_http_get((lifecycle.get(hook) or {}).get("httpGet"))


def _default_probe(probe: Obj) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _default_http_get(probe.get("httpGet"))
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _default_http_get(action: Obj | None) -> None:
    if action is not None:
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _default_field_ref(reference: Obj | None) -> None:
    if reference is not None:
        reference.setdefault("apiVersion", "v1")


# Volumes


def _default_volume(volume: Obj) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for source, fill in _VOLUMES.items():
        if volume.get(source) is not None:
            fill(volume[source])


def _with_mode(source: Obj) -> None:
    source.setdefault("defaultMode", _FILE_MODE)


def _downward(source: Obj) -> None:
    _with_mode(source)
    for item in source.get("items") or ():
        _default_field_ref(item.get("fieldRef"))


def _projected(source: Obj) -> None:
    _with_mode(source)
    for part in source.get("sources") or ():
        if part.get("serviceAccountToken") is not None:
            part["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (part.get("downwardAPI") or {}).get("items") or ():
            _default_field_ref(item.get("fieldRef"))


def _image_volume(source: Obj) -> None:
    latest = image_tag(source.get("reference") or "") == "latest"
    source.setdefault("pullPolicy", "Always" if latest else "IfNotPresent")


def _ephemeral(source: Obj) -> None:
    template = source.get("volumeClaimTemplate")
    if template is not None:
        template.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _rbd(source: Obj) -> None:
    source.setdefault("pool", "rbd")
    source.setdefault("user", "admin")
    source.setdefault("keyring", "/etc/ceph/keyring")


def _azure_disk(source: Obj) -> None:
    source.setdefault("cachingMode", "ReadWrite")
    source.setdefault("kind", "Shared")
    source.setdefault("fsType", "ext4")
    source.setdefault("readOnly", False)


_VOLUMES: dict[str, Callable[[Obj], None]] = {
    "secret": _with_mode,
    "configMap": _with_mode,
    "downwardAPI": _downward,
    "projected": _projected,
    "hostPath": lambda source: _set(source, "type", ""),
    "iscsi": lambda source: _set(source, "iscsiInterface", "default"),
    "rbd": _rbd,
    "azureDisk": _azure_disk,
    "ephemeral": _ephemeral,
    "image": _image_volume,
}


def _set(source: Obj, field: str, value: object) -> None:
    source.setdefault(field, value)
