"""Whether a pod may be on a node: taints, node affinity, ports, resources, topology spread, pod affinity.

Each rule answers with the reason kube-scheduler would count, or None. Rules that no preemption can change come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from corral.core.meta import Obj
from corral.core.selectors import from_label_selector
from corral.decide.pods.workload import NodeState, PodView

UNSCHEDULABLE = "node(s) were unschedulable"
WRONG_NODE = "node(s) didn't match the requested node name"
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
POD_AFFINITY = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

Nodes = Sequence[NodeState]


def tolerates(tolerations: Iterable[Obj], taint: Obj) -> bool:
    """Whether one of the tolerations covers the taint."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        operator = toleration.get("operator") or "Equal"
        if operator == "Exists" or (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def fixed_obstacle(pod: PodView, node: NodeState) -> str | None:
    """A reason that only a change of the node or the pod can remove."""
    tolerations = pod.spec.get("tolerations") or ()
    if node.unschedulable and not tolerates(tolerations, _UNSCHEDULABLE_TAINT):
        return UNSCHEDULABLE
    if pod.spec.get("nodeName") and pod.spec["nodeName"] != node.name:
        return WRONG_NODE
    for taint in node.taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
    return None if matches_node(pod, node) else NODE_AFFINITY


# Node affinity


def matches_node(pod: PodView, node: NodeState) -> bool:
    """Node selector and required node affinity."""
    selector = pod.spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != wanted for key, wanted in selector.items()):
        return False
    required = (pod.affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(matches_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def matches_term(term: Obj, node: NodeState) -> bool:
    """One node selector term; an empty one matches nothing."""
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(entry, node.labels) for entry in expressions) and all(
        _holds(entry, {"metadata.name": node.name}) for entry in fields
    )


def _holds(requirement: Obj, labels: Mapping[str, str]) -> bool:
    value, operator = labels.get(requirement["key"]), requirement["operator"]
    values = requirement.get("values") or []
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    try:
        have, limit = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return have > limit if operator == "Gt" else have < limit


# Room


def shortages(pod: PodView, node: NodeState) -> list[str]:
    """Every resource of which the node has too little left."""
    pods, used = len(node.pods), node.used
    if node.nominated:
        rivals = [r for r in node.nominated.values() if r.uid != pod.uid and r.priority >= pod.priority]
        pods += len(rivals)
        used = dict(used)
        for rival in rivals:
            for name, amount in rival.requests.items():
                used[name] = used.get(name, 0) + amount
    found = ["Too many pods"] if pods + 1 > node.allocatable.get("pods", 110) else []
    for name, amount in pod.requests.items():
        if amount and amount > node.allocatable.get(name, 0) - used.get(name, 0):
            found.append(f"Insufficient {name}")
    return found


def can_ever_hold(pod: PodView, node: NodeState) -> bool:
    """Whether the node is large enough when empty."""
    return all(amount <= node.allocatable.get(name, 0) for name, amount in pod.requests.items() if amount)


def has_ports(pod: PodView, node: NodeState) -> bool:
    if not pod.ports:
        return True
    for other in node.pods.values():
        for address, protocol, port in other.ports:
            for my_address, my_protocol, my_port in pod.ports:
                same = address == my_address or "0.0.0.0" in (address, my_address)
                if same and protocol == my_protocol and port == my_port:
                    return False
    return True


# Rules between pods


class PodRules:
    """Topology spread and pod (anti-)affinity of one pod over all nodes; counted once, asked per node."""

    def __init__(self, pod: PodView, nodes: Nodes, others_have_rules: bool) -> None:
        self._pod = pod
        self._nodes = nodes
        affinity = pod.affinity
        self._wants = _terms(affinity, "podAffinity")
        self._avoids = _terms(affinity, "podAntiAffinity")
        constraints = pod.spec.get("topologySpreadConstraints") or ()
        self._spread = [entry for entry in constraints if entry.get("whenUnsatisfiable") != "ScheduleAnyway"]
        self._others_have_rules = others_have_rules
        self._counts: dict[int, dict[str, int]] = {}
        if self._spread:
            self._count_spread()
        self.is_trivial = not (self._wants or self._avoids or self._spread or others_have_rules)

    def obstacle(self, node: NodeState) -> str | None:
        for index, constraint in enumerate(self._spread):
            reason = self._spread_obstacle(node, constraint, self._counts[index])
            if reason is not None:
                return reason
        if self._others_have_rules and self._is_avoided(node):
            return OTHERS_ANTI_AFFINITY
        if any(self._count(term, node) > 0 for term in self._avoids):
            return POD_ANTI_AFFINITY
        if self._wants and not all(self._is_wanted(term, node) for term in self._wants):
            return POD_AFFINITY
        return None

    def _count_spread(self) -> None:
        eligible = [node for node in self._nodes if matches_node(self._pod, node)]
        for index, constraint in enumerate(self._spread):
            counts: dict[str, int] = {}
            selector = from_label_selector(_spread_selector(constraint, self._pod))
            for node in eligible:
                domain = node.labels.get(constraint["topologyKey"])
                if domain is not None:
                    counts[domain] = counts.get(domain, 0) + sum(
                        1
                        for other in node.pods.values()
                        if other.namespace == self._pod.namespace
                        and not other.is_deleting
                        and selector.matches(other.labels)
                    )
            self._counts[index] = counts

    def _spread_obstacle(self, node: NodeState, constraint: Obj, counts: Mapping[str, int]) -> str | None:
        domain = node.labels.get(constraint["topologyKey"])
        if domain is None:
            return SPREAD_LABEL
        least = min(counts.values(), default=0)
        if len(counts) < int(constraint.get("minDomains") or 1):
            least = 0
        itself = from_label_selector(_spread_selector(constraint, self._pod)).matches(self._pod.labels)
        skew = counts.get(domain, 0) + (1 if itself else 0) - least
        return SPREAD if skew > int(constraint.get("maxSkew") or 1) else None

    def _count(self, term: Obj, node: NodeState) -> int:
        """Pods that match `term` in the node's topology domain."""
        domain = node.labels.get(term["topologyKey"])
        if domain is None:
            return 0
        return sum(
            1
            for other_node in self._nodes
            if other_node.labels.get(term["topologyKey"]) == domain
            for other in other_node.pods.values()
            if _matches_term(term, self._pod, other)
        )

    def _is_wanted(self, term: Obj, node: NodeState) -> bool:
        if node.labels.get(term["topologyKey"]) is None:
            return False
        if self._count(term, node) > 0:
            return True
        # The first pod of a group that wants to be together would wait for itself for ever.
        matches_itself = _matches_term(term, self._pod, self._pod)
        return matches_itself and not any(
            _matches_term(term, self._pod, other) for other_node in self._nodes for other in other_node.pods.values()
        )

    def _is_avoided(self, node: NodeState) -> bool:
        for other_node in self._nodes:
            for other in other_node.pods.values():
                for term in _terms(other.affinity, "podAntiAffinity"):
                    domain = other_node.labels.get(term["topologyKey"])
                    same = domain is not None and node.labels.get(term["topologyKey"]) == domain
                    if same and _matches_term(term, other, self._pod):
                        return True
        return False


def has_anti_affinity(pod: PodView) -> bool:
    return bool(_terms(pod.affinity, "podAntiAffinity"))


def _terms(affinity: Obj, kind: str) -> Sequence[Obj]:
    return (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def _matches_term(term: Obj, owner: PodView, other: PodView) -> bool:
    namespaces = term.get("namespaces") or []
    everywhere = term.get("namespaceSelector") == {}
    if not everywhere and other.namespace not in (namespaces or [owner.namespace]):
        return False
    selector = _with_keys(term.get("labelSelector"), term.get("matchLabelKeys") or (), owner)
    return from_label_selector(selector).matches(other.labels)


def _spread_selector(constraint: Obj, pod: PodView) -> Obj | None:
    return _with_keys(constraint.get("labelSelector"), constraint.get("matchLabelKeys") or (), pod)


def _with_keys(selector: Obj | None, keys: Sequence[str], pod: PodView) -> Obj | None:
    if selector is None or not keys:
        return selector
    extra = {key: pod.labels[key] for key in keys if key in pod.labels}
    return {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **extra}}
