"""One scheduling cycle: which clusters a placement gets, which bindings that makes, reuses or withdraws, and why.

Existing picks are kept: nothing here moves a placement because another cluster has become better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Final, NamedTuple

from corral.core.conditions import condition
from corral.core.meta import Obj
from corral.decide.placement.bindings import BOUND, SCHEDULED, UNSCHEDULED, Binding
from corral.decide.placement.clusters import Cluster, SchedulingError
from corral.decide.placement.scores import (
    Preference,
    Score,
    go_taint,
    matches_term,
    required_terms,
    spread_score,
    spread_violation,
    spreads,
    untolerated,
)

PICK_ALL, PICK_N, PICK_FIXED = "PickAll", "PickN", "PickFixed"
MAX_DECISIONS: Final = 1000
MAX_UNSELECTED: Final = 20


@dataclass(frozen=True, slots=True)
class Classes:
    """Bindings of one placement by what the scheduler may do with them."""

    bound: list[Binding] = field(default_factory=list)
    scheduled: list[Binding] = field(default_factory=list)
    obsolete: list[Binding] = field(default_factory=list)
    unscheduled: list[Binding] = field(default_factory=list)
    dangling: list[Binding] = field(default_factory=list)
    deleting: list[Binding] = field(default_factory=list)


def classify(bindings: Sequence[Binding], snapshot: str, clusters: Mapping[str, Cluster]) -> Classes:
    """Sort bindings, which come ordered by name, into classes."""
    classes = Classes()
    for binding in bindings:
        cluster = clusters.get(binding.cluster)
        if binding.deleting:
            classes.deleting.append(binding)
        elif binding.state == UNSCHEDULED:
            classes.unscheduled.append(binding)
        elif cluster is None or cluster.leaving:
            classes.dangling.append(binding)
        elif binding.policy != snapshot:
            classes.obsolete.append(binding)
        elif binding.state == BOUND:
            classes.bound.append(binding)
        else:
            classes.scheduled.append(binding)
    return classes


class Reuse(NamedTuple):
    """A binding that is given to the current policy."""

    binding: Binding
    decision: Obj
    state: str


@dataclass(frozen=True, slots=True)
class Cycle:
    """What to do to the bindings, and what the policy snapshot says afterwards."""

    create: list[Obj]
    reuse: list[Reuse]
    withdraw: list[Binding]
    decisions: list[Obj]
    condition: Obj


class ClusterCandidate(NamedTuple):
    score: Score
    name: str


class Filtered(NamedTuple):
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Question:
    """Everything a cycle is decided from."""

    policy: Obj | None
    wanted: int
    """The number of clusters, for PickN."""
    clusters: Sequence[Cluster]
    """All members, ordered by name."""
    classes: Classes
    now: float
    namespace: str = ""
    """The namespace of a ResourcePlacement, whose clusters must have it."""
    avoid: frozenset[str] = frozenset()
    """Clusters that were tried and where jobs waited too long."""

    @property
    def kind(self) -> str:
        return str((self.policy or {}).get("placementType") or PICK_ALL)


def schedule(question: Question) -> Cycle:
    """Decide one cycle."""
    match question.kind:
        case "PickAll":
            return _pick_all(question)
        case "PickN":
            return _pick_n(question)
        case "PickFixed":
            return _pick_fixed(question)
    raise SchedulingError(f"unknown placement type {question.kind}")


# Decisions


def picked_reason(cluster: str, score: Score | None) -> str:
    scores = "" if score is None else f" (affinity score: {score.affinity}, topology spread score: {score.spread})"
    return f'Successfully scheduled resources for placement in "{cluster}"{scores}: picked by scheduling policy'


def picked(cluster: str, score: Score | None) -> Obj:
    decision: Obj = {"clusterName": cluster, "selected": True, "reason": picked_reason(cluster, score)}
    return decision if score is None else {**decision, "clusterScore": score.as_decision}


def _not_picked(candidate: ClusterCandidate) -> Obj:
    score = candidate.score
    reason = (
        f'Cluster "{candidate.name}" does not score high enough'
        f" (affinity score: {score.affinity}, topology spread score: {score.spread})"
    )
    return {"clusterName": candidate.name, "selected": False, "clusterScore": score.as_decision, "reason": reason}


def _filtered(entry: Filtered) -> Obj:
    return {"clusterName": entry.name, "selected": False, "reason": f"ClusterUnschedulable, {entry.reason}"}


def fulfilled(count: int) -> Obj:
    message = f"found all cluster needed as specified by the scheduling policy, found {count} cluster(s)"
    return condition("Scheduled", True, "SchedulingPolicyFulfilled", message)


def unfulfilled(count: int) -> Obj:
    message = (
        f"could not find all clusters needed as specified by the scheduling policy, found {count} cluster(s) instead"
    )
    return condition("Scheduled", False, "SchedulingPolicyUnfulfilled", message)


def _capped(selected: Sequence[Obj], others: Sequence[Obj]) -> list[Obj]:
    room = min(MAX_UNSELECTED, max(0, MAX_DECISIONS - len(selected)))
    return [*selected[:MAX_DECISIONS], *others[:room]]


# Filters and scores


def _assess(
    question: Question, taken: frozenset[str], most: int | None = None
) -> tuple[list[ClusterCandidate], list[Filtered]]:
    """Clusters that are not taken yet: scored, best first, at `most` so many; and filtered ones by name."""
    policy = question.policy
    terms = required_terms(policy)
    tolerations = (policy or {}).get("tolerations") or ()
    constraints = spreads(policy, question.clusters, taken)
    preference = Preference(policy, question.clusters) if question.kind == PICK_N else None
    obsolete = {binding.cluster for binding in question.classes.obsolete}
    candidates: list[ClusterCandidate] = []
    filtered: list[Filtered] = []
    for cluster in question.clusters:
        if cluster.name in taken:
            continue
        reason = _unschedulable(question, cluster, terms, tolerations) or spread_violation(constraints, cluster)
        if reason:
            filtered.append(Filtered(cluster.name, reason))
            continue
        score = Score()
        if preference is not None:
            affinity = preference.of(cluster)
            score = Score(spread_score(constraints, cluster), affinity, int(cluster.name in obsolete))
        candidates.append(ClusterCandidate(score, cluster.name))
    return (sorted(candidates, reverse=True) if most is None else nlargest(most, candidates)), filtered


def _unschedulable(
    question: Question, cluster: Cluster, terms: Sequence[Obj] | None, tolerations: Sequence[Obj]
) -> str:
    if terms is not None and not any(matches_term(term, cluster) for term in terms):
        return "cluster does not match with any of the required cluster affinity terms"
    reason = cluster.ineligible(question.now)
    if reason:
        return reason
    if cluster.name in question.avoid:
        return "jobs have waited there for too long"
    if question.namespace and cluster.namespaces is not None:
        if not cluster.namespaces:
            return "cluster has no namespace information available"
        if question.namespace not in cluster.namespaces:
            return "target namespace does not exist on cluster"
    taint = untolerated(tolerations, cluster)
    return "" if taint is None else f"taint {go_taint(taint)} cannot be tolerated"


# Placement types


def _pick_all(question: Question) -> Cycle:
    current = [*question.classes.scheduled, *question.classes.bound]
    candidates, filtered = _assess(question, frozenset(one.cluster for one in current))
    decisions = {name: picked(name, score) for score, name in reversed(candidates)}
    create, reuse, withdraw = _cross_reference(decisions, question.classes)
    selected = [*create, *(one.decision for one in reuse), *(one.decision for one in current)]
    return Cycle(
        create,
        reuse,
        withdraw,
        _capped(selected, [_filtered(entry) for entry in filtered]),
        fulfilled(len(selected)),
    )


def _pick_n(question: Question) -> Cycle:
    classes = question.classes
    present = len(classes.scheduled) + len(classes.bound)
    if question.wanted <= present:
        return _downscale(question, present - question.wanted)
    return _upscale(question, question.wanted - present)


def _downscale(question: Question, excess: int) -> Cycle:
    """Withdraw everything obsolete, then the least: not yet rolled out first, then low scores, then small names."""
    classes = question.classes
    ranked = sorted(classes.scheduled, key=_rank) + sorted(classes.bound, key=_rank)
    gone = {binding.name for binding in ranked[:excess]}
    kept = [b for b in (*classes.scheduled, *classes.bound) if b.name not in gone]
    selected = [binding.decision for binding in kept]
    return Cycle([], [], [*classes.obsolete, *ranked[:excess]], _capped(selected, ()), fulfilled(len(selected)))


def _rank(binding: Binding) -> tuple[int, int, str]:
    score = binding.decision.get("clusterScore") or {}
    return int(score.get("priorityScore") or 0), int(score.get("affinityScore") or 0), binding.cluster


def _upscale(question: Question, missing: int) -> Cycle:
    classes = question.classes
    current = [*classes.scheduled, *classes.bound]
    taken = frozenset(one.cluster for one in current)
    # With spread constraints every pick changes the counts, so clusters are picked one at a time.
    step = 1 if (question.policy or {}).get("topologySpreadConstraints") else missing
    last: list[ClusterCandidate] = []
    earlier: list[ClusterCandidate] = []
    while True:
        wanted = min(step, missing - len(last) - len(earlier))
        candidates, filtered = _assess(question, taken, wanted + MAX_UNSELECTED)
        batch, rest = candidates[:wanted], candidates[wanted:]
        if batch:
            earlier, last = [*earlier, *last], batch
        taken |= {candidate.name for candidate in batch}
        if len(batch) < step or len(last) + len(earlier) >= missing:
            break
    order = [*last, *sorted(earlier, key=lambda candidate: candidate.name)]
    decisions = {name: picked(name, score) for score, name in order}
    create, reuse, withdraw = _cross_reference(decisions, classes)
    selected = [*create, *(one.decision for one in reuse), *(one.decision for one in current)]
    others = [*map(_not_picked, rest), *map(_filtered, filtered[:MAX_UNSELECTED])]
    outcome = fulfilled(len(selected)) if len(selected) >= question.wanted else unfulfilled(len(selected))
    return Cycle(create, reuse, withdraw, _capped(selected, others), outcome)


def _pick_fixed(question: Question) -> Cycle:
    members = {cluster.name: cluster for cluster in question.clusters}
    decisions: dict[str, Obj] = {}
    invalid: list[Obj] = []
    missing: list[Obj] = []
    for name in (question.policy or {}).get("clusterNames") or ():
        cluster = members.get(name)
        if cluster is None:
            reason = f'Specified cluster "{name}" is not found'
            missing.append({"clusterName": name, "selected": False, "reason": reason})
        elif why := cluster.ineligible(question.now):
            reason = f'Cluster "{name}" is not eligible for resource placement yet: {why}'
            invalid.append({"clusterName": name, "selected": False, "reason": reason})
        else:
            decisions[name] = picked(name, None)
    classes = question.classes
    current = [*classes.scheduled, *classes.bound]
    held = {binding.cluster for binding in current}
    fresh = {name: decision for name, decision in decisions.items() if name not in held}
    create, reuse, withdraw = _cross_reference(fresh, classes)
    withdraw += [binding for binding in current if binding.cluster not in decisions]
    outcome = unfulfilled(len(decisions)) if invalid or missing else fulfilled(len(decisions))
    return Cycle(create, reuse, withdraw, _capped(list(decisions.values()), [*invalid, *missing]), outcome)


def _cross_reference(decisions: Mapping[str, Obj], classes: Classes) -> tuple[list[Obj], list[Reuse], list[Binding]]:
    """Picks that need a new binding, bindings that serve a pick again, and obsolete ones that serve none."""
    reuse: dict[str, Reuse] = {}
    withdraw: list[Binding] = []
    for binding in (*classes.obsolete, *classes.unscheduled):
        cluster = binding.cluster
        decision = decisions.get(cluster)
        is_obsolete = binding.state != UNSCHEDULED
        if decision is not None and cluster not in reuse:
            state = binding.state if is_obsolete else binding.previous_state or SCHEDULED
            reuse[cluster] = Reuse(binding, decision, state)
        elif is_obsolete:
            withdraw.append(binding)
    create = [decision for cluster, decision in decisions.items() if cluster not in reuse]
    return create, [reuse[cluster] for cluster in decisions if cluster in reuse], withdraw


def same_decisions(old: Sequence[Obj], new: Sequence[Obj]) -> bool:
    """Whether two lists say the same of every cluster; the order does not matter."""
    return len(old) == len(new) and {one["clusterName"]: one for one in old} == {one["clusterName"]: one for one in new}


def with_usage(cluster: Cluster, available: dict[str, str]) -> Cluster:
    """The cluster as if it had only this much left."""
    return replace(cluster, usage={**cluster.usage, "available": available})
