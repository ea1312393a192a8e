"""A DaemonSet's pods: one on every node that may have one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corral.core.meta import Obj, generation_of, is_deleting, labels_of, name_of, spec_of
from corral.core.whole_numbers import whole_number
from corral.decide.apps.replicaset import pod_from_template
from corral.decide.pods.facts import is_available, is_ready, phase_of

REVISION = "controller-revision-hash"

# A daemon belongs to its node: it stays while the node is in trouble.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


@dataclass(frozen=True, slots=True)
class DaemonPlan:
    create: tuple[Obj, ...] = ()
    delete: tuple[Obj, ...] = ()


def _tolerates(tolerations: Sequence[Obj], taint: Obj) -> bool:
    for entry in tolerations:
        if entry.get("effect") and entry["effect"] != taint.get("effect"):
            continue
        if not entry.get("key") and entry.get("operator") == "Exists":
            return True
        if entry.get("key") != taint.get("key"):
            continue
        if entry.get("operator") == "Exists" or (entry.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def may_run_on(template: Obj, node: Obj) -> bool:
    """Whether a node is one a daemon belongs on: its selector matches and no taint keeps it away."""
    spec = template.get("spec") or {}
    wanted = spec.get("nodeSelector") or {}
    if not wanted.items() <= labels_of(node).items():
        return False
    if not _matches_affinity(spec, node):
        return False
    own = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    tolerations = [*(spec.get("tolerations") or ()), *own]
    taints = spec_of(node).get("taints") or ()
    return all(_tolerates(tolerations, taint) for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute"))


def _matches_affinity(spec: Obj, node: Obj) -> bool:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_matches_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def _matches_term(term: Obj, node: Obj) -> bool:
    labels, names = labels_of(node), {"metadata.name": name_of(node)}
    checks = [(entry, labels) for entry in term.get("matchExpressions") or ()]
    checks += [(entry, names) for entry in term.get("matchFields") or ()]
    return bool(checks) and all(_matches_expression(entry, source) for entry, source in checks)


def _matches_expression(entry: Obj, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(entry["key"]), entry.get("values") or []
    match entry["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return (number := whole_number(value or "")) is not None and number > int(values[0])
        case _:
            return (number := whole_number(value or "")) is not None and number < int(values[0])


def _node_of(pod: Obj) -> str:
    """The node a daemon is bound to, or meant for before it is."""
    spec = spec_of(pod)
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for entry in term.get("matchFields") or ():
            if entry.get("key") == "metadata.name" and entry.get("values"):
                return str(entry["values"][0])
    return ""


def _daemon(daemon_set: Obj, revision: str, node: Obj) -> Obj:
    pod = pod_from_template(
        daemon_set, spec_of(daemon_set).get("template") or {}, generateName=f"{name_of(daemon_set)}-"
    )
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name_of(node)]}]}
    affinity = dict(pod["spec"].get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [pin]}
    own = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    pod["spec"] = {
        **pod["spec"],
        "affinity": {**affinity, "nodeAffinity": node_affinity},
        "tolerations": [*(pod["spec"].get("tolerations") or ()), *own],
    }
    pod["metadata"] = {**pod["metadata"], "labels": {**(pod["metadata"].get("labels") or {}), REVISION: revision}}
    return pod


def by_node(pods: Sequence[Obj]) -> dict[str, list[Obj]]:
    found: dict[str, list[Obj]] = {}
    for pod in pods:
        found.setdefault(_node_of(pod), []).append(pod)
    return found


def plan_daemons(daemon_set: Obj, pods: Sequence[Obj], nodes: Sequence[Obj], revision: str, now: float) -> DaemonPlan:
    """Daemons to make and to delete: on nodes that lack one, on nodes that may not have one, and outdated ones."""
    if is_deleting(daemon_set):
        return DaemonPlan()
    template = spec_of(daemon_set).get("template") or {}
    eligible = {name_of(node): node for node in nodes if may_run_on(template, node)}
    placed = by_node(pods)
    create: list[Obj] = []
    delete: list[Obj] = []
    for node in sorted(eligible):
        there = placed.get(node, [])
        ended = [pod for pod in there if phase_of(pod) in ("Failed", "Succeeded") and not is_deleting(pod)]
        delete += ended
        if not there:
            create.append(_daemon(daemon_set, revision, eligible[node]))
        delete += sorted((pod for pod in there if pod not in ended and not is_deleting(pod)), key=name_of)[1:]
    for node in sorted(placed):
        if node not in eligible:
            delete += [pod for pod in placed[node] if not is_deleting(pod)]
    if not create and not delete:
        delete = _outdated(daemon_set, pods, len(eligible), revision, now)
    return DaemonPlan(tuple(create), tuple(delete))


def _outdated(daemon_set: Obj, pods: Sequence[Obj], wanted: int, revision: str, now: float) -> list[Obj]:
    """Outdated daemons that may go now without more than maxUnavailable nodes being without one."""
    strategy = spec_of(daemon_set).get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return []
    limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
    text = str(limit)
    allowed = -(-int(text[:-1]) * wanted // 100) if text.endswith("%") else int(text)
    minimum = float(spec_of(daemon_set).get("minReadySeconds") or 0)
    missing = wanted - sum(is_available(pod, minimum, now) and not is_deleting(pod) for pod in pods)
    old = [pod for pod in pods if labels_of(pod).get(REVISION) != revision and not is_deleting(pod)]
    idle = [pod for pod in old if not is_available(pod, minimum, now)]
    rest = [pod for pod in old if is_available(pod, minimum, now)]
    return idle + rest[: max(0, max(1, allowed) - missing)]


def daemon_status(daemon_set: Obj, pods: Sequence[Obj], nodes: Sequence[Obj], revision: str, now: float) -> Obj:
    template = spec_of(daemon_set).get("template") or {}
    eligible = {name_of(node) for node in nodes if may_run_on(template, node)}
    minimum = float(spec_of(daemon_set).get("minReadySeconds") or 0)
    placed = by_node(pods)
    right = [pod for node in sorted(placed) if node in eligible for pod in placed[node][:1]]
    ready = sum(is_ready(pod) for pod in right)
    available = sum(is_available(pod, minimum, now) for pod in right)
    updated = sum(labels_of(pod).get(REVISION) == revision for pod in right)
    counts = {
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": len(eligible) - available,
    }
    return {
        "currentNumberScheduled": len(right),
        "numberMisscheduled": sum(len(placed[node]) for node in placed if node not in eligible),
        "desiredNumberScheduled": len(eligible),
        "numberReady": ready,
        "observedGeneration": generation_of(daemon_set),
        **{name: count for name, count in counts.items() if count},
    }
