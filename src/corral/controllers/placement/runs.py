"""Staged update runs: a rollout that goes stage by stage, with approvals and waits in between."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.members import Members
from corral.controllers.placement.metrics import PlacementMetrics
from corral.controllers.placement.overrides import OverrideRecords
from corral.controllers.placement.placement_kinds import Records, Scope, parent_key
from corral.controllers.placement.resources import ResourceSnapshots
from corral.controllers.placement.selections import Selections
from corral.controllers.placement.stages import Execution, Tools, set_on
from corral.controllers.placement.writes import drop_finalizer, remove, write_status
from corral.core.conditions import condition, find
from corral.core.meta import (
    Key,
    Obj,
    finalizers_of,
    generation_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    with_finalizer,
)
from corral.core.whole_numbers import whole_number
from corral.decide.placement.selection import SelectionError
from corral.decide.placement.snapshots import index_of
from corral.decide.placement.staged import RunError, deletion_stage, make_stages, split_bindings, user_error
from corral.decide.placement.strategy import strategy_of
from corral.kinds.fleet.names import POLICY_INDEX, RESOURCE_INDEX, RUN_FINALIZER, TARGET_RUN
from corral.runtime.changes import changed
from corral.runtime.controller import Manager, Result, Watch


def _target_run(request: Obj) -> Iterable[Key]:
    run = labels_of(request).get(TARGET_RUN)
    return (Key(namespace_of(request), run),) if run else ()


class RunController:
    """One per scope."""

    def __init__(
        self,
        manager: Manager,
        scope: Scope,
        settings: PlacementSettings,
        members: Members,
        overrides: OverrideRecords,
        selections: Selections,
    ) -> None:
        self.name = f"update-run-{scope.word}"
        self._scope = scope
        self._settings = settings
        self._members = members
        self._overrides = overrides
        self._selections = selections
        self._client: Client = manager.client
        self._clock = manager.clock
        self._records = Records(manager, self._scope)
        self._metrics = manager.metrics.part(PlacementMetrics)
        self._resources = ResourceSnapshots(manager.client, manager.clock, self._records, self._settings)
        self._runs = manager.informer(self._scope.runs)
        self._runs.add_index("placement", _placement)
        self._strategies = manager.informer(self._scope.strategies)
        self._approvals = manager.informer(self._scope.approvals)
        watches = [Watch(self._scope.approvals, map=_target_run)]
        if self._settings.patient_runs:
            watches.append(Watch(self._scope.runs, when=changed(generation_of)))
        else:
            watches += [Watch(self._scope.runs), Watch(self._scope.bindings, map=self._runs_of)]
        manager.add(self, watches=watches, workers=2)

    def _runs_of(self, binding: Obj) -> Iterable[Key]:
        for parent in parent_key(binding):
            yield from map(key_of, self._runs.by_index("placement", str(parent)))

    async def reconcile(self, key: Key) -> Result | None:
        run = self._runs.get(key)
        if run is None:
            self._metrics.forget_run(key)
            return None
        if is_deleting(run):
            await self._clean_up(run)
            return None
        run = await self._adopt(run)
        initialized = find(run, "Initialized")
        if find(run, "Succeeded") is not None or (initialized is not None and initialized["status"] == "False"):
            return None
        status: Obj = copy.deepcopy(status_of(run))
        wait: float | None = None
        if initialized is None:
            await self._initialize(run, status)
            wait = 0.0
        elif spec_of(run).get("state") in ("Run", "Stop"):
            wait = await self._execute(run, status)
        await write_status(self._client, self._scope.runs, run, status)
        self._metrics.run(run, status, self._clock.now())
        return None if wait is None else Result(requeue_after=max(wait, 0.01))

    async def _adopt(self, run: Obj) -> Obj:
        if RUN_FINALIZER in finalizers_of(run):
            return run
        adopted = with_finalizer(run, RUN_FINALIZER)
        spec = {"resourceSnapshotIndex": "", **spec_of(adopted)}
        return await self._client.update(self._scope.runs, {**adopted, "spec": spec})

    async def _clean_up(self, run: Obj) -> None:
        if RUN_FINALIZER not in finalizers_of(run):
            return
        for request in self._approvals.list(namespace_of(run)):
            if key_of(run) in _target_run(request):
                await remove(self._client, self._scope.approvals, request)
        await drop_finalizer(self._client, self._scope.runs, run, RUN_FINALIZER)

    # Initialization

    async def _initialize(self, run: Obj, status: Obj) -> None:
        now, generation = self._clock.timestamp(), generation_of(run)
        try:
            await self._prepare(run, status)
        except RunError as error:
            if error.stages is not None:
                status["stagesStatus"] = error.stages
            entry = condition("Initialized", False, "UpdateRunInitializedFailed", str(error), generation)
        else:
            text = "The UpdateRun initialized successfully"
            entry = condition("Initialized", True, "UpdateRunInitializedSuccessfully", text, generation)
        set_on(status, entry, now)

    async def _prepare(self, run: Obj, status: Obj) -> None:
        """Fill in the run's status. Raises RunError at the first thing that is wrong."""
        key = Key(namespace_of(run), str(spec_of(run)["placementName"]))
        placement = self._records.placements.get(key)
        if placement is None:
            raise user_error("parent placement not found")
        rollout = strategy_of(placement)
        if not rollout.external:
            raise user_error("parent placement does not have an external rollout strategy")
        status["appliedStrategy"] = rollout.apply
        policy = self._policy(key)
        update, delete = split_bindings(self._records.bindings(key), name_of(policy))
        status["policySnapshotIndexUsed"] = labels_of(policy).get(POLICY_INDEX, "")
        status["policyObservedClusterCount"] = len(update)
        if not update and not delete:
            raise user_error(
                "no scheduled or to-be-deleted bindings found for the latest policy snapshot"
                f" {key.namespace}/{name_of(policy)}"
            )
        strategy_key = Key(namespace_of(run), str(spec_of(run)["stagedRolloutStrategyName"]))
        strategy = self._strategies.get(strategy_key)
        if strategy is None:
            raise user_error(f"referenced updateStrategy not found: `{strategy_key.namespace}/{strategy_key.name}`")
        status["stagedUpdateStrategySnapshot"] = spec_of(strategy)
        members = {one.cluster: member for one in update if (member := self._members.get(one.cluster)) is not None}
        status["stagesStatus"] = make_stages(name_of(run), strategy, update, members, {})
        status["deletionStageStatus"] = deletion_stage(delete)
        master = await self._snapshot(run, placement)
        group = self._records.group(key, master) or [master]
        chosen = self._overrides.for_clusters(self._scope, key, group, members)
        status["stagesStatus"] = make_stages(name_of(run), strategy, update, members, chosen)
        status["resourceSnapshotIndexUsed"] = labels_of(master).get(RESOURCE_INDEX, "")

    def _policy(self, key: Key) -> Obj:
        policy = self._records.policy(key)
        scheduled = None if policy is None else find(policy, "Scheduled")
        if policy is None:
            raise user_error(f"no latest policy snapshot found for placement `{key.namespace}/{key.name}`")
        if scheduled is None or scheduled["status"] != "True":
            raise user_error(f"policy snapshot `{name_of(policy)}` not fully scheduled yet")
        return policy

    async def _snapshot(self, run: Obj, placement: Obj) -> Obj:
        """The resource snapshot to roll out: the one asked for, or what is selected now."""
        key = key_of(placement)
        wanted = str(spec_of(run).get("resourceSnapshotIndex") or "")
        if not wanted:
            try:
                selected = await self._selections.objects(self._scope, placement)
            except SelectionError as error:
                raise RunError(f"cannot continue the updateRun: failed to validate the updateRun: {error}") from error
            # What the user sees now counts, unless changes are to be collected first, as upstream does.
            at_once = not self._settings.patient_runs
            return (await self._resources.ensure(placement, selected, at_once=at_once)).master
        index = whole_number(wanted)
        if index is None:
            raise user_error(f"invalid resource snapshot index `{wanted}` provided, expected an integer >= 0")
        found = [one for one in self._records.snapshots(key) if index_of(one, RESOURCE_INDEX) == index]
        if not found:
            where = f"{key.namespace}/{key.name}"
            raise user_error(f"no resourceSnapshots with index `{wanted}` found for placement `{where}`")
        return min(found, key=lambda one: not name_of(one).endswith("-snapshot"))

    # Execution

    async def _execute(self, run: Obj, status: Obj) -> float | None:
        key = Key(namespace_of(run), str(spec_of(run)["placementName"]))
        execution = Execution(
            Tools(self._client, self._clock, self._scope, self._settings, self._metrics), run, status, self._approvals
        )
        try:
            placement, master = self._validate(key, status)
            return await execution.step(self._records.bindings(key), placement, master)
        except RunError as error:
            execution.abort(str(error))
            return None

    def _validate(self, key: Key, status: Obj) -> tuple[Obj, Obj]:
        """The placement and the snapshot to roll out, if the plan still stands."""
        placement = self._records.placements.get(key)
        if placement is None or is_deleting(placement):
            raise user_error("parent placement not found")
        if strategy_of(placement).apply != status.get("appliedStrategy"):
            raise user_error("the applyStrategy in the updateRun is outdated")
        policy = self._policy(key)
        used = status.get("policySnapshotIndexUsed")
        if labels_of(policy).get(POLICY_INDEX) != used:
            raise user_error(
                f"the policy snapshot index used in the updateRun is outdated, latest:"
                f" {labels_of(policy).get(POLICY_INDEX)}, recorded: {used}"
            )
        index = str(status.get("resourceSnapshotIndexUsed") or "")
        for one in self._records.snapshots(key):
            if labels_of(one).get(RESOURCE_INDEX) == index and name_of(one).endswith("-snapshot"):
                return placement, one
        raise user_error(f"no resourceSnapshots with index `{index}` found for placement `{key.namespace}/{key.name}`")


def _placement(run: Obj) -> Iterable[str]:
    return (str(Key(namespace_of(run), str(spec_of(run).get("placementName") or ""))),)
