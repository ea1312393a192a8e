"""The placement controller: selects, freezes policy and resources, and says how far the placement has come."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.metrics import PlacementMetrics
from corral.controllers.placement.placement_kinds import Records, Scope, parent_key
from corral.controllers.placement.policies import PolicySnapshots
from corral.controllers.placement.resources import ResourceSnapshots, index_text
from corral.controllers.placement.selections import Selections
from corral.controllers.placement.status_mirror import StatusMirror
from corral.controllers.placement.templates import is_template
from corral.controllers.placement.writes import drop_finalizer, remove, write_status
from corral.core.conditions import set_condition
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    finalizers_of,
    generation_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    spec_of,
    status_of,
)
from corral.core.notes import Notes
from corral.decide.placement.announcements import CLEANED_UP, announcements, is_complete
from corral.decide.placement.bindings import UNSCHEDULED
from corral.decide.placement.first_write import adopted_placement
from corral.decide.placement.selection import SelectionError, identifier
from corral.decide.placement.snapshots import contents
from corral.decide.placement.status import invalid_selectors, placement_status
from corral.decide.placement.status_view import PlacementView
from corral.decide.placement.strategy import strategy_of
from corral.kinds.fleet.names import PLACEMENT_CLEANUP, RESOURCE_INDEX
from corral.runtime.changes import changed
from corral.runtime.controller import Manager, Result, Watch


class PlacementController:
    """One per scope."""

    def __init__(self, manager: Manager, scope: Scope, settings: PlacementSettings, selections: Selections) -> None:
        self.name = f"placement-{scope.word}"
        self._scope = scope
        self._settings = settings
        self._selections = selections
        self._held = Notes[float]()
        self._client: Client = manager.client
        self._clock = manager.clock
        self._recorder = manager.recorder.named("placement-controller")
        self._metrics = manager.metrics.part(PlacementMetrics)
        self._records = Records(manager, self._scope)
        self._policies = PolicySnapshots(manager.client, self._records)
        self.resources = ResourceSnapshots(manager.client, manager.clock, self._records, self._settings)
        self._mirror = StatusMirror(manager)
        controller = manager.add(
            self,
            watches=[
                Watch(self._scope.placements, when=changed(generation_of, is_deleting, finalizers_of, annotations_of)),
                Watch(self._scope.policies, map=parent_key, delay=self._settings.gather),
                Watch(self._scope.snapshots, map=parent_key, delay=self._settings.gather),
                Watch(self._scope.bindings, map=parent_key, delay=self._settings.gather),
                *self._mirror.watches(self._scope),
            ],
            workers=4,
        )
        self._selections.on_change(self._scope, controller.queue.add)

    async def reconcile(self, key: Key) -> Result | None:
        placement = self._records.placements.get(key)
        if placement is None:
            self._selections.forget(self._scope, key)
            self._held.forget(key)
            return None
        if is_deleting(placement):
            await self._clean_up(placement)
            return None
        if self._scope.namespaced and is_template(placement):
            return None
        placement = await self._adopt(placement)
        refusal = self._mirror.refusal(placement)
        if refusal:
            return await self._refuse(placement, refusal)
        try:
            selected = await self._selections.objects(self._scope, placement)
        except SelectionError as error:
            return await self._refuse(placement, str(error))
        master, wait = self._records.snapshot(key), None
        if not strategy_of(placement).external:
            # Before the policy: the scheduler, which the policy wakes, writes first bindings with the snapshot in them.
            master, wait = await self.resources.ensure(placement, selected)
        policy = await self._policies.ensure(placement)
        due = await self._report(placement, policy, master, selected)
        if wait is not None:
            due = max(wait, 0.05) if due is None else min(max(wait, 0.05), due)
        return None if due is None else Result(requeue_after=due)

    async def _adopt(self, placement: Obj) -> Obj:
        """The placement with our finalizer; a missing strategy is written with it, as upstream's client does."""
        is_new = "strategy" not in spec_of(placement) and not status_of(placement)
        if PLACEMENT_CLEANUP in finalizers_of(placement) and not is_new:
            return placement
        adopted = adopted_placement(placement, coalesce=self._settings.coalesce_writes)
        if "strategy" not in spec_of(adopted):
            adopted = {**adopted, "spec": {**spec_of(adopted), "strategy": {}}}
        return await self._client.update(self._scope.placements, adopted)

    async def _clean_up(self, placement: Obj) -> None:
        key = key_of(placement)
        if PLACEMENT_CLEANUP not in finalizers_of(placement):
            return
        for snapshot in self._records.policies(key):
            await remove(self._client, self._scope.policies, snapshot)
        for snapshot in self._records.snapshots(key):
            await remove(self._client, self._scope.snapshots, snapshot)
        await drop_finalizer(self._client, self._scope.placements, placement, PLACEMENT_CLEANUP)
        self._metrics.forget_placement(self._scope.prefix, key)
        self._recorder.event(placement, "Normal", *CLEANED_UP)

    async def _refuse(self, placement: Obj, message: str) -> Result:
        entry = invalid_selectors(self._scope.prefix, placement, message)
        old = status_of(placement)
        conditions = set_condition(old.get("conditions") or [], entry, self._clock.timestamp())
        await write_status(self._client, self._scope.placements, placement, {**old, "conditions": conditions})
        return Result(requeue_after=self._settings.resync)

    async def _report(self, placement: Obj, policy: Obj, master: Obj | None, selected: list[Obj]) -> float | None:
        """Write what there is to say; returns the seconds until it has to be looked at again by itself."""
        view = self._view(placement, policy, master, selected)
        status = placement_status(view)
        changed, done = status != status_of(placement), is_complete(view, status)
        if changed and not done and (wait := self._hold(placement)) > 0:
            return wait
        self._held.forget(key_of(placement))
        if changed:
            await write_status(self._client, self._scope.placements, placement, status)
            self._metrics.placement(self._scope.prefix, placement, status, self._clock.now())
        await self._mirror.sync(placement, status)
        if changed:
            for announcement in announcements(view, status):
                self._recorder.event(placement, "Normal", *announcement)
        return None if done else self._settings.resync

    def _hold(self, placement: Obj) -> float:
        """How much longer a state on the way is kept back: most are over before anybody could read them."""
        now = self._clock.now()
        until = self._held.get(placement)
        if until is None:
            until = now + self._settings.status_hold_s
            self._held.put(placement, until)
        return until - now

    def _view(self, placement: Obj, policy: Obj, master: Obj | None, selected: list[Obj]) -> PlacementView:
        key = key_of(placement)
        bindings = {
            one.cluster: one
            for one in self._records.bindings(key)
            if not one.deleting and one.state != UNSCHEDULED and one.policy == name_of(policy)
        }
        external = strategy_of(placement).external
        snapshots = self._records.snapshots(key) if external else []
        shown = selected if external or master is None else self._contents(key, master)
        return PlacementView(
            prefix=self._scope.prefix,
            placement=placement,
            policy_snapshot=policy,
            bindings=bindings,
            snapshot="" if master is None else name_of(master),
            index="" if external else index_text(master),
            selected=[identifier(obj) for obj in shown],
            now=self._clock.timestamp(),
            indexes={name_of(one): labels_of(one).get(RESOURCE_INDEX, "") for one in snapshots},
            contents={
                labels_of(one).get(RESOURCE_INDEX, ""): [identifier(obj) for obj in self._contents(key, one)]
                for one in snapshots
            },
            run_kind=self._scope.runs.kind,
        )

    def _contents(self, key: Key, master: Obj) -> list[Obj]:
        return contents(self._records.group(key, master) or [master])
