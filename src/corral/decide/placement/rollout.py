"""Rollout budgets: which bindings may change now so that no more than maxUnavailable are down by our own doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from corral.core.conditions import find
from corral.core.meta import Obj, generation_of, is_deleting, spec_of
from corral.core.timestamps import parse_time
from corral.decide.placement.scheduling import BOUND, PICK_FIXED, PICK_N, SCHEDULED, UNSCHEDULED, state_of, target_of

DEFAULT_BUDGET: Final = "25%"
DEFAULT_PERIOD_S: Final = 60
UNTRACKABLE: Final = frozenset({"NotAllWorkAreAvailabilityTrackable", "WorkNotTrackable"})
STARTED: Final = "Detected the new changes on the resources and started the rollout process"
BLOCKED: Final = "The resources cannot be updated to the latest because of the rollout strategy"
_FAILING: Final = ("Overridden", "WorkSynchronized", "Applied", "Available")
COUNTED: Final = ("RolloutStarted", *_FAILING, "DiffReported")
"""Conditions of a binding that rollouts look at."""


def amount(value: int | str, total: int, *, up: bool = True) -> int:
    """An absolute number, or a percentage of `total`."""
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        return int(value)
    share = int(value[:-1]) * total
    return -(-share // 100) if up else share // 100


def is_external(placement: Obj) -> bool:
    """Whether others roll the placement out, in staged update runs."""
    return bool((spec_of(placement).get("strategy") or {}).get("type") == "External")


def fresh(binding: Obj, kind: str) -> Obj | None:
    """A condition of the binding if it speaks of its current generation."""
    entry = find(binding, kind)
    return entry if entry is not None and entry.get("observedGeneration", 0) >= generation_of(binding) else None


class Readiness(NamedTuple):
    ready: bool
    wait: float = 0.0
    """Seconds until a binding that cannot be watched counts as ready; 0 when waiting does not help."""


def readiness(binding: Obj, now: float, period: float) -> Readiness:
    """Whether what a binding placed counts as running."""
    reported = fresh(binding, "DiffReported")
    if reported is not None and reported["status"] == "True":
        return Readiness(True)
    available = fresh(binding, "Available")
    if available is None or available["status"] != "True":
        return Readiness(False)
    if available.get("reason") not in UNTRACKABLE:
        return Readiness(True)
    left = parse_time(available["lastTransitionTime"]) + period - now
    return Readiness(True) if left <= 0 else Readiness(False, left)


def has_failed(binding: Obj) -> bool:
    """Whether any step has reported failure, "not yet" included, for the binding's generation."""
    return any((entry := fresh(binding, kind)) is not None and entry["status"] == "False" for kind in _FAILING)


def is_diff_reported(binding: Obj) -> bool:
    entry = fresh(binding, "DiffReported")
    return entry is not None and entry["status"] == "True"


class Overrides(NamedTuple):
    """Override snapshots that concern one cluster: cluster-scoped by name, namespaced by namespace and name."""

    cluster: tuple[str, ...] = ()
    namespaced: tuple[tuple[str, str], ...] = ()

    def put(self, spec: Obj) -> Obj:
        """A binding's spec that names these overrides."""
        rest = {k: v for k, v in spec.items() if k not in _OVERRIDE_FIELDS}
        if self.cluster:
            rest["clusterResourceOverrideSnapshots"] = list(self.cluster)
        if self.namespaced:
            rest["resourceOverrideSnapshots"] = [{"name": name, "namespace": ns} for ns, name in self.namespaced]
        return rest


_OVERRIDE_FIELDS: Final = frozenset({"clusterResourceOverrideSnapshots", "resourceOverrideSnapshots"})


def overrides_of(binding: Obj) -> Overrides:
    spec = spec_of(binding)
    return Overrides(
        tuple(spec.get("clusterResourceOverrideSnapshots") or ()),
        tuple((one.get("namespace", ""), one["name"]) for one in spec.get("resourceOverrideSnapshots") or ()),
    )


@dataclass(slots=True)
class Plan:
    """What a rollout step does. `update` also holds bindings that go from Scheduled to Bound."""

    update: list[Obj] = field(default_factory=list)
    remove: list[Obj] = field(default_factory=list)
    held: list[Obj] = field(default_factory=list)
    current: list[Obj] = field(default_factory=list)
    wait: float | None = None


def target_count(policy: Obj | None, wanted: int, bindings: Sequence[Obj]) -> int:
    """How many clusters the placement is meant to be on."""
    kind = (policy or {}).get("placementType")
    if kind == PICK_N:
        return wanted
    if kind == PICK_FIXED:
        return len((policy or {}).get("clusterNames") or ())
    return sum(state_of(binding) in (SCHEDULED, BOUND) for binding in bindings)


def plan(
    bindings: Sequence[Obj],
    *,
    snapshot: str,
    overrides: Mapping[str, Overrides],
    strategy: Obj,
    target: int,
    now: float,
) -> Plan:
    """The next step. Bindings come ordered by name, which is the order they are updated in."""
    rolling: Obj = strategy.get("rollingUpdate") or {}
    period = float(rolling.get("unavailablePeriodSeconds", DEFAULT_PERIOD_S))
    result = Plan()
    ready = going = can_be_ready = 0
    remove: list[Obj] = []
    bind: list[Obj] = []
    failed: list[Obj] = []
    update: list[Obj] = []
    waits: list[float] = []
    for binding in bindings:
        state = state_of(binding)
        if state == SCHEDULED:
            bind.append(binding)
            continue
        status = readiness(binding, now, period)
        has_problem = has_failed(binding) or is_diff_reported(binding)
        ready += status.ready
        can_be_ready += not has_problem
        if is_deleting(binding):
            going += status.ready
            continue
        if state == UNSCHEDULED:
            remove.append(binding)
            continue
        if status.wait:
            waits.append(status.wait)
        wanted = overrides.get(target_of(binding), Overrides())
        if spec_of(binding).get("resourceSnapshotName") == snapshot and overrides_of(binding) == wanted:
            result.current.append(binding)
        else:
            (failed if has_problem else update).append(binding)
    to_remove = (ready - going) - (target - amount(rolling.get("maxUnavailable", DEFAULT_BUDGET), target))
    to_add = target + amount(rolling.get("maxSurge", DEFAULT_BUDGET), target) - can_be_ready
    to_remove, to_add = max(0, to_remove), max(0, to_add)
    result.remove = remove[:to_remove]
    updated = update[: max(0, to_remove - len(result.remove))]
    result.update = [*failed, *updated, *bind[:to_add]]
    result.held = [*update[len(updated) :], *bind[to_add:]]
    if (result.held or len(result.remove) < len(remove)) and waits:
        result.wait = min(waits)
    return result
