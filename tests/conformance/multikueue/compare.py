"""Comparing two histories, knowing what may differ: see `docs/differences.md` for why each deliberate one is there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from multikueue.facts import Aspect, History

# Kinds and aspects that the recordings show but that say nothing about dispatching.
_IGNORED_KINDS = ("LocalQueue", "ClusterQueue")
_IGNORED_EVENTS = ("SuccessfulDelete", "Killing", "Scheduled", "Pulled", "Created", "TaintManagerEviction")


_SET_UP_KINDS = ("MultiKueueCluster", "MultiKueueConfig", "AdmissionCheck")
"""Objects that exist before the first step; whether they are written once more then is chance."""


@dataclass(frozen=True)
class Difference:
    """The first aspect whose values differ. `rank` counts the aspects that agreed before it."""

    aspect: Aspect
    expected: list[str] | None
    actual: list[str] | None
    rank: int

    def __str__(self) -> str:
        where = f"{self.aspect.cluster} {self.aspect.kind} {self.aspect.name} {self.aspect.what}"
        return f"{where}: recorded {self.expected}, here {self.actual}"


def first_difference(scenario: str, expected: History, actual: History) -> Difference | None:
    """The first recorded aspect that went otherwise here, or that only exists here."""
    rank = 0
    for aspect, values in expected.items():
        if _is_ignored(aspect):
            continue
        if _same(aspect, values, actual.get(aspect)):
            rank += 1
            continue
        return Difference(aspect, values, actual.get(aspect), rank)
    for aspect, values in actual.items():
        if aspect not in expected and not _is_ignored(aspect) and not _is_ours(aspect):
            return Difference(aspect, None, values, rank)
    return None


def _same(aspect: Aspect, expected: list[str], actual: list[str] | None) -> bool:
    if actual is None and aspect.what == "condition Finished":
        return not _ended(expected)
    if actual is None:
        return aspect.what == "exists" and expected == ["yes"] and aspect.kind in _SET_UP_KINDS
    if aspect.what.startswith("check ") or aspect.what == "clusterName":
        return _said(expected) == _said(actual)
    if aspect.what == "condition Finished":
        return _ended(expected) == _ended(actual)
    if aspect.what == "condition Suspended":
        return _either(expected) == _either(actual)
    return expected == actual


def _ended(values: list[str]) -> list[str]:
    """How a Workload ended. Whether one that goes with its owner is marked first is chance."""
    return [value for value in values if not value.startswith("True/OwnerNotFound")]


def _either(values: list[str]) -> list[str]:
    """Whether the worker's Suspended condition or the manager's own stands first is chance."""
    return [
        value.replace("MultiKueueAdapter: Set by MultiKueue adapter", "JobSuspended: Job suspended") for value in values
    ]


def _said(values: list[str]) -> list[str]:
    """Check states without the reasons for waiting, which only Corral gives."""
    kept: list[str] = []
    for value in values:
        value = "Pending: " if re.match(r"Pending: .*(worker\d|cannot be reached|already exists)", value) else value
        if not kept or kept[-1] != value:
            kept.append(value)
    return kept


def _is_ignored(aspect: Aspect) -> bool:
    if aspect.kind in _IGNORED_KINDS:
        return True
    return aspect.kind == "Event" and (aspect.what in _IGNORED_EVENTS or aspect.name.startswith("Pod/"))


def _is_ours(aspect: Aspect) -> bool:
    """What Corral says in addition to upstream."""
    return aspect.kind == "Event" and aspect.what in ("WaitingForWorker", "UpdatedAdmissionCheck")


def swapped(history: History) -> History:
    """The same history with worker1 and worker2 exchanged."""
    return {
        aspect._replace(cluster=_swap(aspect.cluster)): [_ordered(_swap(value)) for value in values]
        for aspect, values in history.items()
    }


def _swap(text: str) -> str:
    return re.sub(r"worker([12])", lambda match: f"worker{3 - int(match[1])}", text)


def _ordered(text: str) -> str:
    """A list of names in order again."""
    return json.dumps(sorted(json.loads(text))) if re.fullmatch(r'\["worker\d"(, "worker\d")*\]', text) else text


def anonymous(history: History) -> History:
    """The same history with workers alike: which of two equal workers wins each round is chance."""
    pooled: dict[Aspect, list[list[str]]] = {}
    for aspect, values in history.items():
        alike = [_anonymous(value) for value in values]
        pooled.setdefault(aspect._replace(cluster=_anonymous(aspect.cluster)), []).append(alike)
    return {aspect: sorted(value for values in found for value in values) for aspect, found in pooled.items()}


def _anonymous(text: str) -> str:
    return re.sub(r"worker[12]", "worker", text)
