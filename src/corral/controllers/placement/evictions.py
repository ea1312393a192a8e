"""Evictions: each is judged once; an allowed one deletes its binding, and the scheduler picks again."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.controllers.placement.metrics import PlacementMetrics
from corral.controllers.placement.placement_kinds import CLUSTER, Records
from corral.controllers.placement.writes import write_status
from corral.core.conditions import conditions_of, set_condition
from corral.core.errors import NotFound
from corral.core.meta import Key, Obj, is_deleting, labels_of, name_of, resource_version_of, spec_of, status_of
from corral.decide.placement.bindings import binding_of
from corral.decide.placement.eviction import is_over, judge
from corral.kinds.fleet import CLUSTER_BINDINGS, DISRUPTION_BUDGETS, EVICTIONS
from corral.kinds.fleet.names import PARENT_PLACEMENT
from corral.runtime.controller import Manager, Watch


class EvictionController:
    """One eviction at a time, so that budgets are counted right."""

    name = "placement-eviction"

    def __init__(self, manager: Manager) -> None:
        self._client: Client = manager.client
        self._clock = manager.clock
        self._records = Records(manager, CLUSTER)
        self._metrics = manager.metrics.part(PlacementMetrics)
        self._evictions = manager.informer(EVICTIONS)
        self._budgets = manager.informer(DISRUPTION_BUDGETS)
        manager.add(self, watches=[Watch(EVICTIONS)])

    async def reconcile(self, key: Key) -> None:
        eviction = self._evictions.get(key)
        if eviction is None or is_deleting(eviction) or is_over(conditions_of(eviction)):
            return
        target = Key("", str(spec_of(eviction).get("placementName") or ""))
        # Bindings are read from the API itself: a budget counted on a cache could be spent twice.
        found = await self._client.list(CLUSTER_BINDINGS, labels=PARENT_PLACEMENT)
        # Compared here: what an eviction names is any text, and in a selector it would be a part of that.
        bindings = [binding_of(obj) for obj in found.items if labels_of(obj)[PARENT_PLACEMENT] == target.name]
        verdict = judge(eviction, self._records.placements.get(target), bindings, self._budgets.get(target))
        if verdict.evict is not None:
            await self._delete(verdict.evict.obj)
        conditions = status_of(eviction).get("conditions") or []
        for entry in verdict.conditions:
            conditions = set_condition(conditions, entry, self._clock.timestamp())
        written = await write_status(self._client, EVICTIONS, eviction, {"conditions": conditions})
        self._metrics.eviction(written)

    async def _delete(self, binding: Obj) -> None:
        try:
            await self._client.delete(CLUSTER_BINDINGS, name_of(binding), resource_version=resource_version_of(binding))
        except NotFound:
            pass  # gone already, which is what was asked for
