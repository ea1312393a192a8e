"""Partial admission: the largest reduction of pod counts that still works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from corral.decide.queueing.model.values import PodSetInfo

Found = TypeVar("Found")


def reduced_counts(pod_sets: Sequence[PodSetInfo], attempt: Callable[[list[int]], Found | None]) -> Found | None:
    """Binary search over how many pods to drop, spread over the pod sets that allow it; None when nothing works.

    Like upstream's, the search assumes that fewer pods never fit worse.
    """
    spare = [0 if entry.min_count is None else entry.spec_count - entry.min_count for entry in pod_sets]
    total = sum(spare)
    if not total:
        return None
    low, high = 0, total + 1
    best: Found | None = None
    best_at = -1
    while low < high:
        middle = (low + high) // 2
        counts = [entry.spec_count - extra * middle // total for entry, extra in zip(pod_sets, spare, strict=True)]
        found = attempt(counts)
        if found is None:
            low = middle + 1
        else:
            high = middle
            best, best_at = found, middle
    return best if best_at == low else None
