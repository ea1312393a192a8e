"""Rules for containers: names, images, ports, environment, mounts, resources, probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.quantity import Quantity
from corral.core.validation import (
    at_least_zero,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)  # fmt: skip
from corral.kinds.kubernetes.pods.downward_rules import ENV_FIELDS, check_all, check_field_ref, check_resource_ref
from corral.kinds.kubernetes.pods.volume_rules import check_descending_path, check_path_without_backsteps

PROTOCOLS = ("SCTP", "TCP", "UDP")
_STANDARD_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD = _STANDARD_CONTAINER | {
    "storage", "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
    "persistentvolumeclaims", "services.loadbalancers", "services.nodeports", "requests.cpu", "requests.memory",
    "requests.storage", "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
}  # fmt: skip
_INTEGER = frozenset(
    {
        "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims", "services.loadbalancers", "services.nodeports",
    }
)  # fmt: skip


def check_choice(path: str, value: str | None, allowed: tuple[str, ...]) -> list[Cause]:
    """A required field with a fixed set of values."""
    if not value:
        return [required(path)]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def check_container(container: Obj, path: str, volumes: Mapping[str, Obj], claims: frozenset[str]) -> list[Cause]:
    """Rules that regular, init and ephemeral containers share."""
    name = container.get("name") or ""
    causes = check_all(f"{path}.name", name, names.check_label(name)) if name else [required(f"{path}.name")]
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    policies = ("File", "FallbackToLogsOnError")
    causes += check_choice(f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy"), policies)
    mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    causes += _check_ports(container.get("ports") or (), f"{path}.ports")
    causes += _check_env(container.get("env") or (), f"{path}.env")
    causes += _check_env_from(container.get("envFrom") or (), f"{path}.envFrom")
    causes += _check_mounts(container, f"{path}.volumeMounts", volumes)
    causes += _check_devices(devices, f"{path}.volumeDevices", volumes, mounts)
    pull = ("Always", "IfNotPresent", "Never")
    causes += check_choice(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), pull)
    causes += check_resources(container.get("resources") or {}, f"{path}.resources", claims)
    return causes + _check_security(container.get("securityContext"), f"{path}.securityContext")


def _check_ports(ports: Iterable[Obj], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for position, port in enumerate(ports):
        where = f"{path}[{position}]"
        name = port.get("name") or ""
        if name:
            complaints = names.check_port_name(name)
            if complaints:
                causes += check_all(f"{where}.name", name, complaints)
            elif name in seen:
                causes.append(duplicate(f"{where}.name", name))
            seen.add(name)
        number = port.get("containerPort") or 0
        if number == 0:
            causes.append(required(f"{where}.containerPort"))
        else:
            causes += check_all(f"{where}.containerPort", number, names.check_port_number(number))
        if port.get("hostPort"):
            causes += check_all(f"{where}.hostPort", port["hostPort"], names.check_port_number(port["hostPort"]))
        causes += check_choice(f"{where}.protocol", port.get("protocol"), PROTOCOLS)
    return causes


def check_host_ports(containers: Iterable[Obj], path: str) -> list[Cause]:
    """No two containers may want the same port of the host."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                wanted = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
                if wanted in seen:
                    causes.append(duplicate(f"{path}[{index}].ports[{position}].hostPort", wanted))
                seen.add(wanted)
    return causes


# Environment


def _check_env(variables: Iterable[Obj], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for position, variable in enumerate(variables):
        where = f"{path}[{position}]"
        name = variable.get("name") or ""
        causes += check_all(f"{where}.name", name, names.check_env_name(name)) if name else [required(f"{where}.name")]
        if variable.get("valueFrom") is not None:
            causes += _check_value_from(variable, f"{where}.valueFrom")
    return causes


def _check_value_from(variable: Obj, path: str) -> list[Cause]:
    source = variable["valueFrom"]
    causes: list[Cause] = []
    if source.get("fieldRef") is not None:
        causes += check_field_ref(source["fieldRef"], f"{path}.fieldRef", ENV_FIELDS)
    if source.get("resourceFieldRef") is not None:
        causes += check_resource_ref(source["resourceFieldRef"], f"{path}.resourceFieldRef", volume=False)
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if source.get(kind) is not None:
            causes += _check_key_ref(source[kind], f"{path}.{kind}")
    kinds = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
    given = sum(source.get(kind) is not None for kind in kinds)
    if given == 0:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        causes.append(invalid(path, "", detail))
    elif variable.get("value"):
        causes.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif given > 1:
        causes.append(invalid(path, "", "may not have more than one field specified at a time"))
    return causes


def _check_key_ref(reference: Obj, path: str) -> list[Cause]:
    name, key = reference.get("name") or "", reference.get("key") or ""
    causes = check_all(f"{path}.name", name, names.check_subdomain(name))
    causes += check_all(f"{path}.key", key, names.check_config_key(key)) if key else [required(f"{path}.key")]
    return causes


def _check_env_from(sources: Iterable[Obj], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for position, source in enumerate(sources):
        where = f"{path}[{position}]"
        prefix = source.get("prefix") or ""
        if prefix:
            causes += check_all(f"{where}.prefix", prefix, names.check_env_name(prefix))
        given = 0
        for kind in ("configMapRef", "secretRef"):
            if source.get(kind) is not None:
                given += 1
                name = source[kind].get("name") or ""
                checked = check_all(f"{where}.{kind}.name", name, names.check_subdomain(name))
                causes += checked if name else [required(f"{where}.{kind}.name")]
        if given == 0:
            causes.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif given > 1:
            causes.append(invalid(path, "", "may not have more than one field specified at a time"))
    return causes


# Volumes in a container


def _check_mounts(container: Obj, path: str, volumes: Mapping[str, Obj]) -> list[Cause]:
    devices = container.get("volumeDevices") or ()
    device_names = {device.get("name") for device in devices}
    device_paths = {device.get("devicePath") for device in devices}
    causes: list[Cause] = []
    points: set[str] = set()
    for position, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}[{position}]"
        name, point = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            causes.append(required(f"{where}.name"))
        if name not in volumes:
            causes.append(not_found(f"{where}.name", name))
        if not point:
            causes.append(required(f"{where}.mountPath"))
        if point in points:
            causes.append(invalid(f"{where}.mountPath", point, "must be unique"))
        points.add(point)
        if name in device_names:
            causes.append(invalid(f"{where}.name", name, "must not already exist in volumeDevices"))
        if point in device_paths:
            causes.append(invalid(f"{where}.mountPath", point, "must not already exist as a path in volumeDevices"))
        causes += _check_sub_path(mount, path, where)
        causes += _check_propagation(mount.get("mountPropagation"), container, f"{path}.mountPropagation")
    return causes


def _check_sub_path(mount: Obj, path: str, where: str) -> list[Cause]:
    causes: list[Cause] = []
    if mount.get("subPath"):
        causes += check_descending_path(mount["subPath"], f"{path}.subPath")
    expression = mount.get("subPathExpr")
    if expression:
        if mount.get("subPath"):
            detail = "subPathExpr and subPath are mutually exclusive"
            causes.append(invalid(f"{where}.subPathExpr", expression, detail))
        causes += check_descending_path(expression, f"{path}.subPathExpr")
    return causes


def _check_propagation(mode: str | None, container: Obj, path: str) -> list[Cause]:
    if mode is None:
        return []
    allowed = ("Bidirectional", "HostToContainer", "None")
    causes = [] if mode in allowed else [not_supported(path, mode, allowed)]
    privileged = (container.get("securityContext") or {}).get("privileged")
    if mode == "Bidirectional" and not privileged:
        causes.append(forbidden(path, "Bidirectional mount propagation is available only to privileged containers"))
    return causes


def _check_devices(devices: Iterable[Obj], path: str, volumes: Mapping[str, Obj], mounts: Iterable[Obj]) -> list[Cause]:
    mounted = {mount.get("name"): mount.get("mountPath") for mount in mounts}
    causes: list[Cause] = []
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for position, device in enumerate(devices):
        where = f"{path}[{position}]"
        name, point = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            causes.append(required(f"{where}.name"))
        if name in seen_names:
            causes.append(invalid(f"{where}.name", name, "must be unique"))
        volume = volumes.get(name)
        if volume is None:
            causes.append(not_found(f"{where}.name", name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            causes.append(invalid(f"{where}.name", name, detail))
        if not point:
            causes.append(required(f"{where}.devicePath"))
        if point in seen_paths:
            causes.append(invalid(f"{where}.devicePath", point, "must be unique"))
        if point and check_path_without_backsteps(point, path):
            causes.append(invalid(f"{where}.devicePath", point, "can not contain backsteps ('..')"))
        else:
            seen_paths.add(point)
        if name in mounted:
            causes.append(invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if point in mounted.values():
            causes.append(invalid(f"{where}.devicePath", point, "must not already exist as a path in volumeMounts"))
        seen_names.add(name)
    return causes


# Resources


def check_resource_name(name: str, path: str) -> list[Cause]:
    """Rules for the name of a resource anywhere."""
    complaints = names.check_qualified_name(name)
    if complaints:
        return check_all(path, name, complaints)
    if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        return [invalid(path, name, "must be a standard resource type or fully qualified")]
    return []


def check_container_resource(name: str, path: str) -> list[Cause]:
    causes = check_resource_name(name, path)
    if "/" not in name:
        if name not in _STANDARD_CONTAINER and not name.startswith("hugepages-"):
            causes.append(invalid(path, name, "must be a standard resource for containers"))
    elif "kubernetes.io/" not in name and (
        name.startswith("requests.") or names.check_qualified_name("requests." + name)
    ):
        causes.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return causes


def check_amount(name: str, amount: str, path: str) -> list[Cause]:
    """Amounts are not negative, and whole for things that are counted."""
    causes: list[Cause] = []
    quantity = Quantity.parse(amount)
    if quantity < Quantity.parse("0"):
        causes.append(invalid(path, amount, "must be greater than or equal to 0"))
    if is_counted(name) and quantity.milli % 1000:
        causes.append(invalid(path, amount, "must be an integer"))
    return causes


def is_counted(name: str) -> bool:
    """Whether a resource only comes in whole units."""
    extended = "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
    return name in _INTEGER or extended


def _may_overcommit(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith("hugepages-")


def check_resources(resources: Obj, path: str, claims: frozenset[str]) -> list[Cause]:
    """Requests and limits of a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes: list[Cause] = []
    for name, amount in sorted(limits.items()):
        where = f"{path}.limits[{name}]"
        causes += check_container_resource(name, where) + check_amount(name, amount, where)
    for name, amount in sorted(requests.items()):
        where = f"{path}.requests[{name}]"
        causes += check_container_resource(name, where) + check_amount(name, amount, where)
        causes += _check_against_limit(name, amount, limits.get(name), path)
    huge = any(name.startswith("hugepages-") for name in (*limits, *requests))
    if huge and not {"cpu", "memory"} & {*limits, *requests}:
        causes.append(forbidden(path, "HugePages require cpu or memory"))
    for position, claim in enumerate(resources.get("claims") or ()):
        name = claim.get("name") or ""
        if not name:
            causes.append(required(f"{path}.claims[{position}]"))
        elif name not in claims:
            causes.append(not_found(f"{path}.claims[{position}]", name))
    return causes


def _check_against_limit(name: str, amount: str, limit: str | None, path: str) -> list[Cause]:
    if limit is None:
        if _may_overcommit(name):
            return []
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    wanted, allowed = Quantity.parse(amount), Quantity.parse(limit)
    if wanted != allowed and not _may_overcommit(name):
        return [invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")]
    if wanted > allowed:
        return [invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")]
    return []


# Security


def _check_id(value: int | None, path: str) -> list[Cause]:
    if value is None or 0 <= value <= 2**31 - 1:
        return []
    return [invalid(path, value, "must be between 0 and 2147483647, inclusive")]


def _check_security(context: Obj | None, path: str) -> list[Cause]:
    if context is None:
        return []
    causes = _check_id(context.get("runAsUser"), f"{path}.runAsUser")
    causes += _check_id(context.get("runAsGroup"), f"{path}.runAsGroup")
    if context.get("procMount") not in (None, "Default", "Unmasked"):
        causes.append(not_supported(f"{path}.procMount", context["procMount"], ("Default", "Unmasked")))
    return causes + check_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")


def check_seccomp(profile: Obj | None, path: str) -> list[Cause]:
    if profile is None:
        return []
    kind = profile.get("type") or ""
    if not kind:
        return [required(f"{path}.type", "type is required when seccompProfile is set")]
    if kind not in ("Localhost", "RuntimeDefault", "Unconfined"):
        return [not_supported(f"{path}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))]
    local = profile.get("localhostProfile")
    if kind == "Localhost" and local is None:
        return [required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")]
    if kind != "Localhost" and local is not None:
        detail = "can only be set when seccomp type is Localhost"
        return [invalid(f"{path}.localhostProfile", local, detail)]
    return []


def check_pod_security(context: Obj | None, spec: Obj, path: str) -> list[Cause]:
    """The security context of a whole pod."""
    if not context:
        return []
    causes = _check_id(context.get("fsGroup"), f"{path}.fsGroup")
    causes += _check_id(context.get("runAsUser"), f"{path}.runAsUser")
    causes += _check_id(context.get("runAsGroup"), f"{path}.runAsGroup")
    for position, group in enumerate(context.get("supplementalGroups") or ()):
        causes += _check_id(group, f"{path}.supplementalGroups[{position}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.append(invalid(f"{path}.shareProcessNamespace", True, detail))
    policy = context.get("fsGroupChangePolicy")
    if policy not in (None, "Always", "OnRootMismatch"):
        causes.append(not_supported(f"{path}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch")))
    return causes + check_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")


# Probes and hooks


def check_probes(container: Obj, grace: int | None, path: str) -> list[Cause]:
    """Lifecycle hooks and probes of a container that may have them."""
    causes: list[Cause] = []
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if lifecycle.get(hook) is not None:
            causes += _check_handler(lifecycle[hook], grace, f"{path}.lifecycle.{hook}")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is not None:
            causes += _check_probe(name, probe, grace, f"{path}.{name}")
    return causes


def _check_probe(name: str, probe: Obj, grace: int | None, path: str) -> list[Cause]:
    causes = _check_handler(probe, grace, path)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        causes += at_least_zero(f"{path}.{field}", probe.get(field))
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        causes.append(invalid(f"{path}.terminationGracePeriodSeconds", own_grace, "must be greater than 0"))
    if name == "readinessProbe":
        if own_grace is not None:
            detail = "must not be set for readinessProbes"
            causes.append(invalid(f"{path}.terminationGracePeriodSeconds", own_grace, detail))
    elif probe.get("successThreshold", 0) != 1:
        causes.append(invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return causes


def _check_handler(handler: Obj, grace: int | None, path: str) -> list[Cause]:
    causes: list[Cause] = []
    given = 0
    for kind in ("exec", "httpGet", "tcpSocket", "grpc", "sleep"):
        action = handler.get(kind)
        if action is None:
            continue
        given += 1
        if given > 1:
            causes.append(forbidden(f"{path}.{kind}", "may not specify more than 1 handler type"))
        else:
            causes += _check_action(kind, action, grace, f"{path}.{kind}")
    if not given:
        causes.append(required(path, "must specify a handler type"))
    return causes


def _check_action(kind: str, action: Obj, grace: int | None, path: str) -> list[Cause]:
    if kind == "exec":
        return [] if action.get("command") else [required(f"{path}.command")]
    if kind == "httpGet":
        return _check_http_get(action, path)
    if kind == "sleep":
        seconds = action.get("seconds") or 0
        if grace is None or 0 <= seconds <= grace:
            return []
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        return [invalid(path, seconds, detail)]
    return check_port_number_or_name(action.get("port", 0), f"{path}.port")


def _check_http_get(action: Obj, path: str) -> list[Cause]:
    causes = [] if action.get("path") else [required(f"{path}.path")]
    causes += check_port_number_or_name(action.get("port", 0), f"{path}.port")
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        causes.append(not_supported(f"{path}.scheme", action.get("scheme") or "", ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        causes += check_all(f"{path}.httpHeaders", name, names.check_header_name(name))
    return causes


def check_port_number_or_name(port: int | str, path: str) -> list[Cause]:
    """A port given by number or by name."""
    complaints = names.check_port_name(port) if isinstance(port, str) else names.check_port_number(port)
    return check_all(path, port, complaints)
