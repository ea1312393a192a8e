"""Rules for addresses and for the kinds that are made of them: Endpoints, EndpointSlices, NetworkPolicies, Ingresses."""

from __future__ import annotations

import ipaddress

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of
from corral.core.validation import (
    check_label_selector,
    check_metadata,
    check_metadata_update,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    too_many,
)  # fmt: skip
from corral.kinds.kubernetes.pods.container_rules import PROTOCOLS, check_choice
from corral.kinds.kubernetes.pods.downward_rules import check_all
from corral.kinds.machinery import go_struct_text as internal

_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def check_cidr(network: str, path: str) -> list[Cause]:
    """A network in CIDR notation."""
    try:
        ipaddress.ip_interface(network)
    except ValueError:
        return [invalid(path, network, _CIDR)]
    return [] if "/" in network else [invalid(path, network, _CIDR)]


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None


def _is_embedded_pod(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Pods of embedded clusters have loopback addresses of their own, 127.64.0.0 and above; traffic can be sent there."""
    return address.version == 4 and address >= ipaddress.IPv4Address("127.64.0.0")


def check_endpoint_ip(address: str, path: str) -> list[Cause]:
    """An address traffic can be sent to."""
    parsed = _parse(address)
    if parsed is None:
        return [invalid(path, address, "must be a valid IP address")]
    causes: list[Cause] = []
    if parsed.is_unspecified:
        causes.append(invalid(path, address, f"may not be unspecified ({address})"))
    if parsed.is_loopback and not _is_embedded_pod(parsed):
        causes.append(invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if parsed.is_link_local:
        causes.append(invalid(path, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    return causes


# Endpoints


def default_endpoints(endpoints: Obj) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def check_endpoints(endpoints: Obj) -> list[Cause]:
    causes: list[Cause] = []
    for position, subset in enumerate(endpoints.get("subsets") or ()):
        where = f"subsets[{position}]"
        fields = ("addresses", "notReadyAddresses")
        if not any(subset.get(field) for field in fields):
            causes.append(required(where, "must specify `addresses` or `notReadyAddresses`"))
        for field in fields:
            for index, address in enumerate(subset.get(field) or ()):
                causes += _check_address(address, f"{where}.{field}[{index}]")
        ports = subset.get("ports") or ()
        for index, port in enumerate(ports):
            causes += _check_port(port, f"{where}.ports[{index}]", needs_name=len(ports) > 1)
    return causes


def _check_address(address: Obj, path: str) -> list[Cause]:
    ip, host, node = address.get("ip") or "", address.get("hostname") or "", address.get("nodeName")
    causes = [] if _parse(ip) is not None else [invalid(f"{path}.ip", ip, _IP)]
    if host:
        causes += check_all(f"{path}.hostname", host, names.check_label(host))
    if node is not None:
        causes += check_all(f"{path}.nodeName", node, names.check_subdomain(node))
    return causes + check_endpoint_ip(ip, f"{path}.ip")


def _check_port(port: Obj, path: str, *, needs_name: bool) -> list[Cause]:
    name = port.get("name") or ""
    causes = [required(f"{path}.name")] if needs_name and not name else []
    if name:
        causes += check_all(f"{path}.name", name, names.check_label(name))
    number = port.get("port") or 0
    causes += check_all(f"{path}.port", number, names.check_port_number(number))
    causes += check_choice(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    return causes + _check_app_protocol(port, path)


def _check_app_protocol(port: Obj, path: str) -> list[Cause]:
    protocol = port.get("appProtocol")
    if protocol is None:
        return []
    return check_all(f"{path}.appProtocol", protocol, names.check_qualified_name(protocol))


def check_endpoints_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += check_metadata(new["metadata"], namespaced=True)
    return causes if new.get("subsets") == old.get("subsets") else causes + check_endpoints(new)


# EndpointSlices

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


def default_slice(endpoint_slice: Obj) -> None:
    for port in endpoint_slice.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def check_slice(endpoint_slice: Obj) -> list[Cause]:
    kind = endpoint_slice.get("addressType") or ""
    causes = check_choice("addressType", kind, _ADDRESS_TYPES)
    endpoints = endpoint_slice.get("endpoints") or []
    if len(endpoints) > 1000:
        causes.append(too_many("endpoints", len(endpoints), 1000))
    for position, endpoint in enumerate(endpoints):
        causes += _check_endpoint(endpoint, kind, f"endpoints[{position}]")
    return causes + _check_slice_ports(endpoint_slice.get("ports") or [])


def _check_endpoint(endpoint: Obj, kind: str, path: str) -> list[Cause]:
    addresses = endpoint.get("addresses") or []
    causes: list[Cause] = []
    if not addresses:
        causes.append(required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > 100:
        causes.append(too_many(f"{path}.addresses", len(addresses), 100))
    for position, address in enumerate(addresses):
        causes += _check_slice_address(address, kind, f"{path}.addresses[{position}]")
    host = endpoint.get("hostname")
    if host is not None:
        causes += check_all(f"{path}.hostname", host, names.check_label(host))
    node = endpoint.get("nodeName")
    if node is not None:
        causes += check_all(f"{path}.nodeName", node, names.check_subdomain(node))
    return causes


def _check_slice_address(address: str, kind: str, path: str) -> list[Cause]:
    if kind == "FQDN":
        return check_all(path, address, names.check_subdomain(address))
    if kind not in ("IPv4", "IPv6"):
        return []
    parsed = _parse(address)
    if parsed is None:
        return [invalid(path, address, _IP)]
    causes = [] if parsed.version == int(kind[-1]) else [invalid(path, address, f"must be a valid {kind} address")]
    return causes + check_endpoint_ip(address, path)


def _check_slice_ports(ports: list[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    if len(ports) > 20000:
        return [too_many("ports", len(ports), 20000)]
    seen: set[str] = set()
    for position, port in enumerate(ports):
        where, name = f"ports[{position}]", port.get("name") or ""
        if name:
            causes += check_all(f"{where}.name", name, names.check_label(name))
        if name in seen:
            causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{where}.name"))
        seen.add(name)
        if port.get("protocol") not in PROTOCOLS:
            causes.append(not_supported(f"{where}.protocol", port.get("protocol") or "", PROTOCOLS))
        causes += _check_app_protocol(port, where)
    return causes


def check_slice_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += check_slice(new)
    return causes + immutable("addressType", new.get("addressType"), old.get("addressType"))


# NetworkPolicies


def default_network_policy(policy: Obj) -> None:
    spec = policy.setdefault("spec", {})
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def check_network_policy(policy: Obj) -> list[Cause]:
    spec = spec_of(policy)
    causes = check_label_selector("spec.podSelector", spec.get("podSelector"))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for position, rule in enumerate(spec.get(direction) or ()):
            where = f"spec.{direction}[{position}]"
            for index, port in enumerate(rule.get("ports") or ()):
                causes += _check_policy_port(port, f"{where}.ports[{index}]")
            for index, peer in enumerate(rule.get(peers) or ()):
                causes += _check_peer(peer, f"{where}.{peers}[{index}]")
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        causes.append(
            Cause("FieldValueInvalid", "Invalid value: may not specify more than two policyTypes", "spec.policyTypes")
        )
        return causes
    for position, kind in enumerate(types):
        if kind not in ("Egress", "Ingress"):
            causes.append(not_supported(f"spec.policyTypes[{position}]", kind, ("Egress", "Ingress")))
    return causes


def _check_policy_port(port: Obj, path: str) -> list[Cause]:
    number, end = port.get("port"), port.get("endPort")
    causes: list[Cause] = []
    if port.get("protocol") not in (None, *PROTOCOLS):
        causes.append(not_supported(f"{path}.protocol", port["protocol"], ("TCP", "UDP", "SCTP")))
    if isinstance(number, int):
        causes += check_all(f"{path}.port", number, names.check_port_number(number))
        if end is not None:
            if end < number:
                detail = "must be greater than or equal to `port`"
                causes.append(invalid(f"{path}.endPort", end, detail))
            causes += check_all(f"{path}.endPort", end, names.check_port_number(end))
    elif isinstance(number, str):
        if end is not None:
            causes.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
        causes += check_all(f"{path}.port", number, names.check_port_name(number))
    elif end is not None:
        causes.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified"))
    return causes


def _check_peer(peer: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    given = 0
    for field in ("podSelector", "namespaceSelector"):
        if peer.get(field) is not None:
            given += 1
            causes += check_label_selector(f"{path}.{field}", peer[field])
    block = peer.get("ipBlock")
    if block is not None:
        given += 1
        causes += _check_block(block, f"{path}.ipBlock")
    if not given:
        causes.append(required(path, "must specify a peer"))
    elif given > 1 and block is not None:
        causes.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return causes


def _check_block(block: Obj, path: str) -> list[Cause]:
    network = block.get("cidr") or ""
    if not network:
        return [required(f"{path}.cidr")]
    causes = check_cidr(network, f"{path}.cidr")
    if causes:
        return causes
    outer = ipaddress.ip_network(network, strict=False)
    for position, part in enumerate(block.get("except") or ()):
        where = f"{path}.except[{position}]"
        wrong = check_cidr(part, where)
        inner = None if wrong else ipaddress.ip_network(part, strict=False)
        if inner is not None and (inner.version != outer.version or not _inside(inner, outer)):
            wrong = [invalid(where, part, "must be a strict subset of `cidr`")]
        causes += wrong
    return causes


def _inside(
    inner: ipaddress.IPv4Network | ipaddress.IPv6Network, outer: ipaddress.IPv4Network | ipaddress.IPv6Network
) -> bool:
    return inner.prefixlen > outer.prefixlen and inner.network_address in outer


def check_network_policy_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata(new["metadata"], namespaced=True) + check_network_policy(new)
    causes += check_metadata_update(new["metadata"], old["metadata"])
    return causes + check_network_policy(new)


# Ingresses


def check_ingress(ingress: Obj) -> list[Cause]:
    spec = spec_of(ingress)
    causes: list[Cause] = []
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        detail = "either `defaultBackend` or `rules` must be specified"
        types = ("[]networking.IngressRule", "[]networking/v1.IngressRule")
        causes.append(internal.invalid("spec", *types, spec.get("rules"), detail))
    if spec.get("defaultBackend") is not None:
        causes += _check_backend(spec["defaultBackend"], "spec.defaultBackend")
    for position, rule in enumerate(spec.get("rules") or ()):
        causes += _check_ingress_rule(rule, f"spec.rules[{position}]")
    for position, entry in enumerate(spec.get("tls") or ()):
        for index, host in enumerate(entry.get("hosts") or ()):
            causes += _check_host(host, f"spec.tls[{position}].hosts[{index}]")
        secret = entry.get("secretName") or ""
        if secret:
            causes += check_all(f"spec.tls[{position}].secretName", secret, names.check_subdomain(secret))
    name = spec.get("ingressClassName")
    if name is not None:
        causes += check_all("spec.ingressClassName", name, names.check_subdomain(name))
    return causes


def _check_host(host: str, path: str) -> list[Cause]:
    if host.startswith("*."):
        rest = names.check_subdomain(host[2:])
        if not rest:
            return []
        rule = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        pattern = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
        return [invalid(path, host, names.regex_message(rule, pattern, "*.example.com"))]
    return check_all(path, host, names.check_subdomain(host))


def _check_ingress_rule(rule: Obj, path: str) -> list[Cause]:
    host = rule.get("host") or ""
    causes: list[Cause] = []
    if host:
        if _parse(host) is not None:
            causes.append(invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
        causes += _check_host(host, f"{path}.host")
    http = rule.get("http")
    if http is None:
        return causes
    paths = http.get("paths") or []
    if not paths:
        causes.append(required(f"{path}.http.paths"))
    for position, entry in enumerate(paths):
        causes += _check_path(entry, f"{path}.http.paths[{position}]")
    return causes


_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDINGS = ("/..", "/.")


def _check_path(entry: Obj, path: str) -> list[Cause]:
    kind, target = entry.get("pathType"), entry.get("path") or ""
    types = ("Exact", "ImplementationSpecific", "Prefix")
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    if kind not in types:
        causes = [not_supported(f"{path}.pathType", kind, types)]
    else:
        causes = _check_target(kind, target, f"{path}.path")
    return causes + _check_backend(entry.get("backend") or {}, f"{path}.backend")


def _check_target(kind: str, target: str, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if kind == "ImplementationSpecific":
        if target and not target.startswith("/"):
            causes.append(invalid(path, target, "must be an absolute path"))
        return causes
    if not target.startswith("/"):
        causes.append(invalid(path, target, "must be an absolute path"))
    if target:
        causes += [invalid(path, target, f"must not contain '{part}'") for part in _BAD_SEQUENCES if part in target]
        causes += [invalid(path, target, f"cannot end with '{end}'") for end in _BAD_ENDINGS if target.endswith(end)]
    return causes


def _check_backend(backend: Obj, path: str) -> list[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    causes: list[Cause] = []
    if service is not None and resource is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        causes += [required(f"{path}.resource.{field}") for field in ("kind", "name") if not resource.get(field)]
        return causes
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    return causes + _check_service_backend(service, path)


def _check_service_backend(service: Obj, path: str) -> list[Cause]:
    name, port = service.get("name") or "", service.get("port") or {}
    causes = check_all(f"{path}.service.name", name, names.check_label_1035(name)) if name else []
    if not name:
        causes.append(required(f"{path}.service.name"))
    label, number = port.get("name") or "", port.get("number") or 0
    if label and number:
        causes.append(invalid(path, "", "cannot set both port name & port number"))
    elif label:
        causes += check_all(f"{path}.service.port.name", label, names.check_port_name(label))
    elif number:
        causes += check_all(f"{path}.service.port.number", number, names.check_port_number(number))
    else:
        causes.append(required(path, "port name or number is required"))
    return causes


def check_ingress_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    return causes + check_metadata(new["metadata"], namespaced=True) + check_ingress(new)
