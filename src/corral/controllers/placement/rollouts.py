"""The rolling update: releases bindings within the budget, and keeps their apply strategy and overrides current."""

from __future__ import annotations

from collections.abc import Iterable

from corral.client.protocol import Client
from corral.controllers.placement.overrides import OverrideRecords
from corral.controllers.placement.placement_kinds import Records, Scope, parent_key
from corral.controllers.placement.writes import remove, write_status
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
)
from corral.core.whole_numbers import whole_number
from corral.decide.placement.bindings import COUNTED, Binding, Overrides, binding_of
from corral.decide.placement.first_write import Release, released_binding
from corral.decide.placement.rollout import BLOCKED, STARTED, Plan, plan, target_count
from corral.decide.placement.snapshots import is_whole
from corral.decide.placement.strategy import strategy_of
from corral.kinds.fleet.names import NUMBER_OF_CLUSTERS
from corral.runtime.controller import Manager, Result, Watch, run_all

TWIN_WAIT_S = 5.0


class RolloutController:
    """One per scope."""

    def __init__(self, manager: Manager, scope: Scope, overrides: OverrideRecords) -> None:
        self.name = f"placement-rollout-{scope.word}"
        self._scope = scope
        self._overrides = overrides
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
        strategy = strategy_of(placement)
        group, policy = self._records.latest_group(key), self._records.policy(key)
        bindings = self._records.bindings(key)
        if strategy.external or policy is None or not bindings or not is_whole(group):
            return None
        if _has_twins(bindings):
            return Result(requeue_after=TWIN_WAIT_S)
        if await self._push_strategy(strategy.apply, bindings):
            return None  # the writes come back here
        overrides = self._overrides.for_clusters(
            self._scope, key, group, dict.fromkeys(one.cluster for one in bindings)
        )
        step = plan(
            bindings,
            snapshot=name_of(group[0]),
            overrides=overrides,
            strategy=strategy,
            target=target_count(
                spec_of(policy).get("policy"),
                whole_number(annotations_of(policy).get(NUMBER_OF_CLUSTERS, "")) or 0,
                bindings,
            ),
            now=self._clock.now(),
        )
        await self._act(step, name_of(group[0]), overrides)
        return None if step.wait is None else Result(requeue_after=step.wait)

    async def _push_strategy(self, wanted: Obj, bindings: list[Binding]) -> bool:
        stale = [one.obj for one in bindings if not one.deleting and one.apply_strategy != wanted]
        await run_all(
            self._client.update(self._scope.bindings, {**obj, "spec": {**spec_of(obj), "applyStrategy": wanted}})
            for obj in stale
        )
        return bool(stale)

    async def _act(self, step: Plan, snapshot: str, overrides: dict[str, Overrides]) -> None:
        await run_all(remove(self._client, self._scope.bindings, binding.obj) for binding in step.remove)
        # Who waits says so first, or the placement would seem to be rolled out everywhere for a moment.
        await run_all(self._mark(binding, False) for binding in step.held if not binding.is_held)
        await run_all(
            self._release(binding, Release(snapshot, overrides.get(binding.cluster, Overrides())))
            for binding in step.update
        )
        await run_all(self._mark(binding, True) for binding in step.current if binding.is_held)

    async def _release(self, binding: Binding, release: Release) -> None:
        await self._client.update(self._scope.bindings, released_binding(binding.obj, release))

    async def _mark(self, binding: Binding, started: bool) -> None:
        """Say that a binding has to wait, or no longer has to; of a released one the work generator says the rest."""
        reason, text = ("RolloutStarted", STARTED) if started else ("RolloutNotStartedYet", BLOCKED)
        entry = condition("RolloutStarted", started, reason, text, binding.generation)
        old = status_of(binding.obj)
        conditions = set_condition(old.get("conditions") or [], entry, self._clock.timestamp())
        await write_status(self._client, self._scope.bindings, binding.obj, {**old, "conditions": conditions})


def _placement_changed(old: Obj | None, new: Obj | None) -> bool:
    """Not what others report on a placement."""
    return new is not None and (
        old is None or generation_of(old) != generation_of(new) or is_deleting(old) != is_deleting(new)
    )


def _binding_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether a binding counts otherwise than before: other wishes, or another answer to whether it is running."""
    if old is None or new is None or is_deleting(old) != is_deleting(new):
        return True
    before, after = binding_of(old), binding_of(new)
    return before.generation != after.generation or any(before.fresh(kind) != after.fresh(kind) for kind in COUNTED)


def _has_twins(bindings: Iterable[Binding]) -> bool:
    """Whether a cluster has a binding that is going and another that is not."""
    going: set[str] = set()
    staying: set[str] = set()
    for binding in bindings:
        (going if binding.deleting else staying).add(binding.cluster)
    return bool(going & staying)
