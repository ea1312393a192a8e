"""networking.k8s.io/v1: Ingress, IngressClass, NetworkPolicy, IPAddress, ServiceCIDR."""

from __future__ import annotations

from corral.core.meta import Obj, spec_of, status_of
from corral.kinds.kubernetes.networking import rules as network_rules
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import AGE, NAME, NONE, format_selector, text

GROUP = "networking.k8s.io"


def _hosts(ingress: Obj, now: float) -> Cell:
    rules = spec_of(ingress).get("rules") or ()
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    shown = ",".join(hosts[:3]) or "*"
    return f"{shown} + {len(rules) - 3} more..." if len(rules) > 3 and len(hosts) >= 3 else shown


def _address(ingress: Obj, now: float) -> Cell:
    found = (status_of(ingress).get("loadBalancer") or {}).get("ingress") or ()
    return ",".join(entry.get("ip") or entry.get("hostname") or "" for entry in found)


def _parameters(ingress_class: Obj, now: float) -> Cell:
    found = spec_of(ingress_class).get("parameters")
    if found is None:
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


INGRESS_CLASS = kind(
    "networking.v1.IngressClass",
    "ingressclasses",
    group=GROUP,
    namespaced=False,
    columns=(NAME, Column("Controller", cell=text(".spec.controller")), Column("Parameters", cell=_parameters), AGE),
    has_generation=True,
)
INGRESS = kind(
    "networking.v1.Ingress",
    "ingresses",
    group=GROUP,
    short_names=("ing",),
    validate=network_rules.check_ingress,
    validate_update=network_rules.check_ingress_update,
    columns=(
        NAME,
        Column("Class", cell=text(".spec.ingressClassName", NONE)),
        Column("Hosts", cell=_hosts),
        Column("Address", cell=_address),
        Column("Ports", cell=lambda obj, now: "80, 443" if spec_of(obj).get("tls") else "80"),
        AGE,
    ),
    status=True,
    has_generation=True,
)
IP_ADDRESS = kind("networking.v1.IPAddress", "ipaddresses", group=GROUP, namespaced=False, short_names=("ip",))
NETWORK_POLICY = kind(
    "networking.v1.NetworkPolicy",
    "networkpolicies",
    group=GROUP,
    short_names=("netpol",),
    default=network_rules.default_network_policy,
    validate=network_rules.check_network_policy,
    validate_update=network_rules.check_network_policy_update,
    columns=(
        NAME,
        Column("Pod-Selector", cell=lambda obj, now: format_selector(spec_of(obj).get("podSelector"))),
        AGE,
    ),
    has_generation=True,
)
SERVICE_CIDR = kind("networking.v1.ServiceCIDR", "servicecidrs", group=GROUP, namespaced=False, status=True)

KINDS = (INGRESS_CLASS, INGRESS, IP_ADDRESS, NETWORK_POLICY, SERVICE_CIDR)
