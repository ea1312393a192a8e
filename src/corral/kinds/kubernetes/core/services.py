"""Services: defaults, the addresses and ports a cluster gives them, and their rules.

An embedded cluster has no network of its own to run out of, so addresses and node ports are derived from the Service's
uid: stable, the same in every replay, and as good as unique.
"""

from __future__ import annotations

import hashlib
import ipaddress

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of, status_of
from corral.core.validation import (
    check_labels,
    check_metadata_update,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)  # fmt: skip
from corral.kinds.kubernetes.pods.container_rules import PROTOCOLS, check_choice, check_port_number_or_name
from corral.kinds.kubernetes.pods.downward_rules import check_all
from corral.kinds.kubernetes.pods.rules import check_ip

_NETWORK = ipaddress.ip_network("10.96.0.0/12")
_NODE_PORTS = range(30000, 32768)
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_HEADLESS = "None"


def default_service(service: Obj) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", 10800)
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port") or 0
    kind = spec["type"]
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _digest(uid: str, salt: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{uid}/{salt}".encode()).digest()[:8], "big")


def prepare_service(service: Obj) -> None:
    """Give a new Service its address, families and node ports."""
    spec, uid = service["spec"], service["metadata"]["uid"]
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP"):
        offset = 256 + _digest(uid, "ip") % (_NETWORK.num_addresses - 512)
        spec["clusterIP"] = str(_NETWORK[offset])
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec["clusterIP"] == _HEADLESS and not spec.get("selector"):
        # nobody here knows what such a service leads to, so it may be either family
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack")
    spec.setdefault("ipFamilies", ["IPv6" if ":" in spec["clusterIP"] else "IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    _give_node_ports(spec, uid)


def _give_node_ports(spec: Obj, uid: str) -> None:
    if spec["type"] not in ("NodePort", "LoadBalancer") or spec.get("allocateLoadBalancerNodePorts") is False:
        return
    taken = {port.get("nodePort") for port in spec.get("ports") or ()}
    for position, port in enumerate(spec.get("ports") or ()):
        if not port.get("nodePort"):
            number = _NODE_PORTS[_digest(uid, f"port-{position}") % len(_NODE_PORTS)]
            while number in taken:
                number = number + 1 if number + 1 in _NODE_PORTS else _NODE_PORTS[0]
            port["nodePort"] = number
            taken.add(number)


def prepare_service_update(new: Obj, old: Obj) -> None:
    """Keep what was given to a Service when an update leaves it out."""
    spec, before = new["spec"], spec_of(old)
    if spec["type"] == "ExternalName" or before.get("type") == "ExternalName":
        if spec["type"] != "ExternalName":
            prepare_service(new)
        return
    if not spec.get("clusterIP"):
        for field in ("clusterIP", "clusterIPs"):
            if field in before:
                spec[field] = before[field]
    elif spec["clusterIP"] != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"], *(spec.get("clusterIPs") or [])[1:]]
    policy = spec.get("externalTrafficPolicy")
    if spec["type"] not in ("NodePort", "LoadBalancer") and policy == before.get("externalTrafficPolicy"):
        spec.pop("externalTrafficPolicy", None)  # left over from the type the service had
    for field in ("ipFamilies", "ipFamilyPolicy"):
        if field not in spec and field in before:
            spec[field] = before[field]
    known = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()}
    if spec["type"] in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or ():
            kept = known.get((port.get("protocol"), port.get("port")))
            if kept and not port.get("nodePort"):
                port["nodePort"] = kept
        _give_node_ports(spec, new["metadata"].get("uid") or "")
    elif before.get("type") in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or ():
            if port.get("nodePort") == known.get((port.get("protocol"), port.get("port"))):
                port.pop("nodePort", None)


def _is_headless(spec: Obj) -> bool:
    return bool((spec.get("clusterIPs") or [""])[0] == _HEADLESS)


def check_service(service: Obj) -> list[Cause]:
    spec = spec_of(service)
    ports, kind = spec.get("ports") or [], spec.get("type") or ""
    causes = _check_addresses(spec) if kind != "ExternalName" else []
    if causes:
        return causes  # addresses are looked at before anything else
    if not ports and not _is_headless(spec) and kind != "ExternalName":
        causes.append(required("spec.ports"))
    causes += _check_type_rules(spec, kind)
    seen: set[str] = set()
    for position, port in enumerate(ports):
        causes += _check_port(port, f"spec.ports[{position}]", len(ports) > 1, seen)
    causes += check_labels("spec.selector", spec.get("selector"))
    causes += check_choice("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    for position, address in enumerate(spec.get("externalIPs") or ()):
        causes += check_ip(address, f"spec.externalIPs[{position}]")
    causes += check_choice("spec.type", kind, _TYPES)
    causes += _check_port_sets(ports, kind)
    return causes + _check_policies(spec, kind)


def _check_type_rules(spec: Obj, kind: str) -> list[Cause]:
    if kind in ("LoadBalancer", "NodePort"):
        detail = f"may not be set to 'None' for {kind} services"
        return [invalid("spec.clusterIPs[0]", _HEADLESS, detail)] if _is_headless(spec) else []
    if kind != "ExternalName":
        return []
    detail = "may not be set for ExternalName services"
    causes = [forbidden(f"spec.{field}", detail) for field in ("clusterIPs", "ipFamilies") if spec.get(field)]
    if spec.get("ipFamilyPolicy") is not None:
        causes.append(forbidden("spec.ipFamilyPolicy", detail))
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        return [*causes, required("spec.externalName")]
    return causes + check_all("spec.externalName", name, names.check_subdomain(name))


def _check_port(port: Obj, path: str, needs_name: bool, seen: set[str]) -> list[Cause]:
    name = port.get("name") or ""
    causes: list[Cause] = []
    if needs_name and not name:
        causes.append(required(f"{path}.name"))
    elif name:
        causes += check_all(f"{path}.name", name, names.check_label(name))
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
    number = port.get("port") or 0
    causes += check_all(f"{path}.port", number, names.check_port_number(number))
    causes += check_choice(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    causes += check_port_number_or_name(port.get("targetPort", 0), f"{path}.targetPort")
    protocol = port.get("appProtocol")
    if protocol is not None:
        causes += check_all(f"{path}.appProtocol", protocol, names.check_qualified_name(protocol))
    return causes


def _check_addresses(spec: Obj) -> list[Cause]:
    single, many = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    causes: list[Cause] = []
    if single and many and many[0] != single:
        causes.append(invalid("spec.clusterIPs", many, "first value must match `clusterIP`"))
    elif not single and many:
        causes.append(invalid("spec.clusterIPs", many, "must be empty when `clusterIP` is not specified"))
    for position, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in ("IPv4", "IPv6"):
            causes.append(not_supported(f"spec.ipFamilies[{position}]", family, ("IPv4", "IPv6")))
    policies = ("PreferDualStack", "RequireDualStack", "SingleStack")
    if spec.get("ipFamilyPolicy") not in (None, *policies):
        causes.append(not_supported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], policies))
    for position, address in enumerate(many):
        if position == 0 and address == _HEADLESS:
            if len(many) > 1:
                causes.append(invalid("spec.clusterIPs", many, "'None' must be the first and only value"))
            continue
        causes += check_ip(address, f"spec.clusterIPs[{position}]")
    if len(many) > 2:
        causes.append(invalid("spec.clusterIPs", many, "may only hold up to 2 values"))
    return causes


def _check_port_sets(ports: list[Obj], kind: str) -> list[Cause]:
    causes: list[Cause] = []
    for position, port in enumerate(ports):
        if kind == "ClusterIP" and port.get("nodePort"):
            where = f"spec.ports[{position}].nodePort"
            causes.append(forbidden(where, "may not be used when `type` is 'ClusterIP'"))
    node_ports: set[tuple[object, object]] = set()
    for position, port in enumerate(ports):
        key = (port.get("protocol"), port.get("nodePort"))
        if port.get("nodePort") and key in node_ports:
            causes.append(duplicate(f"spec.ports[{position}].nodePort", port["nodePort"]))
        node_ports.add(key)
    numbers: set[tuple[object, object]] = set()
    for position, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in numbers:
            shown = {
                "Name": "", "Protocol": port.get("protocol"), "AppProtocol": None, "Port": port.get("port"),
                "TargetPort": 0, "NodePort": 0,
            }  # fmt: skip
            causes.append(duplicate(f"spec.ports[{position}]", shown))
        numbers.add(key)
    return causes


def _check_policies(spec: Obj, kind: str) -> list[Cause]:
    causes: list[Cause] = []
    balancer = "may only be used when `type` is 'LoadBalancer'"
    if spec.get("loadBalancerSourceRanges") and kind != "LoadBalancer":
        causes.append(forbidden("spec.LoadBalancerSourceRanges", balancer))
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        causes.append(forbidden("spec.allocateLoadBalancerNodePorts", balancer))
    if spec.get("loadBalancerClass") is not None and kind != "LoadBalancer":
        causes.append(forbidden("spec.loadBalancerClass", balancer))
    external = spec.get("externalTrafficPolicy") or ""
    reachable = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    if not reachable:
        if external:
            detail = "may only be set for externally-accessible services"
            causes.append(invalid("spec.externalTrafficPolicy", external, detail))
    else:
        causes += check_choice("spec.externalTrafficPolicy", external, ("Cluster", "Local"))
    internal = spec.get("internalTrafficPolicy")
    if internal not in (None, "Cluster", "Local"):
        causes.append(not_supported("spec.internalTrafficPolicy", internal, ("Cluster", "Local")))
    distribution = spec.get("trafficDistribution")
    if distribution not in (None, "PreferClose"):
        causes.append(not_supported("spec.trafficDistribution", distribution, ("PreferClose",)))
    return causes


def check_service_status(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    ingress = (status_of(new).get("loadBalancer") or {}).get("ingress")
    if ingress and spec_of(new).get("type") != "LoadBalancer":
        causes.append(forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'"))
    return causes


def check_service_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    spec, before = spec_of(new), spec_of(old)
    external = "ExternalName" in (spec.get("type"), before.get("type"))
    wrong = [] if external else _check_addresses(spec)
    if wrong:
        return wrong  # addresses are looked at before anything else
    now, then = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if not external and not (_is_headless(spec) and _is_headless(before)) and then:
        if not now:
            causes.append(invalid("spec.clusterIPs[0]", now or None, "primary clusterIP can not be unset"))
        for position, address in enumerate(then[: len(now)]):
            if now[position] != address:
                causes.append(invalid(f"spec.clusterIPs[{position}]", now, "may not change once set"))
    return causes + check_service(new)
