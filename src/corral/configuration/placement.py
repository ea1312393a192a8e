"""How a hub places: the delays of its charts, and what of Corral's own behaviour is switched on."""

from __future__ import annotations

from dataclasses import dataclass

from corral.configuration.part import Part
from corral.core.meta import Obj


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Times are seconds."""

    collection: float = 15.0
    """How long changes of selected resources are gathered before a new snapshot."""
    interval: float = 30.0
    """The least time between two resource snapshots of a placement."""
    force_delete_after: float = 900.0
    """How long a leaving member may stay silent before the hub goes on without it."""
    resync: float = 1800.0
    run_cluster_wait: float = 15.0
    run_stuck_after: float = 300.0
    admit_workloads: bool = False
    """Whether pods and ReplicaSets may be created on the hub; upstream refuses them."""
    reserve: bool = True
    """Count what was placed since a member's last heartbeat as used, so that a burst of jobs spreads."""
    pending_limit: float | None = None
    """How long placed jobs may wait on one cluster before another is tried; for ever when None."""
    gather: float = 0.03
    """How long news of a placement's bindings are gathered before its status is written anew."""
    coalesce_writes: bool = True
    """Objects are made with what the controllers that come next would otherwise add, in as many writes."""
    status_hold_s: float = 0.3
    """How long a state that is about to pass is kept back from a status; every state is written when 0."""
    inventory: bool = True
    """Show members that joined as ClusterProfiles."""
    unhealthy_after: float = 180.0
    """How long a member may be silent before its ClusterProfile calls it unhealthy."""
    strict_admission: bool = False
    """Refuse what upstream refuses and Corral serves: kinds at versions that are not preferred, and properties of
    resources with a domain of their own."""
    guard_rail: bool = False
    """Let only administrators, the system and a member's own identity change what the fleet is made of."""
    allowed_users: tuple[str, ...] = ()
    """Users that the guard rail lets pass as administrators."""
    patient_runs: bool = False
    """Update runs take their time as upstream's do: they look at clusters every `run_cluster_wait`, count clusters that
    have nothing to do as busy for one look, and without an index roll out the last snapshot while a change is still being
    collected."""

    @classmethod
    def upstream(cls) -> PlacementSettings:
        """Everything as upstream does it."""
        return cls(
            reserve=False,
            gather=0.0,
            coalesce_writes=False,
            status_hold_s=0.0,
            strict_admission=True,
            patient_runs=True,
        )


def placement_settings(configuration: Obj | Part, *, admit_workloads: bool = False) -> PlacementSettings:
    """The settings in the `placement` part of a Corral configuration."""
    part = Part.of(configuration).part("placement")
    default = PlacementSettings.upstream() if part.flag("upstream") else PlacementSettings()
    return PlacementSettings(
        collection=part.seconds("resourceChangesCollectionDuration", default.collection),
        interval=part.seconds("resourceSnapshotCreationMinimumInterval", default.interval),
        force_delete_after=part.seconds("forceDeleteWaitTime", default.force_delete_after),
        admit_workloads=part.flag("enableWorkload", admit_workloads),
        pending_limit=part.seconds("pendingTimeout", 0.0) or None,
        reserve=part.flag("reserve", default.reserve),
        gather=default.gather,
        coalesce_writes=default.coalesce_writes,
        status_hold_s=default.status_hold_s,
        inventory=part.flag("enableClusterInventory", default.inventory),
        unhealthy_after=part.seconds("clusterUnhealthyThreshold", default.unhealthy_after),
        strict_admission=part.flag("strictAdmission", default.strict_admission),
        guard_rail=part.flag("enableGuardRail", default.guard_rail),
        allowed_users=tuple(map(str, part.get("whiteListedUsers") or ())),
        patient_runs=default.patient_runs,
    )
