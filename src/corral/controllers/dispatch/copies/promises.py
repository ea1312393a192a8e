"""What was bound to each worker and does not show in its usage yet: the room that the next Workload must not count on.

Kept as it changes, so that binding one Workload more does not cost a look at all that are bound already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from corral.core.meta import Key
from corral.decide.queueing.model.values import Amounts


class Promises:
    """Amounts by worker and Workload, and their sum for each worker."""

    def __init__(self) -> None:
        self._held: dict[str, dict[Key, Amounts]] = {}
        self._totals: dict[str, Amounts] = {}
        self._promised: dict[Key, tuple[str, ...]] = {}
        """Where each Workload is counted."""

    def keep(self, key: Key, clusters: Collection[str], amounts: Callable[[], Amounts]) -> None:
        """Count a Workload on these workers and on no others; `amounts` is asked when it is new on one."""
        for cluster in self._promised.pop(key, ()):
            if cluster not in clusters:
                self._add(cluster, self._held[cluster].pop(key), -1)
        if clusters:
            self._promised[key] = tuple(clusters)
        for cluster in clusters:
            held = self._held.setdefault(cluster, {})
            if key not in held:
                held[key] = amounts()
                self._add(cluster, held[key], 1)

    def total(self, cluster: str, but: Key) -> Amounts:
        """What is promised of a worker to others than `but`."""
        own = self._held.get(cluster, {}).get(but, {})
        return {
            name: left for name, amount in self._totals.get(cluster, {}).items() if (left := amount - own.get(name, 0))
        }

    def of(self, cluster: str) -> Iterator[tuple[Key, Amounts]]:
        """To whom it is promised."""
        yield from self._held.get(cluster, {}).items()

    def _add(self, cluster: str, amounts: Amounts, sign: int) -> None:
        totals = self._totals.setdefault(cluster, {})
        for name, amount in amounts.items():
            totals[name] = totals.get(name, 0) + sign * amount
            if not totals[name]:
                del totals[name]
