"""The environment and command line of a container: literal values, references, the downward API, `$(NAME)` expansion.

Pure: ConfigMaps, Secrets and Services come in as a `Sources`; what is missing is a `MissingError` in the kubelet's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corral.core.meta import Obj, annotations_of, labels_of, metadata_of, name_of, namespace_of, spec_of
from corral.core.quantity import milli, value

_REFERENCE = re.compile(r"\$(?:\$|\(([^()$]*)\))")
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['(.*)'\]$")
_NOT_IN_NAMES = re.compile(r"[-.]")


class MissingError(Exception):
    """Something the container needs does not exist; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a pod's environment and volumes may refer to in its namespace."""

    config_maps: Mapping[str, Obj] = field(default_factory=dict)
    secrets: Mapping[str, Obj] = field(default_factory=dict)
    services: Sequence[Obj] = ()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the node knows about the pod and the API does not, or not yet."""

    address: str
    host_address: str
    node: str
    allocatable: Mapping[str, str] = field(default_factory=dict)
    api_host: str = ""
    api_port: str = ""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value; unknown names stay, `$$` is a dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def container_environment(pod: Obj, container: Obj, sources: Sources, facts: NodeFacts) -> dict[str, str]:
    """All variables of a container, in the order a kubelet adds them: services, envFrom, env."""
    variables = service_variables(pod, sources, facts)
    for source in container.get("envFrom") or ():
        variables.update(_imported(source, sources, namespace_of(pod)))
    for entry in container.get("env") or ():
        variables[entry["name"]] = _value(entry, pod, container, sources, facts, variables)
    return variables


def command_line(container: Obj, variables: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The container's command and args with variables expanded; either may be empty."""
    command = [expand(part, variables) for part in container.get("command") or ()]
    return command, [expand(part, variables) for part in container.get("args") or ()]


# References


def _imported(source: Obj, sources: Sources, namespace: str) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    if reference := source.get("configMapRef"):
        data = _config_map(reference, sources, namespace)
    elif reference := source.get("secretRef"):
        data = _secret(reference, sources, namespace)
    else:
        data = None
    return {prefix + key: text for key, text in (data or {}).items()}


def _config_map(reference: Obj, sources: Sources, namespace: str) -> dict[str, str] | None:
    found = sources.config_maps.get(reference["name"])
    if found is None and not reference.get("optional"):
        raise MissingError(f'configmap "{reference["name"]}" not found')
    return dict(found.get("data") or {}) if found is not None else None


def _secret(reference: Obj, sources: Sources, namespace: str) -> dict[str, str] | None:
    found = sources.secrets.get(reference["name"])
    if found is None and not reference.get("optional"):
        raise MissingError(f'secret "{reference["name"]}" not found')
    return {key: data.decode(errors="replace") for key, data in secret_data(found).items()} if found else None


def secret_data(secret: Obj) -> dict[str, bytes]:
    """The decoded content of a Secret."""
    import base64

    return {key: base64.b64decode(text) for key, text in (secret.get("data") or {}).items()}


def _value(
    entry: Obj, pod: Obj, container: Obj, sources: Sources, facts: NodeFacts, variables: Mapping[str, str]
) -> str:
    source = entry.get("valueFrom")
    if not source:
        return expand(str(entry.get("value") or ""), variables)
    if reference := source.get("fieldRef"):
        return field_value(pod, reference["fieldPath"], facts)
    if reference := source.get("resourceFieldRef"):
        return resource_value(pod, container, reference, facts)
    namespace = namespace_of(pod)
    if reference := source.get("configMapKeyRef"):
        data, kind = _config_map(reference, sources, namespace), "ConfigMap"
    elif reference := source.get("secretKeyRef"):
        data, kind = _secret(reference, sources, namespace), "Secret"
    else:
        return ""
    if data is None:
        return ""
    if reference["key"] not in data:
        if reference.get("optional"):
            return ""
        raise MissingError(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}")
    return data[reference["key"]]


# Downward API


def field_value(pod: Obj, path: str, facts: NodeFacts) -> str:
    """The value a `fieldRef` stands for."""
    if subscript := _SUBSCRIPT.match(path):
        return (labels_of if subscript[1] == "labels" else annotations_of)(pod).get(subscript[2], "")
    spec = spec_of(pod)
    simple = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": str(metadata_of(pod).get("uid", "")),
        "spec.nodeName": facts.node,
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": facts.host_address,
        "status.hostIPs": facts.host_address,
        "status.podIP": facts.address,
        "status.podIPs": facts.address,
    }
    if path in simple:
        return str(simple[path])
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = (labels_of if path.endswith("labels") else annotations_of)(pod)
        return "\n".join(f'{key}="{_quoted(pairs[key])}"' for key in sorted(pairs))
    raise MissingError(f"unsupported fieldPath: {path}")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_value(pod: Obj, container: Obj, reference: Obj, facts: NodeFacts) -> str:
    """The value a `resourceFieldRef` stands for: a request or limit in units of its divisor, rounded up."""
    name = reference.get("containerName") or container.get("name")
    containers = [*(spec_of(pod).get("containers") or ()), *(spec_of(pod).get("initContainers") or ())]
    subject = next((entry for entry in containers if entry["name"] == name), container)
    section, _, resource = reference["resource"].partition(".")
    amounts = (subject.get("resources") or {}).get(section) or {}
    amount = amounts.get(resource)
    if amount is None and section == "limits":
        amount = facts.allocatable.get(resource)
    amount = amount if amount is not None else "0"
    divisor = str(reference.get("divisor") or "1")
    if divisor == "0":
        divisor = "1"
    if resource == "cpu":
        return str(-(-milli(amount) // max(milli(divisor), 1)))
    return str(-(-value(amount) // max(value(divisor), 1)))


# Services


def service_variables(pod: Obj, sources: Sources, facts: NodeFacts) -> dict[str, str]:
    """Where the API server is, and every Service of the namespace unless the pod does not want to know."""
    variables: dict[str, str] = {}
    if facts.api_host:
        variables.update(
            KUBERNETES_SERVICE_HOST=facts.api_host,
            KUBERNETES_SERVICE_PORT=facts.api_port,
            KUBERNETES_SERVICE_PORT_HTTPS=facts.api_port,
        )
    if spec_of(pod).get("enableServiceLinks") is False:
        return variables
    for service in sources.services:
        address = spec_of(service).get("clusterIP")
        ports = spec_of(service).get("ports") or []
        if name_of(service) == "kubernetes" or not address or address == "None" or not ports:
            continue
        variables.update(_service(name_of(service), address, ports))
    return variables


def _service(name: str, address: str, ports: Sequence[Obj]) -> dict[str, str]:
    prefix = _NOT_IN_NAMES.sub("_", name).upper()
    first = ports[0]
    protocol = str(first.get("protocol") or "TCP")
    variables = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(first["port"])}
    for port in ports:
        if port.get("name"):
            variables[f"{prefix}_SERVICE_PORT_{_NOT_IN_NAMES.sub('_', port['name']).upper()}"] = str(port["port"])
    variables[f"{prefix}_PORT"] = f"{protocol.lower()}://{address}:{first['port']}"
    for port in ports:
        protocol = str(port.get("protocol") or "TCP")
        base = f"{prefix}_PORT_{port['port']}_{protocol}"
        variables[base] = f"{protocol.lower()}://{address}:{port['port']}"
        variables[f"{base}_PROTO"] = protocol.lower()
        variables[f"{base}_PORT"] = str(port["port"])
        variables[f"{base}_ADDR"] = address
    return variables
