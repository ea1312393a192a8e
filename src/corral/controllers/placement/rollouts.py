"""The rolling update: releases bindings within the budget, and keeps their apply strategy and overrides current."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.members import Members
from corral.controllers.placement.overrides import OverrideRecords
from corral.controllers.placement.placement_kinds import Records, Scope, parent_key
from corral.controllers.placement.resources import is_complete
from corral.controllers.placement.writes import remove, run_all, write_status
from corral.core.conditions import condition, set_condition
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    generation_of,
    is_deleting,
    key_of,
    name_of,
    spec_of,
    status_of,
    with_finalizer,
)
from corral.decide.placement.overrides import for_cluster
from corral.decide.placement.readiness import COUNTED, fresh
from corral.decide.placement.rollout import BLOCKED, STARTED, Overrides, Plan, is_external, plan, target_count
from corral.decide.placement.scheduling import BOUND, target_of
from corral.kinds.fleet.names import NUMBER_OF_CLUSTERS, WORK_CLEANUP
from corral.runtime.controller import Manager, Result, Watch

TWIN_WAIT_S = 5.0
DEFAULT_APPLY: Obj = {
    "comparisonOption": "PartialComparison",
    "type": "ClientSideApply",
    "whenToApply": "Always",
    "whenToTakeOver": "Always",
}


def apply_strategy(placement: Obj) -> Obj:
    """How the placement's objects are applied, defaults filled in."""
    return {**DEFAULT_APPLY, **((spec_of(placement).get("strategy") or {}).get("applyStrategy") or {})}


class RolloutController:
    """One per scope."""

    def __init__(self, scope: Scope, members: Members, overrides: OverrideRecords, settings: PlacementSettings) -> None:
        self.name = f"placement-rollout-{scope.word}"
        self._scope = scope
        self._members = members
        self._overrides = overrides
        self._settings = settings

    def setup(self, manager: Manager) -> None:
        self._client: Client = manager.client
        self._clock = manager.clock
        self._records = Records(manager, self._scope)
        self._queue = manager.add(
            self,
            watches=[
                Watch(self._scope.placements, when=_placement_changed),
                Watch(self._scope.snapshots, map=parent_key),
                Watch(self._scope.bindings, map=parent_key, when=_binding_changed),
            ],
            workers=4,
        ).queue
        self._overrides.on_change(self._on_overrides)

    def _on_overrides(self) -> None:
        for placement in self._records.placements.list():
            self._queue.add(key_of(placement))

    async def reconcile(self, key: Key) -> Result | None:
        placement = self._records.placements.get(key)
        if placement is None or is_deleting(placement):
            return None
        strategy = spec_of(placement).get("strategy") or {}
        master, policy = self._records.snapshot(key), self._records.policy(key)
        if is_external(placement) or master is None or policy is None:
            return None
        group = self._records.group(key, master)
        bindings = self._records.bindings(key)
        if not bindings or not is_complete(master, group):
            return None
        if _has_twins(bindings):
            return Result(requeue_after=TWIN_WAIT_S)
        if await self._push_strategy(placement, bindings):
            return None  # the writes come back here
        overrides = self._choose(key, group, dict.fromkeys(map(target_of, bindings)))
        step = plan(
            bindings,
            snapshot=name_of(master),
            overrides=overrides,
            strategy=strategy,
            target=target_count(
                spec_of(policy).get("policy"), int(annotations_of(policy).get(NUMBER_OF_CLUSTERS) or 0), bindings
            ),
            now=self._clock.now(),
        )
        await self._act(step, name_of(master), overrides)
        return None if step.wait is None else Result(requeue_after=step.wait)

    async def _push_strategy(self, placement: Obj, bindings: list[Obj]) -> bool:
        wanted = apply_strategy(placement)
        stale = [b for b in bindings if not is_deleting(b) and spec_of(b).get("applyStrategy") != wanted]
        await run_all(
            self._client.update(self._scope.bindings, {**b, "spec": {**spec_of(b), "applyStrategy": wanted}})
            for b in stale
        )
        return bool(stale)

    def release_at_once(self, placement: Obj, clusters: Sequence[str]) -> dict[str, Obj]:
        """What the first bindings of a placement say when they are released with the write that makes them: where
        nothing is placed yet, no budget holds them back. Empty when that is not for us to say."""
        key = key_of(placement)
        master = self._records.snapshot(key)
        if not self._settings.hold or is_external(placement) or master is None or self._records.bindings(key):
            return {}
        group = self._records.group(key, master)
        if not is_complete(master, group):
            return {}
        released: Obj = {"state": BOUND, "resourceSnapshotName": name_of(master)}
        chosen = self._choose(key, group, clusters)
        return {cluster: chosen.get(cluster, Overrides()).put(released) for cluster in clusters}

    def _choose(self, key: Key, group: list[Obj], clusters: Iterable[str]) -> dict[str, Overrides]:
        """The overrides of every one of the clusters."""
        resources = [obj for one in group for obj in spec_of(one).get("selectedResources") or ()]
        wide, narrow = self._overrides.matching(self._scope, key, resources)
        if not wide and not narrow:
            return {}
        chosen = {}
        for cluster in clusters:
            member = self._members.get(cluster)
            if member is not None:
                chosen[cluster] = for_cluster(wide, narrow, member)
        return chosen

    async def _act(self, step: Plan, snapshot: str, overrides: dict[str, Overrides]) -> None:
        await run_all(remove(self._client, self._scope.bindings, binding) for binding in step.remove)
        # Who waits says so first, or the placement would seem to be rolled out everywhere for a moment.
        await run_all(self._mark(binding, False) for binding in step.held if not _is_held(binding))
        await run_all(
            self._release(binding, snapshot, overrides.get(target_of(binding), Overrides())) for binding in step.update
        )
        await run_all(self._mark(binding, True) for binding in step.current if _is_held(binding))

    async def _release(self, binding: Obj, snapshot: str, overrides: Overrides) -> None:
        spec = overrides.put({**spec_of(binding), "state": BOUND, "resourceSnapshotName": snapshot})
        released = with_finalizer({**binding, "spec": spec}, WORK_CLEANUP)  # for the work generator, one write less
        await self._client.update(self._scope.bindings, released)

    async def _mark(self, binding: Obj, started: bool) -> None:
        """Say that a binding has to wait, or no longer has to; of a released one the work generator says the rest."""
        reason, text = ("RolloutStarted", STARTED) if started else ("RolloutNotStartedYet", BLOCKED)
        entry = condition("RolloutStarted", started, reason, text, generation_of(binding))
        old = status_of(binding)
        conditions = set_condition(old.get("conditions") or [], entry, self._clock.timestamp())
        await write_status(self._client, self._scope.bindings, binding, {**old, "conditions": conditions})


def _is_held(binding: Obj) -> bool:
    entry = fresh(binding, "RolloutStarted")
    return entry is not None and entry["status"] == "False"


def _placement_changed(old: Obj | None, new: Obj | None) -> bool:
    """Not what others report on a placement."""
    return new is not None and (
        old is None or generation_of(old) != generation_of(new) or is_deleting(old) != is_deleting(new)
    )


def _binding_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether a binding counts otherwise than before: other wishes, or another answer to whether it is running."""
    if old is None or new is None or is_deleting(old) != is_deleting(new):
        return True
    return generation_of(old) != generation_of(new) or any(fresh(old, kind) != fresh(new, kind) for kind in COUNTED)


def _has_twins(bindings: Iterable[Obj]) -> bool:
    """Whether a cluster has a binding that is going and another that is not."""
    going: set[str] = set()
    staying: set[str] = set()
    for binding in bindings:
        (going if is_deleting(binding) else staying).add(target_of(binding))
    return bool(going & staying)
