"""Choosing a node for a pod: filter, score, and when nothing fits, whom to ask to leave.

Pure over `NodeState`s, with kube-scheduler's words for why a pod has to wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corral.decide.pods.matching import (
    PORTS,
    PodRules,
    can_ever_hold,
    fixed_obstacle,
    has_ports,
    matches_term,
    shortages,
    tolerates,
)
from corral.decide.pods.workload import NodeState, PodView

ENOUGH_NODES = 100
"""In a large cluster the search ends when this many nodes would do."""
NO_CLAIMS = "no new claims to deallocate"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The pod goes to `node`."""

    node: str


@dataclass(frozen=True, slots=True)
class PreemptPods:
    """The pod can go to `node` once the victims have left."""

    node: str
    victims: tuple[PodView, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Unschedulable:
    message: str


Decision = Chosen | PreemptPods | Unschedulable


def fixed_obstacles(pod: PodView, nodes: Iterable[NodeState]) -> Mapping[str, str]:
    """The nodes that are out of the question for `pod` and all of its shape, until a node changes; with the reason."""
    found = ((node.name, fixed_obstacle(pod, node)) for node in nodes)
    return {name: reason for name, reason in found if reason is not None}


def schedule(
    pod: PodView,
    nodes: Sequence[NodeState],
    fixed: Mapping[str, str] | None = None,
    *,
    others_have_rules: bool = False,
    offset: int = 0,
) -> Decision:
    """Find a node for `pod`.

    `fixed` is what `fixed_obstacles` returned for a pod of this shape, if that is known. `offset` is where to begin the
    search, so that all nodes get their turn.
    """
    if not nodes:
        return Unschedulable("no nodes available to schedule pods")
    fixed = fixed_obstacles(pod, nodes) if fixed is None else fixed
    rules = PodRules(pod, nodes, others_have_rules)
    feasible: list[NodeState] = []
    reasons: dict[str, list[str]] = {}
    for index in range(len(nodes)):
        node = nodes[(index + offset) % len(nodes)]
        obstacle = fixed.get(node.name)
        found = [obstacle] if obstacle is not None else obstacles(pod, node, rules)
        if found:
            reasons[node.name] = found
        else:
            feasible.append(node)
            if len(feasible) >= ENOUGH_NODES:
                break
    if feasible:
        return Chosen(min(feasible, key=lambda node: (-score(pod, node), node.name)).name)
    return _without_room(pod, nodes, fixed, reasons, others_have_rules)


def obstacles(pod: PodView, node: NodeState, rules: PodRules) -> list[str]:
    """Why `pod` cannot be on `node` now, which is not out of the question; empty when it can."""
    if not has_ports(pod, node):
        return [PORTS]
    missing = shortages(pod, node)
    if missing or rules.is_trivial:
        return missing
    between = rules.obstacle(node)
    return [between] if between is not None else []


# Scoring


def score(pod: PodView, node: NodeState) -> float:
    """Higher is better: free room, balance, preferences. The parts have kube-scheduler's weights."""
    total = _least_allocated(pod, node)
    preferred = (pod.affinity.get("nodeAffinity") or {}).get("preferredDuringSchedulingIgnoredDuringExecution")
    if preferred:
        weights = sum(entry["weight"] for entry in preferred if matches_term(entry.get("preference") or {}, node))
        total += 2.0 * weights
    if node.taints:
        tolerations = pod.spec.get("tolerations") or ()
        soft = [taint for taint in node.taints if taint.get("effect") == "PreferNoSchedule"]
        total -= 300.0 * sum(1 for taint in soft if not tolerates(tolerations, taint))
    return total


def _least_allocated(pod: PodView, node: NodeState) -> float:
    parts = []
    for name in ("cpu", "memory"):
        capacity = node.allocatable.get(name, 0)
        if capacity:
            free = capacity - node.used.get(name, 0) - pod.requests.get(name, 0)
            parts.append(100 * free / capacity)
    spread = -len(node.pods) * 1e-3  # pods without requests still go where fewer are
    return (sum(parts) / len(parts) if parts else 0.0) + spread


# Messages


def counted(reasons: Iterable[str], total: int) -> str:
    """Reasons with how many nodes gave them, as kube-scheduler prints them."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{total} nodes are available: {listed}."


def _message(reasons: dict[str, list[str]], preemption: str) -> str:
    listed = [reason for found in reasons.values() for reason in found]
    return f"{counted(listed, len(reasons))} {NO_CLAIMS}, preemption: {preemption}"


# Preemption


def _without_room(
    pod: PodView,
    nodes: Sequence[NodeState],
    fixed: Mapping[str, str],
    reasons: dict[str, list[str]],
    others_have_rules: bool,
) -> Decision:
    if not pod.may_preempt:
        return Unschedulable(_message(reasons, "not eligible due to preemptionPolicy=Never."))
    candidates: list[tuple[NodeState, tuple[PodView, ...]]] = []
    outcomes: list[str] = []
    for node in nodes:
        if node.name in fixed:
            outcomes.append(NOT_HELPFUL)
            continue
        victims = find_victims(pod, node, nodes, others_have_rules) if can_ever_hold(pod, node) else ()
        if victims:
            candidates.append((node, victims))
        else:
            outcomes.append(NO_VICTIMS)
    message = _message(reasons, counted(outcomes, len(nodes)))
    if not candidates:
        return Unschedulable(message)
    node, victims = min(candidates, key=_harm)
    return PreemptPods(node.name, victims, message)


def _harm(candidate: tuple[NodeState, tuple[PodView, ...]]) -> tuple[object, ...]:
    """Smaller is better: the least important, fewest and youngest victims."""
    node, victims = candidate
    highest = max(victim.priority for victim in victims)
    earliest = min(victim.started for victim in victims if victim.priority == highest)
    return highest, sum(victim.priority for victim in victims), len(victims), -earliest, node.name


def find_victims(
    pod: PodView, node: NodeState, nodes: Sequence[NodeState], others_have_rules: bool
) -> tuple[PodView, ...]:
    """The fewest, least important pods whose end makes room for `pod` on `node`; empty when there are none."""
    lower = [other for other in node.pods.values() if other.priority < pod.priority]
    if not lower:
        return ()
    trial = NodeState(
        node.name,
        node.labels,
        node.taints,
        node.allocatable,
        node.unschedulable,
        dict(node.used),
        dict(node.pods),
        node.nominated,
    )
    others = [trial if entry is node else entry for entry in nodes]

    def fits() -> bool:
        return not obstacles(pod, trial, PodRules(pod, others, others_have_rules))

    for other in lower:
        trial.remove(other.uid)
    if not fits():
        return ()
    victims = []
    for other in sorted(lower, key=lambda entry: (-entry.priority, entry.started, entry.key)):
        trial.add(other)
        if not fits():
            trial.remove(other.uid)
            victims.append(other)
    return tuple(victims)


def claim_not_found(name: str, nodes: int) -> str:
    """Why a pod whose claim is missing has no node: it is no node's fault, and nobody's leaving would help."""
    return (
        f'0/{nodes} nodes are available: persistentvolumeclaim "{name}" not found. '
        f"preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
    )
