"""What two records of one scenario differ in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools.differential.player import Record, Rest

CHANCE = "chance"
ONCE = "once"
"""Kueue decides as Corral does whenever it is asked again."""
DIFFERENT = "DIFFERENT"
APART = "NEVER AS CORRAL"
VARYING = "CORRAL VARIES"
DEFECTS = (DIFFERENT, APART, VARYING)


@dataclass(frozen=True)
class Difference:
    """The first thing that differs; what follows from it is not looked at."""

    step: str
    what: str
    kueue: Any
    corral: Any

    def __str__(self) -> str:
        return f"after step {self.step}: {self.what}\n      kueue:  {self.kueue}\n      corral: {self.corral}"


def decisions(kueue: Record, corral: Record) -> Difference | None:
    """The first decision that differs: who is admitted with what, who was evicted, why and for whom."""
    for one, other in zip(kueue.rests, corral.rests, strict=False):
        if one.step != other.step:
            return Difference(one.step, "what could be done next", one.step, other.step)
        if one.evictions != other.evictions:
            return Difference(one.step, "evictions", _only(one, other), _only(other, one))
        for name in sorted({*one.states, *other.states}):
            if one.states.get(name) != other.states.get(name):
                return Difference(one.step, name, one.states.get(name), other.states.get(name))
    if kueue.restless != corral.restless:
        return Difference(
            kueue.restless or corral.restless, "rest", kueue.restless or "rests", corral.restless or "rests"
        )
    return None


def verdict(kueue: Sequence[Record], corral: Sequence[Record]) -> str:
    """What the difference of the first records comes from, when there are more.

    Chance is a word for Kueue alone, and only where one of its own ways is Corral's.
    """
    if any(decisions(record, corral[0]) for record in corral):
        return VARYING
    if len(kueue) > 1 and not any(decisions(record, corral[0]) for record in kueue[1:]):
        return ONCE
    if not any(decisions(record, kueue[0]) for record in kueue):
        return DIFFERENT
    return APART if all(decisions(record, corral[0]) for record in kueue) else CHANCE


def timed_verdict(kueue: Sequence[Record], corral: Sequence[Record]) -> str:
    """The same where each record of Corral took the times of one of Kueue, and is compared with that one alone."""
    same = [decisions(one, other) is None for one, other in zip(kueue, corral, strict=True)]
    if len(same) > 1 and all(same[1:]):
        return ONCE
    if any(same):
        return CHANCE
    return APART if any(decisions(record, kueue[0]) for record in kueue) else DIFFERENT


def _only(one: Rest, other: Rest) -> list[tuple[str, str, str]]:
    rest = list(other.evictions)
    return [entry for entry in one.evictions if not (entry in rest and rest.remove(entry) is None)]


def reasons(kueue: Record, corral: Record) -> list[Difference]:
    """Where Workloads wait for reasons, or with words, that differ; decisions must be the same."""
    found = []
    for one, other in zip(kueue.rests, corral.rests, strict=False):
        for name in sorted({*one.reasons, *other.reasons}):
            if one.reasons.get(name) != other.reasons.get(name):
                found.append(Difference(one.step, name, one.reasons.get(name), other.reasons.get(name)))
    return found
