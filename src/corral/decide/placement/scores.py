"""Filters and scores of one cluster: affinity, taints, namespaces and topology spread, with upstream's exact numbers."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from corral.core.meta import Obj
from corral.core.quantity import Quantity
from corral.core.selectors import from_label_selector
from corral.decide.placement.clusters import Cluster, SchedulingError, quantity

VIOLATION_PENALTY: Final = -1000
_COMPARE: Final[dict[str, Callable[[Quantity, Quantity], bool]]] = {
    "Gt": lambda a, b: b < a,
    "Ge": lambda a, b: not a < b,
    "Eq": operator.eq,
    "Ne": operator.ne,
    "Lt": operator.lt,
    "Le": lambda a, b: not b < a,
}


class Score(NamedTuple):
    """What a cluster is worth, most important part first."""

    spread: int = 0
    affinity: int = 0
    obsolete: int = 0

    @property
    def as_decision(self) -> Obj:
        return {"affinityScore": self.affinity, "priorityScore": self.spread}


# Affinity


def required_terms(policy: Obj | None) -> Sequence[Obj] | None:
    """The ORed terms a cluster has to match one of; None when there are none."""
    required = _affinity(policy).get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if not required else required.get("clusterSelectorTerms") or None


def preferred_terms(policy: Obj | None) -> Sequence[Obj]:
    return _affinity(policy).get("preferredDuringSchedulingIgnoredDuringExecution") or ()


def _affinity(policy: Obj | None) -> Obj:
    return ((policy or {}).get("affinity") or {}).get("clusterAffinity") or {}


def matches_term(term: Obj, cluster: Cluster) -> bool:
    """Whether a cluster has the labels and the property values a term asks for."""
    wanted = term.get("labelSelector")
    if wanted is not None and not from_label_selector(wanted).matches(cluster.labels):
        return False
    expressions = (term.get("propertySelector") or {}).get("matchExpressions") or ()
    return all(_matches_expression(expression, cluster) for expression in expressions)


def _matches_expression(expression: Obj, cluster: Cluster) -> bool:
    actual = cluster.property(str(expression.get("name", "")))
    if actual is None:
        return False
    values = expression.get("values") or []
    if len(values) != 1:
        raise SchedulingError(f"property {expression.get('name')} needs exactly one value")
    compare = _COMPARE.get(str(expression.get("operator")))
    if compare is None:
        raise SchedulingError(f"unknown property operator {expression.get('operator')}")
    return compare(actual, quantity(str(values[0])))


class Extremes(NamedTuple):
    """The smallest and largest value of a property."""

    low: float
    high: float


def extremes(policy: Obj | None, clusters: Sequence[Cluster]) -> dict[str, Extremes]:
    """Of every property a preferred term sorts by, its range over all clusters, the unschedulable ones too."""
    found: dict[str, Extremes] = {}
    for term in preferred_terms(policy):
        name = ((term.get("preference") or {}).get("propertySorter") or {}).get("name")
        if not name or name in found:
            continue
        values = [value for cluster in clusters if (value := cluster.number(name)) is not None]
        if values:
            found[name] = Extremes(min(values), max(values))
    return found


def affinity_score(policy: Obj | None, cluster: Cluster, ranges: Mapping[str, Extremes]) -> int:
    """The sum of what the preferred terms give a cluster."""
    return sum(_term_score(term, cluster, ranges) for term in preferred_terms(policy))


class Preference:
    """What the preferred terms of a policy give each of some clusters. A cluster remembers it until it or the ranges change."""

    def __init__(self, policy: Obj | None, clusters: Sequence[Cluster]) -> None:
        self._policy, self._ranges = policy, extremes(policy, clusters)
        self._mark = json.dumps([preferred_terms(policy), self._ranges])

    def of(self, cluster: Cluster) -> int:
        return cluster.score(self._mark, self._work_out)

    def _work_out(self, cluster: Cluster) -> int:
        return affinity_score(self._policy, cluster, self._ranges)


def _term_score(term: Obj, cluster: Cluster, ranges: Mapping[str, Extremes]) -> int:
    weight = int(term.get("weight") or 0)
    preference = term.get("preference") or {}
    wanted = preference.get("labelSelector")
    if weight == 0 or (wanted is not None and not from_label_selector(wanted).matches(cluster.labels)):
        return 0
    sorter = preference.get("propertySorter")
    if not sorter:
        return weight
    value = cluster.number(sorter["name"])
    if value is None or sorter["name"] not in ranges:
        return 0
    low, high = ranges[sorter["name"]]
    if low == high:
        return 0
    share = (value - low) / (high - low)
    return _round((share if sorter.get("sortOrder") == "Descending" else 1 - share) * weight)


def _round(number: float) -> int:
    """Half away from zero."""
    return int(math.copysign(math.floor(abs(number) + 0.5), number))


# Taints


def untolerated(tolerations: Sequence[Obj], cluster: Cluster) -> Obj | None:
    """The first taint of a cluster that no toleration covers."""
    if not cluster.taints:
        return None
    return next((t for t in cluster.taints if not any(_tolerates(one, t) for one in tolerations)), None)


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint.get("key")
    return toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def go_taint(taint: Obj) -> str:
    return f"&{{Key:{taint.get('key', '')} Value:{taint.get('value', '')} Effect:{taint.get('effect', '')}}}"


# Topology spread


@dataclass(frozen=True, slots=True)
class Spread:
    """One constraint and how many placed clusters each of its domains has."""

    constraint: Obj
    counts: Mapping[str, int]

    def change(self, domain: str) -> int:
        """By how much one more cluster in `domain` changes the skew."""
        ordered = sorted(self.counts.values())
        smallest, largest = ordered[0], ordered[-1]
        if largest == smallest:
            return 1
        count = self.counts.get(domain, 0)
        if count == smallest and ordered[1] != smallest:
            return -1
        return 1 if count == largest else 0

    @property
    def skew(self) -> int:
        return max(self.counts.values()) - min(self.counts.values())

    def violated_by(self, domain: str) -> bool:
        return self.skew + self.change(domain) > int(self.constraint.get("maxSkew") or 1)


def spreads(policy: Obj | None, clusters: Sequence[Cluster], placed: frozenset[str]) -> list[Spread]:
    """The constraints of a policy with their domains' counts; one whose key no cluster has does not constrain."""
    found = []
    for constraint in (policy or {}).get("topologySpreadConstraints") or ():
        counts: dict[str, int] = {}
        for cluster in clusters:
            domain = cluster.labels.get(constraint["topologyKey"])
            if domain is not None:
                counts[domain] = counts.get(domain, 0) + (cluster.name in placed)
        if counts:
            found.append(Spread(constraint, counts))
    return found


def spread_violation(constraints: Sequence[Spread], cluster: Cluster) -> str:
    """Why a cluster may not be chosen by the constraints that forbid; empty when it may."""
    for spread in constraints:
        if spread.constraint.get("whenUnsatisfiable") == "ScheduleAnyway":
            continue
        domain = cluster.labels.get(spread.constraint["topologyKey"])
        if domain is not None and spread.violated_by(domain):
            key, skew = spread.constraint["topologyKey"], spread.constraint.get("maxSkew") or 1
            return f'violated doNotSchedule topology spread constraint "{key}" (max skew {skew})'
    return ""


def spread_score(constraints: Sequence[Spread], cluster: Cluster) -> int:
    if not constraints:
        return 0
    total = 0
    for spread in constraints:
        domain = cluster.labels.get(spread.constraint["topologyKey"])
        if domain is None:
            continue
        soft = spread.constraint.get("whenUnsatisfiable") == "ScheduleAnyway"
        total += VIOLATION_PENALTY if soft and spread.violated_by(domain) else -spread.change(domain)
    return total
