"""What is written together with the first write of an object, and why.

Upstream every controller adds what is its own when it first meets an object, each with a write of its own. Where writes
are coalesced, whoever makes the object writes all of it at once:

* a placement comes with the finalizers of the placement controller and of the scheduler;
* the first bindings of a placement come released (`Bound`, with snapshot and overrides) and with the finalizer of the work
  generator, for where nothing is placed yet no budget holds anything back;
* a Work comes with the finalizer of the member's agent.

Nobody relies on it. Each controller still adds what it finds missing, so an object that another hub made, or this one
before its settings changed, goes the same way in more writes. A release is never written twice: that a binding has the
latest snapshot says that it was released, and the work generator's first report states it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corral.core.meta import Obj, name_of, namespace_of, spec_of, with_finalizer
from corral.decide.placement.bindings import BOUND, SCHEDULED, Binding, Overrides
from corral.decide.placement.snapshots import is_whole
from corral.decide.placement.strategy import strategy_of
from corral.kinds.fleet.names import (
    BINDING_CLEANUP,
    PARENT_PLACEMENT,
    PLACEMENT_CLEANUP,
    SCHEDULER_CLEANUP,
    WORK_CLEANUP,
)

# Placements


def adopted_placement(placement: Obj, *, coalesce: bool) -> Obj:
    """The placement with the placement controller's finalizer, and the scheduler's if writes are coalesced."""
    adopted = with_finalizer(placement, PLACEMENT_CLEANUP)
    return with_finalizer(adopted, SCHEDULER_CLEANUP) if coalesce else adopted


# Bindings


class Release(NamedTuple):
    """What a binding is released to roll out."""

    snapshot: str
    overrides: Overrides = Overrides()

    def put(self, spec: Obj) -> Obj:
        """The spec of a binding that was released to this."""
        return self.overrides.put({**spec, "state": BOUND, "resourceSnapshotName": self.snapshot})


@dataclass(frozen=True, slots=True)
class BindingDraft:
    """What the scheduler knows of a binding it is about to make."""

    name: str
    placement: Obj
    policy: str
    """The name of the policy snapshot that picked the cluster."""
    decision: Obj


def may_release_at_once(
    placement: Obj, snapshots: Sequence[Obj], bindings: Sequence[Binding], *, coalesce: bool
) -> bool:
    """Whether new bindings are released with the write that makes them: they are the first of their placement, and the
    latest snapshot group, master first, is all there."""
    return coalesce and not strategy_of(placement).external and not bindings and is_whole(snapshots)


def new_binding(draft: BindingDraft, release: Release | None = None) -> Obj:
    """The binding: scheduled, or released already. Update runs bring their own apply strategy."""
    labels = {PARENT_PLACEMENT: name_of(draft.placement)}
    metadata: Obj = {"name": draft.name, "labels": labels, "finalizers": [BINDING_CLEANUP]}
    if namespace := namespace_of(draft.placement):
        metadata["namespace"] = namespace
    spec: Obj = {
        "state": SCHEDULED,
        "resourceSnapshotName": "",
        "schedulingPolicySnapshotName": draft.policy,
        "targetCluster": draft.decision["clusterName"],
        "clusterDecision": draft.decision,
    }
    strategy = strategy_of(draft.placement)
    if not strategy.external:
        spec["applyStrategy"] = strategy.apply
    binding: Obj = {"metadata": metadata, "spec": spec}
    return binding if release is None else released_binding(binding, release)


def released_binding(binding: Obj, release: Release) -> Obj:
    """The binding, released, with the finalizer of the work generator, whom the release wakes."""
    return with_finalizer({**binding, "spec": release.put(spec_of(binding))}, WORK_CLEANUP)


def is_released(binding: Binding, placement: Obj | None, master: Obj | None) -> bool:
    """Whether the work generator may serve a bound binding: rollouts or a run have said something about its current
    spec, or it was released to the latest snapshot with the write that made it so."""
    if binding.fresh("RolloutStarted") is not None:
        return True
    if placement is None or master is None or strategy_of(placement).external:
        return False
    return binding.snapshot == name_of(master)


# Works


def new_work(work: Obj, *, coalesce: bool) -> Obj:
    """The Work, with the finalizer of the member's agent if writes are coalesced."""
    return with_finalizer(work, WORK_CLEANUP) if coalesce else work
