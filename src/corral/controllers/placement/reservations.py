"""Reservations: what was placed since a member's last heartbeat counts as used, so that a burst of jobs spreads.

A member reports what is free about once a minute, and a suspended job uses nothing at all. Between two heartbeats the
hub therefore remembers what it has sent where. A reservation ends with the first heartbeat that comes when the member has
had time to start the pods. Only Jobs are counted, so that nothing else is placed differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corral.controllers.placement.placement_kinds import Scope
from corral.core.meta import Key, Obj, spec_of
from corral.core.quantity import Quantity
from corral.decide.placement.clusters import Cluster
from corral.decide.placement.scheduling import with_usage
from corral.runtime.clock import Clock

EXPIRES_S = 300.0
STARTED_S = 15.0


@dataclass(frozen=True, slots=True)
class _Reservation:
    amounts: dict[str, Quantity]
    made: float

    def is_over(self, now: float, heartbeat: float) -> bool:
        """Whether the member's own numbers say by now what was promised."""
        return now - self.made >= EXPIRES_S or heartbeat - self.made >= STARTED_S


class _Adjusted(NamedTuple):
    """A cluster as it was when it was last asked for, what was left of it, and until when at most: a heartbeat makes it another."""

    cluster: Cluster
    left: Cluster
    until: float


def job_requests(resources: Sequence[Obj]) -> dict[str, Quantity]:
    """What the Jobs among some resources ask for while they run."""
    total: dict[str, Quantity] = {}
    for obj in resources:
        if obj.get("kind") != "Job":
            continue
        spec = spec_of(obj)
        pods = int(spec.get("parallelism", 1))
        for container in ((spec.get("template") or {}).get("spec") or {}).get("containers") or ():
            for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                total[name] = total.get(name, Quantity.parse(0)) + Quantity.parse(amount) * pods
    return total


class Reservations:
    """What each member has been promised, by placement. Does nothing unless it is switched on."""

    def __init__(self, clock: Clock, selected: Callable[[Scope, Key], Sequence[Obj]], *, enabled: bool) -> None:
        """`selected` says what a placement selects."""
        self._clock = clock
        self._enabled = enabled
        self._held: dict[str, dict[Key, _Reservation]] = {}
        self._adjusted: dict[str, _Adjusted] = {}
        self._selected = selected

    def reserve(self, scope: Scope, key: Key, clusters: Sequence[str]) -> None:
        """Remember what a placement will use on the clusters it just got."""
        if not self._enabled or not clusters:
            return
        amounts = job_requests(self._selected(scope, key))
        if amounts:
            for cluster in clusters:
                held = self._held.setdefault(cluster, {})
                known = self._adjusted.pop(cluster, None)
                again = held.pop(key, None) is not None
                held[key] = _Reservation(amounts, self._clock.now())
                if known is not None and not again:
                    self._adjusted[cluster] = known._replace(left=_less(known.left, [held[key]]))

    def release(self, key: Key) -> None:
        """A placement is going: what it was promised is free again, also for one that is made anew under its name."""
        for cluster in [name for name, held in self._held.items() if key in held]:
            del self._held[cluster][key]
            self._adjusted.pop(cluster, None)
            if not self._held[cluster]:
                del self._held[cluster]

    def adjusted(self, key: Key, clusters: Sequence[Cluster]) -> Sequence[Cluster]:
        """The clusters with what others were promised taken off."""
        if not self._enabled or not self._held:
            return clusters
        held, now = self._held, self._clock.now()
        return [self._adjust(key, cluster, now) if cluster.name in held else cluster for cluster in clusters]

    def _adjust(self, key: Key, cluster: Cluster, now: float) -> Cluster:
        held, known = self._held[cluster.name], self._adjusted.get(cluster.name)
        if known is not None and known.cluster is cluster and now < known.until and key not in held:
            return known.left
        self._expire(cluster, held, now)
        if not held:
            return cluster
        if key in held:
            return _less(cluster, [one for other, one in held.items() if other != key])
        until = next(iter(held.values())).made + EXPIRES_S
        known = self._adjusted[cluster.name] = _Adjusted(cluster, _less(cluster, held.values()), until)
        return known.left

    def _expire(self, cluster: Cluster, held: dict[Key, _Reservation], now: float) -> None:
        """Drop what is over; reservations are kept in the order they were made."""
        heartbeat = cluster.heartbeat()
        while held and (oldest := next(iter(held))) and held[oldest].is_over(now, heartbeat):
            del held[oldest]
            self._adjusted.pop(cluster.name, None)
        if not held:
            self._held.pop(cluster.name, None)


def _less(cluster: Cluster, reservations: Iterable[_Reservation]) -> Cluster:
    """The cluster with these reservations taken off."""
    available = {name: Quantity.parse(text) for name, text in (cluster.usage.get("available") or {}).items()}
    for reservation in reservations:
        for name, amount in reservation.amounts.items():
            if name in available:
                available[name] = available[name] - amount
    return with_usage(cluster, {name: str(amount) for name, amount in available.items()})
