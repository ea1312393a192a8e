"""Admission fair sharing: LocalQueues of one ClusterQueue take turns by what they used in the past.

Usage decays with a half-life. A workload that was just admitted counts at once through a penalty, which is folded
into the history when its admission is seen. Amounts are billionths of the resource's unit, as quantities are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from corral.core.meta import Key
from corral.core.quantity import as_float
from corral.decide.queueing.model.settings import AdmissionFairSharing
from corral.decide.queueing.model.values import Amounts, LocalQueueSpec, Usage, WorkloadInfo

_MILLI, _WHOLE = 10**6, 10**9


class Ledger:
    """What is known of one LocalQueue."""

    __slots__ = ("consumed", "penalties", "seeded", "updated", "weight")

    def __init__(self) -> None:
        self.consumed: Amounts = {}
        self.seeded = False
        """Has the history that a status kept been taken over?"""
        self.updated: float | None = None
        self.weight = 1.0
        self.penalties: dict[Key, Amounts] = {}


class UsageLedger:
    """History of all LocalQueues."""

    def __init__(self, settings: AdmissionFairSharing | None) -> None:
        self.settings = settings
        self._ledgers: dict[str, Ledger] = {}

    def set_queue(self, spec: LocalQueueSpec) -> None:
        """Take over the weight and, the first time, the history a status kept."""
        name = str(spec.key)
        ledger = self._ledgers.setdefault(name, Ledger())
        ledger.weight = spec.weight
        if not ledger.seeded and spec.consumed_at is not None:
            ledger.consumed = _sum(ledger.consumed, spec.consumed)
            ledger.updated = spec.consumed_at if ledger.updated is None else ledger.updated
        ledger.seeded = True

    def delete_queue(self, key: Key) -> None:
        self._ledgers.pop(str(key), None)

    def usage(self, queue: str) -> float:
        """The number LocalQueues are ordered by; infinite for those without weight."""
        ledger = self._ledgers.get(queue)
        if ledger is None:
            return 0.0
        if ledger.weight <= 0:
            return math.inf
        weights = self.settings.resource_weights if self.settings is not None else {}
        total = ledger.consumed
        for penalty in ledger.penalties.values():
            total = _sum(total, penalty)
        return sum(weights.get(name, 1.0) * as_float(total[name]) / _WHOLE for name in sorted(total)) / ledger.weight

    def penalize(self, info: WorkloadInfo, usage: Usage) -> None:
        """Count a workload that was just admitted before its usage shows in samples."""
        if self.settings is None:
            return
        rate = alpha(self.settings.sampling_interval_s, self.settings.half_life_s)
        requests: Amounts = {}
        for column, amount in usage.items():
            requests[column.resource] = requests.get(column.resource, 0) + to_nanos(column.resource, amount)
        penalty = {name: int(nanos * rate) for name, nanos in requests.items()}
        self._ledgers.setdefault(info.queue_key, Ledger()).penalties[info.key] = penalty

    def settle(self, queue: str, key: Key, running: Mapping[str, int], now: float) -> bool:
        """Fold a penalty into the history once the admission is seen; True when there was one."""
        ledger = self._ledgers.get(queue)
        penalty = ledger.penalties.pop(key, None) if ledger is not None else None
        if ledger is None or penalty is None:
            return False
        self._age(ledger, running, now)
        ledger.consumed = _sum(ledger.consumed, penalty)
        return True

    def _age(self, ledger: Ledger, running: Mapping[str, int], now: float) -> None:
        """Bring the history up to `now`; it never goes back in time."""
        assert self.settings is not None
        then = now if ledger.updated is None else ledger.updated
        current = {name: to_nanos(name, amount) for name, amount in running.items()}
        ledger.consumed = decayed(ledger.consumed, current, max(0.0, now - then), self.settings.half_life_s)
        ledger.updated = max(now, then)

    def forgive(self, queue: str, key: Key) -> None:
        """Drop a penalty whose workload was not admitted after all."""
        ledger = self._ledgers.get(queue)
        if ledger is not None:
            ledger.penalties.pop(key, None)

    def has_penalty(self, queue: str, key: Key) -> bool:
        ledger = self._ledgers.get(queue)
        return ledger is not None and key in ledger.penalties

    def sample(self, queue: str, running: Mapping[str, int], now: float) -> Amounts | None:
        """Decay the history and mix in what runs now (amounts per resource); None when it is too early."""
        if self.settings is None:
            return None
        ledger = self._ledgers.setdefault(queue, Ledger())
        if ledger.updated is None:
            ledger.updated = now
            return dict(ledger.consumed)
        elapsed = max(0.0, now - ledger.updated)
        if elapsed < self.settings.sampling_interval_s:
            return None
        self._age(ledger, running, now)
        return dict(ledger.consumed)

    def next_sample_in(self, queue: str, now: float) -> float:
        """Seconds until the next sample of a queue is due."""
        assert self.settings is not None
        ledger = self._ledgers.get(queue)
        if ledger is None or ledger.updated is None:
            return 0.0
        return max(0.0, ledger.updated + self.settings.sampling_interval_s - now)

    def consumed(self, queue: str) -> tuple[Amounts, float | None]:
        """History and when it was last brought up to date."""
        ledger = self._ledgers.get(queue)
        return ({}, None) if ledger is None else (dict(ledger.consumed), ledger.updated)


def alpha(elapsed_s: float, half_life_s: float) -> float:
    """The weight of the present after `elapsed_s`."""
    return 0.0 if half_life_s == 0 else 1.0 - math.pow(0.5, elapsed_s / half_life_s)


def decayed(old: Mapping[str, int], current: Mapping[str, int], elapsed_s: float, half_life_s: float) -> Amounts:
    """History after `elapsed_s`, in billionths; a half-life of zero forgets everything."""
    if half_life_s == 0:
        return {}
    rate = alpha(elapsed_s, half_life_s)
    past = {name: int(nanos * (1 - rate)) for name, nanos in old.items()}
    return _sum(past, {name: int(nanos * rate) for name, nanos in current.items()})


def to_nanos(resource: str, amount: int) -> int:
    return amount * (_MILLI if resource == "cpu" else _WHOLE)


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    total = dict(one)
    for name, amount in other.items():
        total[name] = total.get(name, 0) + amount
    return total
