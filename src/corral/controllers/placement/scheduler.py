"""The placement scheduler: turns a policy snapshot into bindings, and keeps them as members come and go."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.members import Members
from corral.controllers.placement.metrics import PlacementMetrics
from corral.controllers.placement.overrides import OverrideRecords
from corral.controllers.placement.placement_kinds import Records, Scope, parent_key
from corral.controllers.placement.reservations import Reservations
from corral.controllers.placement.writes import drop_finalizer, ensure_finalizer, remove, write_status
from corral.core.conditions import find, is_false, is_true, set_condition
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
)
from corral.core.whole_numbers import whole_number
from corral.decide.placement.bindings import UNSCHEDULED, Binding, Overrides
from corral.decide.placement.clusters import SchedulingError, concerns_scheduling
from corral.decide.placement.delivery import pending_limit
from corral.decide.placement.first_write import BindingDraft, Release, may_release_at_once, new_binding
from corral.decide.placement.progress import JOBS_STARTED, overdue
from corral.decide.placement.scheduling import (
    PICK_N,
    Cycle,
    Question,
    Reuse,
    classify,
    same_decisions,
    schedule,
)
from corral.kinds.fleet import MEMBER_CLUSTERS
from corral.kinds.fleet.names import (
    BINDING_CLEANUP,
    IS_LATEST,
    NUMBER_OF_CLUSTERS,
    PLACEMENT_GENERATION,
    PREVIOUS_STATE,
    SCHEDULER_CLEANUP,
)
from corral.runtime.controller import Manager, Result, Watch, run_all

log = logging.getLogger(__name__)

CACHE_WAIT_S = 0.02
TRIED: Final = "corral.dev/tried-clusters"
"""On a policy snapshot: clusters where the jobs of its placement have waited too long."""


class SchedulerController:
    """One per scope."""

    def __init__(
        self,
        manager: Manager,
        scope: Scope,
        settings: PlacementSettings,
        members: Members,
        overrides: OverrideRecords,
        reservations: Reservations,
    ) -> None:
        self.name = f"placement-scheduler-{scope.word}"
        self._scope = scope
        self._settings = settings
        self._members = members
        self._reservations = reservations
        self._overrides = overrides
        self._awaited: dict[Key, list[Obj]] = {}
        self._client: Client = manager.client
        self._clock = manager.clock
        self._random = manager.random
        self._recorder = manager.recorder.named("scheduler")
        self._records = Records(manager, self._scope)
        self._metrics = manager.metrics.part(PlacementMetrics)
        self._queue = manager.add(
            self,
            watches=[
                Watch(self._scope.policies, map=parent_key, when=_policy_changed),
                Watch(self._scope.placements, when=lambda old, new: new is not None and is_deleting(new)),
                Watch(self._scope.bindings, map=parent_key, when=_binding_changed),
            ],
            workers=4,
        ).queue
        manager.informer(MEMBER_CLUSTERS).on_change(self._on_member)

    # What makes a placement due

    def _on_member(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            for placement in self._records.placements.list():
                self._queue.add(key_of(placement))
        elif old is None or concerns_scheduling(old, new, self._clock.now()):
            for placement in self._records.placements.list():
                if self._may_gain(placement):
                    self._queue.add(key_of(placement))

    def _may_gain(self, placement: Obj) -> bool:
        """Whether one more cluster could matter: never to a placement that has all it asked for."""
        kind = (spec_of(placement).get("policy") or {}).get("placementType") or "PickAll"
        if kind == "PickAll":
            return True
        # The scheduler's own word: the placement's may be held back, and a second look would forget who was not picked.
        policy = self._records.policy(key_of(placement))
        if policy is None or not is_true(policy, "Scheduled"):
            return True
        return status_of(policy).get("observedCRPGeneration") != generation_of(placement)

    # One cycle

    async def reconcile(self, key: Key) -> Result | None:
        placement = self._records.placements.get(key)
        if placement is None:
            self._awaited.pop(key, None)
            self._reservations.release(key)
            return None
        if is_deleting(placement):
            self._reservations.release(key)
            await self._clean_up(placement)
            return None
        if self._is_behind(key):
            return Result(requeue_after=CACHE_WAIT_S)
        policy = self._records.policy(key)
        if policy is None or labels_of(policy).get(IS_LATEST) != "true":
            return None
        placement = await ensure_finalizer(self._client, self._scope.placements, placement, SCHEDULER_CLEANUP)
        wait, failed, began = None, True, self._clock.monotonic()
        self._metrics.workers.inc()
        try:
            wait = await self._cycle(placement, policy)
            failed = False
        except SchedulingError as error:
            self._recorder.event(placement, "Warning", "SchedulingFailed", f"Cannot schedule: {error}")
            log.info("placement cannot be scheduled", extra={"placement": str(key), "error": str(error)})
        finally:
            self._metrics.workers.dec()
            self._metrics.cycle(self._clock.monotonic() - began, failed=failed, again=wait is not None)
        return None if wait is None else Result(requeue_after=wait)

    def _is_behind(self, key: Key) -> bool:
        """Whether the cache has not yet come as far as the last cycle's writes; a cycle on it would make them twice.

        A binding that was seen and has gone again, with its placement or without, is not waited for.
        """
        awaited = [one for one in self._awaited.pop(key, ()) if not self._records.shows_binding(one)]
        if awaited:
            self._awaited[key] = awaited
        return bool(awaited)

    async def _cycle(self, placement: Obj, policy: Obj) -> float | None:
        """One cycle; returns the seconds after which the next is due by itself."""
        key = key_of(placement)
        clusters = self._members.clusters()
        classes = classify(
            self._records.bindings(key), name_of(policy), {cluster.name: cluster for cluster in clusters}
        )
        for binding in classes.deleting:
            await drop_finalizer(self._client, self._scope.bindings, binding.obj, BINDING_CLEANUP)
        frozen = spec_of(policy).get("policy")
        wanted = annotations_of(policy).get(NUMBER_OF_CLUSTERS)
        if (frozen or {}).get("placementType") == "PickN" and wanted is None:
            raise SchedulingError("number of clusters is missing")
        question = Question(
            policy=frozen,
            wanted=int(wanted or 0),
            clusters=self._reservations.adjusted(key, clusters),
            classes=classes,
            now=self._clock.now(),
            namespace=key.namespace,
            avoid=frozenset(filter(None, annotations_of(policy).get(TRIED, "").split(","))),
        )
        if any(binding.cluster in question.avoid for binding in classes.deleting):
            return None  # a job that is moved leaves its old cluster first; its end brings us back
        wait = None
        limit = pending_limit(placement, self._settings.pending_limit)
        if limit is not None and question.kind == PICK_N:
            late, wait = overdue(classes.bound, limit, question.now)
            if late and await self._move(placement, policy, late[0], question):
                return None
            wait = limit if late else wait
        cycle = schedule(question)
        picked = [str(one["clusterName"]) for one in cycle.create]
        self._reservations.reserve(self._scope, key, picked)
        released = self._released_at_once(placement, picked) if picked else {}
        await run_all(self._withdraw(binding) for binding in (*classes.dangling, *cycle.withdraw))
        await run_all(
            self._create(placement, policy, decision, released.get(decision["clusterName"]))
            for decision in cycle.create
        )
        await run_all(self._reuse(key, policy, one) for one in cycle.reuse)
        await self._report(policy, cycle)
        return wait

    def _released_at_once(self, placement: Obj, clusters: Sequence[str]) -> dict[str, Release]:
        """What new bindings are released to with the write that makes them; empty when rollouts have to decide it."""
        key, coalesce = key_of(placement), self._settings.coalesce_writes
        group = self._records.latest_group(key)
        if not may_release_at_once(placement, group, self._records.bindings(key), coalesce=coalesce):
            return {}
        chosen = self._overrides.for_clusters(self._scope, key, group, clusters)
        return {cluster: Release(name_of(group[0]), chosen.get(cluster, Overrides())) for cluster in clusters}

    async def _move(self, placement: Obj, policy: Obj, binding: Binding, question: Question) -> bool:
        """Take jobs that wait too long off their cluster, provided there is another one they have not tried."""
        cluster = binding.cluster
        rest = replace(question.classes, bound=[one for one in question.classes.bound if one is not binding])
        avoid = question.avoid | {cluster}
        if not schedule(replace(question, classes=rest, avoid=avoid)).create:
            return False
        note = {"metadata": {"annotations": {TRIED: ",".join(sorted(avoid))}}}
        await self._client.patch(self._scope.policies, name_of(policy), namespace_of(policy), note)
        await remove(self._client, self._scope.bindings, binding.obj)
        text = f"Jobs have waited too long on cluster {cluster}; another cluster is picked"
        self._recorder.event(placement, "Normal", "JobsMoved", text)
        return True

    def _expect(self, key: Key, written: Obj) -> None:
        self._awaited.setdefault(key, []).append(written)

    async def _create(self, placement: Obj, policy: Obj, decision: Obj, release: Release | None) -> None:
        key = key_of(placement)
        name = f"{key.name[:26]}-{decision['clusterName'][:27]}-{self._random.uid()[:8]}"
        binding = new_binding(BindingDraft(name, placement, name_of(policy), decision), release)
        self._expect(key, await self._client.create(self._scope.bindings, binding))

    async def _reuse(self, key: Key, policy: Obj, reuse: Reuse) -> None:
        spec = {
            **spec_of(reuse.binding.obj),
            "state": reuse.state,
            "schedulingPolicySnapshotName": name_of(policy),
            "clusterDecision": reuse.decision,
        }
        self._expect(key, await self._client.update(self._scope.bindings, {**reuse.binding.obj, "spec": spec}))

    async def _withdraw(self, binding: Binding) -> None:
        marked = with_annotations(binding.obj, {PREVIOUS_STATE: binding.state})
        spec = {**spec_of(binding.obj), "state": UNSCHEDULED}
        await self._client.update(self._scope.bindings, {**marked, "spec": spec})

    async def _report(self, policy: Obj, cycle: Cycle) -> None:
        old = status_of(policy)
        entry = {**cycle.condition, "observedGeneration": generation_of(policy)}
        before = old.get("targetClusters") or []
        # An old list that says the same keeps its order.
        decisions = before if same_decisions(before, cycle.decisions) and _says(old, entry, policy) else cycle.decisions
        status: Obj = {
            "observedCRPGeneration": whole_number(annotations_of(policy).get(PLACEMENT_GENERATION, "")) or 0,
            "conditions": set_condition(old.get("conditions") or [], entry, self._clock.timestamp()),
        }
        if decisions:
            status["targetClusters"] = decisions
        await write_status(self._client, self._scope.policies, policy, status)

    async def _clean_up(self, placement: Obj) -> None:
        if SCHEDULER_CLEANUP not in finalizers_of(placement):
            return
        for binding in self._records.bindings(key_of(placement)):
            kept = await drop_finalizer(self._client, self._scope.bindings, binding.obj, BINDING_CLEANUP)
            if kept is not None and not is_deleting(kept):
                await remove(self._client, self._scope.bindings, kept)
        await drop_finalizer(self._client, self._scope.placements, placement, SCHEDULER_CLEANUP)


def _says(status: Obj, entry: Obj, policy: Obj) -> bool:
    old = find(status.get("conditions") or [], "Scheduled")
    generation = whole_number(annotations_of(policy).get(PLACEMENT_GENERATION, "")) or 0
    return (
        old is not None
        and all(old.get(part) == value for part, value in entry.items())
        and status.get("observedCRPGeneration") == generation
    )


def _binding_changed(old: Obj | None, new: Obj | None) -> bool:
    """A binding that goes, or whose jobs begin to wait."""
    if new is None or is_deleting(new):
        return True
    return is_false(new, JOBS_STARTED) and (old is None or not is_false(old, JOBS_STARTED))


def _policy_changed(old: Obj | None, new: Obj | None) -> bool:
    """A new snapshot, or one whose number, generation or being the latest has changed."""
    if new is None or old is None:
        return new is not None
    return annotations_of(old) != annotations_of(new) or labels_of(old) != labels_of(new)
