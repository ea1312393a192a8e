"""Bindings, decoded: a placement on one cluster, as scheduling, rollouts and reports see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from corral.core.conditions import conditions_of
from corral.core.meta import Obj, annotations_of, generation_of, is_deleting, name_of, spec_of
from corral.core.timestamps import parse_time
from corral.decide.placement.strategy import REPORT_DIFF
from corral.kinds.fleet.names import PREVIOUS_STATE

SCHEDULED, BOUND, UNSCHEDULED = "Scheduled", "Bound", "Unscheduled"
UNTRACKABLE: Final = frozenset({"NotAllWorkAreAvailabilityTrackable", "WorkNotTrackable"})
_FAILING: Final = ("Overridden", "WorkSynchronized", "Applied", "Available")
COUNTED: Final = ("RolloutStarted", *_FAILING, "DiffReported")
"""Conditions of a binding that rollouts look at."""
_OVERRIDE_FIELDS: Final = frozenset({"clusterResourceOverrideSnapshots", "resourceOverrideSnapshots"})


class Overrides(NamedTuple):
    """Override snapshots that concern one cluster: cluster-scoped by name, namespaced by namespace and name."""

    cluster: tuple[str, ...] = ()
    namespaced: tuple[tuple[str, str], ...] = ()

    def put(self, spec: Obj) -> Obj:
        """A binding's spec, or a run's entry of a cluster, that names these overrides."""
        rest = {k: v for k, v in spec.items() if k not in _OVERRIDE_FIELDS}
        if self.cluster:
            rest["clusterResourceOverrideSnapshots"] = list(self.cluster)
        if self.namespaced:
            rest["resourceOverrideSnapshots"] = [{"name": name, "namespace": ns} for ns, name in self.namespaced]
        return rest


def overrides_in(named: Obj) -> Overrides:
    """The overrides that a binding's spec names, or a run's entry of a cluster."""
    return Overrides(
        tuple(named.get("clusterResourceOverrideSnapshots") or ()),
        tuple((one.get("namespace", ""), one["name"]) for one in named.get("resourceOverrideSnapshots") or ()),
    )


class Readiness(NamedTuple):
    """Whether what a binding placed counts as running."""

    ready: bool
    wait: float = 0.0
    """Seconds until a binding that cannot be watched counts as ready; 0 when waiting does not help."""


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding. Two are equal when their objects are."""

    obj: Obj
    """The object, for whoever writes it."""
    name: str
    cluster: str
    state: str
    previous_state: str
    """What it was before it was withdrawn; empty when it never was."""
    snapshot: str
    """The resource snapshot it was released to; empty before."""
    policy: str
    """The policy snapshot it was picked for."""
    decision: Obj
    apply_strategy: Obj | None
    overrides: Overrides
    generation: int
    deleting: bool
    conditions: dict[str, Obj]
    """By type."""

    def fresh(self, kind: str) -> Obj | None:
        """A condition if it speaks of the current generation."""
        entry = self.conditions.get(kind)
        return entry if entry is not None and entry.get("observedGeneration", 0) >= self.generation else None

    def is_fresh(self, kind: str, status: str) -> bool:
        """Whether a condition says this of the current generation."""
        entry = self.fresh(kind)
        return entry is not None and entry["status"] == status

    @property
    def reports_diff(self) -> bool:
        return self.apply_strategy is not None and self.apply_strategy.get("type") == REPORT_DIFF

    @property
    def is_held(self) -> bool:
        """Whether the rollout budget holds it back."""
        return self.is_fresh("RolloutStarted", "False")

    @property
    def has_failed(self) -> bool:
        """Whether any step has reported failure, "not yet" included."""
        return any(self.is_fresh(kind, "False") for kind in _FAILING)

    @property
    def is_diff_reported(self) -> bool:
        return self.is_fresh("DiffReported", "True")

    def readiness(self, now: float, period: float) -> Readiness:
        """Whether what it placed counts as running; what cannot be watched does so after `period` seconds."""
        if self.is_diff_reported:
            return Readiness(True)
        available = self.fresh("Available")
        if available is None or available["status"] != "True":
            return Readiness(False)
        if available.get("reason") not in UNTRACKABLE:
            return Readiness(True)
        left = parse_time(available["lastTransitionTime"]) + period - now
        return Readiness(True) if left <= 0 else Readiness(False, left)


def binding_of(obj: Obj) -> Binding:
    """A ClusterResourceBinding or ResourceBinding, decoded."""
    spec = spec_of(obj)
    return Binding(
        obj=obj,
        name=name_of(obj),
        cluster=str(spec.get("targetCluster") or ""),
        state=str(spec.get("state") or ""),
        previous_state=annotations_of(obj).get(PREVIOUS_STATE, ""),
        snapshot=str(spec.get("resourceSnapshotName") or ""),
        policy=str(spec.get("schedulingPolicySnapshotName") or ""),
        decision=spec.get("clusterDecision") or {},
        apply_strategy=spec.get("applyStrategy"),
        overrides=overrides_in(spec),
        generation=generation_of(obj),
        deleting=is_deleting(obj),
        conditions={entry["type"]: entry for entry in conditions_of(obj)},
    )
