"""The compact form in which a Workload status records where pods run.

One slice lists all domains: a value shared by every domain is written once, others share a prefix and a suffix.
Decoding accepts any number of slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from corral.core.meta import Obj
from corral.decide.queueing.model.values import TopologyAssignment, TopologyDomain

MAX_DOMAINS_PER_SLICE = 100_000


def encode_assignment(assignment: TopologyAssignment) -> Obj:
    """The `topologyAssignment` object for a status."""
    domains = assignment.domains
    chunks = [domains[start : start + MAX_DOMAINS_PER_SLICE] for start in range(0, len(domains), MAX_DOMAINS_PER_SLICE)]
    return {"levels": list(assignment.levels), "slices": [_encode_slice(chunk, assignment.levels) for chunk in chunks]}


def _encode_slice(domains: Sequence[TopologyDomain], levels: Sequence[str]) -> Obj:
    columns = [[domain.values[level] for domain in domains] for level in range(len(levels))]
    counts = [domain.pods for domain in domains]
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_encode_values(column) for column in columns],
        "podCounts": {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts},
    }


def _encode_values(values: list[str]) -> Obj:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix = _common_prefix(values)
    shortest = min(map(len, values)) - len(prefix)
    suffix = _common_prefix([value[::-1] for value in values])[::-1]
    suffix = suffix[len(suffix) - min(len(suffix), shortest) :] if shortest else ""
    individual: Obj = {}
    if prefix:
        individual["prefix"] = prefix
    if suffix:
        individual["suffix"] = suffix
    individual["roots"] = [value[len(prefix) : len(value) - len(suffix)] for value in values]
    return {"individual": individual}


def _common_prefix(values: Sequence[str]) -> str:
    first, last = min(values), max(values)
    length = next((index for index, letter in enumerate(first) if letter != last[index]), len(first))
    return first[:length]


def decode_assignment(obj: Obj | None) -> TopologyAssignment | None:
    """The value a status holds; also reads the flat `domains` list of v1beta1."""
    if not obj:
        return None
    levels = tuple(obj.get("levels") or ())
    if "domains" in obj:
        flat = (TopologyDomain(tuple(entry.get("values") or ()), entry.get("count", 0)) for entry in obj["domains"])
        return TopologyAssignment(levels, tuple(flat))
    domains: list[TopologyDomain] = []
    for entry in obj.get("slices") or ():
        count = entry.get("domainCount", 0)
        columns = [_decode_values(column, count) for column in entry.get("valuesPerLevel") or ()]
        domains.extend(map(TopologyDomain, zip(*columns, strict=True), _decode_counts(entry, count)))
    return TopologyAssignment(levels, tuple(domains))


def _decode_values(column: Obj, count: int) -> list[str]:
    if column.get("universal") is not None:
        return [column["universal"]] * count
    individual = column.get("individual") or {}
    prefix, suffix = individual.get("prefix") or "", individual.get("suffix") or ""
    return [f"{prefix}{root}{suffix}" for root in individual.get("roots") or ()]


def _decode_counts(entry: Obj, count: int) -> Sequence[int]:
    counts = entry.get("podCounts") or {}
    if counts.get("universal") is not None:
        return list(repeat(counts["universal"], count))
    return list(counts.get("individual") or ())
