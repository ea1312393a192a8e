"""Rollout budgets: which bindings may change now so that no more than maxUnavailable are down by our own doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from corral.core.meta import Obj
from corral.decide.placement.bindings import BOUND, SCHEDULED, UNSCHEDULED, Binding, Overrides
from corral.decide.placement.scheduling import PICK_FIXED, PICK_N
from corral.decide.placement.strategy import Strategy

STARTED: Final = "Detected the new changes on the resources and started the rollout process"
BLOCKED: Final = "The resources cannot be updated to the latest because of the rollout strategy"


def amount(value: int | str, total: int, *, up: bool = True) -> int:
    """An absolute number, or a percentage of `total`."""
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        return int(value)
    share = int(value[:-1]) * total
    return -(-share // 100) if up else share // 100


@dataclass(slots=True)
class Plan:
    """What a rollout step does. `update` also holds bindings that go from Scheduled to Bound."""

    update: list[Binding] = field(default_factory=list)
    remove: list[Binding] = field(default_factory=list)
    held: list[Binding] = field(default_factory=list)
    current: list[Binding] = field(default_factory=list)
    wait: float | None = None


def target_count(policy: Obj | None, wanted: int, bindings: Sequence[Binding]) -> int:
    """How many clusters the placement is meant to be on."""
    kind = (policy or {}).get("placementType")
    if kind == PICK_N:
        return wanted
    if kind == PICK_FIXED:
        return len((policy or {}).get("clusterNames") or ())
    return sum(binding.state in (SCHEDULED, BOUND) for binding in bindings)


def plan(
    bindings: Sequence[Binding],
    *,
    snapshot: str,
    overrides: Mapping[str, Overrides],
    strategy: Strategy,
    target: int,
    now: float,
) -> Plan:
    """The next step. Bindings come ordered by name, which is the order they are updated in."""
    sorted_out = _Sorted()
    for binding in bindings:
        wanted = (snapshot, overrides.get(binding.cluster, Overrides()))
        sorted_out.add(binding, wanted, now, strategy.unavailable_period)
    least = target - amount(strategy.max_unavailable, target)
    most = target + amount(strategy.max_surge, target)
    return _within_budget(
        sorted_out,
        may_stop=max(0, sorted_out.ready - sorted_out.going - least),
        may_start=max(0, most - sorted_out.can_be_ready),
    )


@dataclass(slots=True)
class _Sorted:
    """The bindings of a placement by what may happen to them, and how many of them count as running."""

    bind: list[Binding] = field(default_factory=list)
    """Chosen, nothing there yet."""
    remove: list[Binding] = field(default_factory=list)
    update: list[Binding] = field(default_factory=list)
    failed: list[Binding] = field(default_factory=list)
    """To be updated, and already down: that costs nothing."""
    current: list[Binding] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    ready: int = 0
    going: int = 0
    """Ready, but on their way out."""
    can_be_ready: int = 0

    def add(self, binding: Binding, wanted: tuple[str, Overrides], now: float, period: float) -> None:
        """Sort one binding; `wanted` is the snapshot it should have, and the overrides."""
        if binding.state == SCHEDULED:
            self.bind.append(binding)
            return
        status = binding.readiness(now, period)
        has_problem = binding.has_failed or binding.is_diff_reported
        self.ready += status.ready
        self.can_be_ready += not has_problem
        if binding.deleting:
            self.going += status.ready
            return
        if binding.state == UNSCHEDULED:
            self.remove.append(binding)
            return
        if status.wait:
            self.waits.append(status.wait)
        if (binding.snapshot, binding.overrides) == wanted:
            self.current.append(binding)
        else:
            (self.failed if has_problem else self.update).append(binding)


def _within_budget(found: _Sorted, *, may_stop: int, may_start: int) -> Plan:
    """As much as may be down at once, and as much as may be there at once."""
    removed = found.remove[:may_stop]
    updated = found.update[: may_stop - len(removed)]
    held = [*found.update[len(updated) :], *found.bind[may_start:]]
    blocked = bool(held) or len(removed) < len(found.remove)
    return Plan(
        update=[*found.failed, *updated, *found.bind[:may_start]],
        remove=removed,
        held=held,
        current=found.current,
        wait=min(found.waits, default=None) if blocked else None,
    )
