"""From a topology assignment to single pods: which pod goes to which domain.

Pods that know their index take the slots in order, so that neighbours stay neighbours. Others fill what is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corral.core.meta import Obj, annotations_of, labels_of, name_of, spec_of
from corral.core.whole_numbers import whole_number
from corral.kinds.kueue import names
from corral.kinds.kueue.topology_assignment import Domain, domains_of

Selectors = dict[str, dict[str, str]]
"""Pod name to the node selector that places it."""


def first_ranks(admitted: Sequence[Obj], requests: Mapping[str, Obj]) -> dict[str, int]:
    """By pod set, the index its first pod has: of two that are placed as one group the smaller one's pods come first."""
    groups: dict[str, list[Obj]] = {}
    for entry in admitted:
        name = str(entry.get("name", "main"))
        groups.setdefault(str(requests.get(name, {}).get("podSetGroupName") or f"/{name}"), []).append(entry)
    found: dict[str, int] = {}
    for members in groups.values():
        first = min(members, key=lambda entry: int(entry.get("count", 1)))
        for entry in members:
            found[str(entry.get("name", "main"))] = 0 if entry is first else int(first.get("count", 1))
    return found


def placements(assignment: Obj, request: Obj, pods: Sequence[Obj], waiting: Sequence[Obj], first: int = 0) -> Selectors:
    """Node selectors for the `waiting` pods among all live `pods` of one pod set, whose indexes start at `first`.

    Those of a job whose first pods are in another pod set start later, as an annotation of the pods tells.
    """
    first += _index_offset(pods)
    levels, domains = list(assignment["levels"]), domains_of(assignment)
    placed = [pod for pod in pods if pod not in waiting]
    slots = [domain for domain in domains for _ in range(domain.pods)]
    ranks = _ranks(request, pods, len(slots), first)
    if ranks is not None and all(_values(levels, pod) == slots[ranks[name_of(pod)]].values for pod in placed):
        return {name_of(pod): _selector(levels, slots[ranks[name_of(pod)]]) for pod in waiting}
    # Once a node was replaced the slots are in another order than the pods that stayed: by rank, two would share a slot.
    free = _free_slots(levels, domains, placed)
    return {name_of(pod): _selector(levels, domain) for pod, domain in zip(waiting, free, strict=False)}


def _selector(levels: Sequence[str], domain: Domain) -> dict[str, str]:
    return dict(zip(levels, domain.values, strict=True))


def _values(levels: Sequence[str], pod: Obj) -> tuple[str, ...]:
    """Where a pod was placed, level by level."""
    selector = spec_of(pod).get("nodeSelector") or {}
    return tuple(selector.get(level, "") for level in levels)


def _free_slots(levels: Sequence[str], domains: Sequence[Domain], placed: Sequence[Obj]) -> list[Domain]:
    taken: dict[tuple[str, ...], int] = {}
    for pod in placed:
        values = _values(levels, pod)
        taken[values] = taken.get(values, 0) + 1
    return [domain for domain in domains for _ in range(max(0, domain.pods - taken.get(domain.values, 0)))]


def _index_offset(pods: Sequence[Obj]) -> int:
    """All pods of a pod set carry the same one."""
    return whole_number(annotations_of(pods[0]).get(names.POD_INDEX_OFFSET, "")) or 0 if pods else 0


def _ranks(request: Obj, pods: Sequence[Obj], size: int, first: int) -> dict[str, int] | None:
    """The index of every pod by its labels; None unless all have one, each a different one, within `size`."""
    label = request.get("podIndexLabel")
    if not label:
        return None
    per_group = _group_size(request, size)
    ranks: dict[str, int] = {}
    for pod in pods:
        rank = _rank(labels_of(pod), str(label), str(request.get("subGroupIndexLabel") or ""), per_group)
        if rank is None or not 0 <= rank - first < size:
            return None
        ranks[name_of(pod)] = rank - first
    return ranks if len(set(ranks.values())) == len(ranks) else None


def _group_size(request: Obj, size: int) -> int:
    groups = int(request.get("subGroupCount") or 0)
    return size // groups if groups else size


def _rank(labels: Mapping[str, str], label: str, group_label: str, per_group: int) -> int | None:
    index = whole_number(labels.get(label, ""))
    group = whole_number(labels.get(group_label, "")) if group_label else 0
    return None if index is None or group is None else index + group * per_group
