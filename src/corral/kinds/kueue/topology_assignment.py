"""Topology assignments: the list of (domain, pod count) and the compressed form in which v1beta2 keeps it.

A slice covers `domainCount` domains. For each level the values are either the same for all of them, or differ in their
middle and share a prefix and a suffix. Pod counts are one number when they agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

Obj = dict[str, Any]

MAX_DOMAINS_PER_SLICE = 100_000


class Domain(NamedTuple):
    """Pods in one topology domain: its value on each level, and how many pods it gets."""

    values: tuple[str, ...]
    pods: int


def domains_of(assignment: Obj) -> list[Domain]:
    """The domains of a v1beta2 topology assignment, in order."""
    return [domain for piece in assignment.get("slices") or [] for domain in _expand(piece)]


def _expand(piece: Obj) -> Iterator[Domain]:
    size = int(piece["domainCount"])
    columns = [_column(values, size) for values in piece["valuesPerLevel"]]
    counts = piece["podCounts"]
    per_domain = counts["individual"] if "individual" in counts else [counts["universal"]] * size
    for index in range(size):
        yield Domain(tuple(column[index] for column in columns), int(per_domain[index]))


def _column(values: Obj, size: int) -> Sequence[str]:
    individual = values.get("individual")
    if individual is None:
        return [str(values.get("universal", ""))] * size
    prefix, suffix = individual.get("prefix", ""), individual.get("suffix", "")
    return [f"{prefix}{middle}{suffix}" for middle in individual["roots"]]


def assignment_of(levels: Sequence[str], domains: Iterable[Domain]) -> Obj:
    """The v1beta2 form of `domains` on `levels`."""
    everything = list(domains)
    pieces = [
        _compress(everything[start : start + MAX_DOMAINS_PER_SLICE], len(levels))
        for start in range(0, len(everything), MAX_DOMAINS_PER_SLICE)
    ]
    return {"levels": list(levels), "slices": pieces}


def _compress(domains: Sequence[Domain], depth: int) -> Obj:
    counts = [domain.pods for domain in domains]
    pod_counts: Obj = {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts}
    values = [_shared([domain.values[level] for domain in domains]) for level in range(depth)]
    return {"domainCount": len(domains), "podCounts": pod_counts, "valuesPerLevel": values}


def _shared(values: Sequence[str]) -> Obj:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix = _common_prefix(values)
    rests = [value[len(prefix) :] for value in values]
    suffix = _common_prefix([rest[::-1] for rest in rests])[::-1]
    roots = [rest[: len(rest) - len(suffix)] for rest in rests]
    individual: Obj = {"roots": roots}
    if prefix:
        individual["prefix"] = prefix
    if suffix:
        individual["suffix"] = suffix
    return {"individual": individual}


def _common_prefix(values: Sequence[str]) -> str:
    first, last = min(values), max(values)
    size = next((index for index, char in enumerate(first) if char != last[index : index + 1]), len(first))
    return first[:size]
