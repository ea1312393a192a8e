"""The work generator: writes what a released binding needs into its member's namespace, and sums up what comes back."""

from __future__ import annotations

from collections.abc import Iterable

from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.catalog import Catalog
from corral.controllers.placement.members import Members
from corral.controllers.placement.overrides import OverrideRecords
from corral.controllers.placement.placement_kinds import Records, Scope, parent_key
from corral.controllers.placement.writes import drop_finalizer, ensure_finalizer, remove, write_status
from corral.core.conditions import condition, find, set_condition
from corral.core.errors import AlreadyExists, ApiError, Conflict, NotFound
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
    namespace_of,
    spec_of,
    status_of,
    with_annotations,
    with_labels,
)
from corral.decide.placement.bindings import BOUND, UNSCHEDULED, Binding, Overrides, binding_of
from corral.decide.placement.delivery import ABANDON, PASSED_ON, Delivery, delivery_of
from corral.decide.placement.envelopes import EnvelopeError, Order, make_works
from corral.decide.placement.first_write import is_released, new_work
from corral.decide.placement.overrides import OverrideError
from corral.decide.placement.rollout import STARTED
from corral.decide.placement.works import (
    DIFF_IN_PROGRESS,
    IN_PROGRESS,
    is_answered,
    nothing_reported,
    summarize,
)
from corral.jobs.framework.registry import ENDINGS
from corral.kinds.fleet import WORKS
from corral.kinds.fleet.names import PARENT_BINDING, PARENT_NAMESPACE, WORK_CLEANUP
from corral.runtime.changes import changed
from corral.runtime.controller import Manager, Result, Watch, run_all

DELETION_CHECK_S = 30.0
RELEASED = condition("RolloutStarted", True, "RolloutStarted", STARTED)
_LISTS = ("failedPlacements", "driftedPlacements", "diffedPlacements")
SYNCED = condition("WorkSynchronized", True, "AllWorkSynced", "All of the works are synchronized to the latest")
NO_OVERRIDE = condition(
    "Overridden", True, "NoOverrideSpecified", "No override rules are configured for the selected resources"
)
OVERRIDDEN = condition(
    "Overridden", True, "OverriddenSucceeded", "Successfully applied the override rules on the resources"
)


def _binding_key(work: Obj) -> Iterable[Key]:
    labels = labels_of(work)
    name = labels.get(PARENT_BINDING)
    return (Key(labels.get(PARENT_NAMESPACE, ""), name),) if name else ()


class WorkController:
    """One per scope; its keys are bindings."""

    def __init__(
        self,
        manager: Manager,
        scope: Scope,
        settings: PlacementSettings,
        members: Members,
        overrides: OverrideRecords,
        catalog: Catalog,
    ) -> None:
        self.name = f"work-generator-{scope.word}"
        self._scope = scope
        self._members = members
        self._overrides = overrides
        self._catalog = catalog
        self._settings = settings
        self._held: dict[Key, float] = {}
        self._client: Client = manager.client
        self._clock = manager.clock
        self._records = Records(manager, self._scope)
        self._works = manager.informer(WORKS)
        self._works.add_index("binding", lambda work: map(str, _binding_key(work)))
        manager.add(
            self,
            watches=[
                Watch(self._scope.bindings, when=changed(generation_of, is_deleting, finalizers_of, _rollout_started)),
                Watch(WORKS, map=self._own_binding, when=_work_changed),
                Watch(self._scope.placements, map=self._bindings_of, when=self._delivers_otherwise),
            ],
            workers=8,
        )

    def _own_binding(self, work: Obj) -> Iterable[Key]:
        return (key for key in _binding_key(work) if bool(key.namespace) == self._scope.namespaced)

    def _bindings_of(self, placement: Obj) -> Iterable[Key]:
        return [key_of(binding.obj) for binding in self._records.bindings(key_of(placement))]

    def _delivers_otherwise(self, old: Obj | None, new: Obj | None) -> bool:
        return old is not None and new is not None and self._delivery(old) != self._delivery(new)

    def _delivery(self, placement: Obj | None) -> Delivery:
        return Delivery() if placement is None else delivery_of(placement, self._settings.pending_limit)

    async def reconcile(self, key: Key) -> Result | None:
        binding = self._records.binding(key)
        if binding is None:
            self._held.pop(key, None)
            return None
        works = self._works.by_index("binding", str(key))
        if binding.deleting:
            return await self._clean_up(binding, works)
        if binding.state == UNSCHEDULED:
            return await self._report(binding, [], works) if works else None
        if binding.state != BOUND:
            return None
        binding = binding_of(await ensure_finalizer(self._client, self._scope.bindings, binding.obj, WORK_CLEANUP))
        return await self._generate(binding, works) if self._is_released(binding) else None

    def _is_released(self, binding: Binding) -> bool:
        return any(
            is_released(binding, self._records.placements.get(key), self._records.snapshot(key))
            for key in parent_key(binding.obj)
        )

    async def _clean_up(self, binding: Binding, works: list[Obj]) -> Result | None:
        if WORK_CLEANUP not in finalizers_of(binding.obj):
            return None
        if not works:
            await drop_finalizer(self._client, self._scope.bindings, binding.obj, WORK_CLEANUP)
            return None
        works = [work for work in works if not is_deleting(work)]
        if any(ABANDON in annotations_of(work) for work in works) and await self._outlived(binding):
            works = [await self._client.update(WORKS, with_annotations(work, {ABANDON: None})) for work in works]
        await run_all(remove(self._client, WORKS, work) for work in works)
        return Result(requeue_after=DELETION_CHECK_S)

    async def _outlived(self, binding: Binding) -> bool:
        """Whether the placement is still there and only gave up this cluster. The API is asked, for nothing that should
        stay may be deleted because a cache is behind."""
        for key in parent_key(binding.obj):
            try:
                return not is_deleting(await self._client.get(self._scope.placements, key.name, key.namespace))
            except NotFound:
                return False
        return False

    async def _generate(self, binding: Binding, works: list[Obj]) -> Result | None:
        try:
            order = self._order(binding)
        except LookupError as error:
            await self._fail(
                binding, "WorkSynchronized", "SyncWorkFailed", f"Failed to synchronize the work to the latest: {error}"
            )
            return Result(requeue_after=5.0)
        if order is None:
            return None
        overridden = OVERRIDDEN if binding.overrides != Overrides() else NO_OVERRIDE
        try:
            wanted = make_works(order)
        except OverrideError as error:
            text = f"Failed to apply the override rules on the resources: {error}"
            await self._fail(binding, "Overridden", "OverriddenFailed", text)
            return None
        except EnvelopeError as error:
            text = f"Failed to synchronize the work to the latest: {error}"
            await self._fail(binding, "WorkSynchronized", "SyncWorkFailed", text, overridden)
            return None
        try:
            changed = await self._sync(wanted, works)
        except (Conflict, AlreadyExists):
            raise
        except ApiError as error:
            text = f"Failed to synchronize the work to the latest: {error.message}"
            await self._fail(binding, "WorkSynchronized", "SyncWorkFailed", text, overridden)
            raise
        hold = self._settings.status_hold_s
        if changed and hold and "Applied" not in binding.conditions:
            # The first answers are awaited. Later this state is written: it starts the times of the next anew.
            self._held[key_of(binding.obj)] = self._clock.now() + hold
            return Result(requeue_after=hold)
        if changed:
            under_way = DIFF_IN_PROGRESS if binding.reports_diff else IN_PROGRESS
            await self._write(binding, [overridden, SYNCED, under_way], {})
            return None
        names = {name_of(work) for work in wanted}
        return await self._report(binding, [overridden, SYNCED], [w for w in works if name_of(w) in names])

    def _order(self, binding: Binding) -> Order | None:
        key = next(iter(parent_key(binding.obj)), None)
        member = self._members.get(binding.cluster)
        if key is None:
            return None
        master = self._records.named_snapshot(key, binding.snapshot)
        if master is None or member is None:
            return None
        return Order(
            binding=binding,
            placement=key,
            member=member,
            snapshots=self._records.group(key, master),
            overrides=self._overrides.named(spec_of(binding.obj)),
            is_namespaced=self._catalog.is_namespaced,
            delivery=self._delivery(self._records.placements.get(key)),
        )

    async def _sync(self, wanted: list[Obj], works: list[Obj]) -> bool:
        """Create, update and delete Works; whether anything changed that members have to act on."""
        existing = {name_of(work): work for work in works}
        changed = False
        for work in wanted:
            old = existing.pop(name_of(work), None)
            if old is None:
                await self._create(work)
                changed = True
            elif not is_deleting(old):
                changed |= await self._update(old, work)
        for work in existing.values():
            if not is_deleting(work):
                await remove(self._client, WORKS, work)
                changed = True
        return changed

    async def _create(self, work: Obj) -> None:
        try:
            await self._client.create(WORKS, new_work(work, coalesce=self._settings.coalesce_writes))
        except AlreadyExists:
            # Left by another binding of this placement to the same cluster, or the cache is behind.
            old = await self._client.get(WORKS, name_of(work), namespace_of(work))
            if is_deleting(old):
                raise
            await self._update(old, work)

    async def _update(self, old: Obj, work: Obj) -> bool:
        notes = {**dict.fromkeys(PASSED_ON), **annotations_of(work)}
        merged = with_annotations(with_labels(old, labels_of(work)), notes)
        if spec_of(old) == spec_of(work):
            if labels_of(merged) != labels_of(old) or annotations_of(merged) != annotations_of(old):
                await self._client.update(WORKS, merged)
            return False
        await self._client.update(WORKS, {**merged, "spec": spec_of(work)})
        return True

    # Status

    async def _fail(self, binding: Binding, kind: str, reason: str, text: str, *before: Obj) -> None:
        await self._write(binding, [*before, condition(kind, False, reason, text)], {})

    async def _report(self, binding: Binding, first: list[Obj], works: list[Obj]) -> Result | None:
        report_diff = binding.reports_diff
        wait = self._held.get(key_of(binding.obj), 0.0) - self._clock.now()
        if wait > 0 and not is_answered(works, report_diff=report_diff):
            return Result(requeue_after=wait)
        self._held.pop(key_of(binding.obj), None)
        if not first:
            first = [binding.conditions[kind] for kind in _EARLY if kind in binding.conditions]
        if not report_diff and nothing_reported(works):
            await self._write(binding, [*first, IN_PROGRESS], {})
            return None
        summary = summarize(works, ENDINGS, report_diff=report_diff)
        lists = dict(zip(_LISTS, (summary.failed, summary.drifted, summary.diffed), strict=True))
        await self._write(binding, [*first, *summary.conditions], lists)
        return None

    async def _write(self, binding: Binding, entries: list[Obj], lists: dict[str, list[Obj]]) -> None:
        old = binding.conditions
        conditions = [old["RolloutStarted"]] if "RolloutStarted" in old else []
        if binding.state == BOUND and binding.fresh("RolloutStarted") is None:
            conditions, entries = [], [RELEASED, *entries]
        now = self._clock.timestamp()
        for entry in entries:
            before = [old[entry["type"]]] if entry["type"] in old else []
            conditions += set_condition(before, {**entry, "observedGeneration": binding.generation}, now)
        status: Obj = {"conditions": conditions, **{name: found for name, found in lists.items() if found}}
        await write_status(self._client, self._scope.bindings, binding.obj, status)


_EARLY = ("Overridden", "WorkSynchronized")


def _rollout_started(binding: Obj) -> Obj | None:
    return find(binding, "RolloutStarted")


def _work_changed(old: Obj | None, new: Obj | None) -> bool:
    """Not the Work that we just made, and not the member's own marks on it."""
    if old is None or new is None:
        return new is None or bool(status_of(new))
    return (
        old.get("status") != new.get("status")
        or generation_of(old) != generation_of(new)
        or is_deleting(old) != is_deleting(new)
        or labels_of(old) != labels_of(new)
        or annotations_of(old) != annotations_of(new)
    )
