"""Executing the stages of an update run: one step as far as it goes, on a private copy of the run's status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.metrics import PlacementMetrics
from corral.controllers.placement.placement_kinds import Scope
from corral.controllers.placement.writes import remove, write_status
from corral.core.conditions import condition, find, set_condition
from corral.core.errors import AlreadyExists
from corral.core.meta import Key, Obj, generation_of, key_of, name_of, namespace_of, spec_of, status_of
from corral.core.timestamps import parse_time
from corral.decide.placement.bindings import BOUND, UNSCHEDULED, Binding, overrides_in
from corral.decide.placement.rollout import STARTED
from corral.decide.placement.selection import CLIENT_ERROR
from corral.decide.placement.staged import RunError, concurrency, stuck_names, wait_of
from corral.kinds.fleet.names import IS_LATEST_APPROVAL, TARGET_RUN, TARGET_STAGE, TASK_TYPE
from corral.runtime.clock import Clock
from corral.runtime.informer import Informer

ABORTED = "cannot continue the updateRun: the stages are aborted: "
WAITING = {
    "before": "Not all before-stage tasks are completed, waiting for approval",
    "after": "All clusters in the stage are updated, waiting for after-stage tasks to complete",
}
_PARTS = ("clusters", "beforeStageTaskStatus", "afterStageTaskStatus")


class Tools(NamedTuple):
    client: Client
    clock: Clock
    scope: Scope
    settings: PlacementSettings
    metrics: PlacementMetrics


def set_on(holder: Obj, entry: Obj, now: str) -> None:
    """Set a condition in the private status `holder`."""
    holder["conditions"] = set_condition(holder.get("conditions") or [], entry, now)


def restamp(status: Obj, generation: int) -> None:
    """Let everything that the private status says hold for another generation of its run."""
    stages = [*(status.get("stagesStatus") or ()), status.get("deletionStageStatus") or {}]
    parts = [part for stage in stages for name in _PARTS for part in stage.get(name) or ()]
    for holder in (status, *stages, *parts):
        if holder.get("conditions"):
            holder["conditions"] = [{**one, "observedGeneration": generation} for one in holder["conditions"]]


def is_done(holder: Obj) -> bool:
    return (find(holder.get("conditions") or [], "Succeeded") or {}).get("status") == "True"


class Execution:
    """One step of one run."""

    def __init__(self, tools: Tools, run: Obj, status: Obj, approvals: Informer) -> None:
        self._tools = tools
        self._run = run
        self._status = status
        self._approvals = approvals
        self._generation = generation_of(run)
        self._now = tools.clock.timestamp()
        self._stops = spec_of(run).get("state") == "Stop"
        self._patient = tools.settings.patient_runs
        self._begun = 0
        """How many clusters this step began with."""
        self._current: Obj | None = None
        """The stage that this step has come to."""

    def _set(self, holder: Obj, kind: str, value: str | bool, reason: str, text: str) -> None:
        set_on(holder, condition(kind, value, reason, text, self._generation), self._now)

    def _progress(self, value: str | bool, reason: str, text: str) -> None:
        self._set(self._status, "Progressing", value, reason, text)

    async def step(self, bindings: Sequence[Binding], placement: Obj, master: Obj) -> float | None:
        """Go on as far as possible; the seconds after which to look again, if anything depends on time."""
        restamp(self._status, self._generation)
        live = {one.cluster: one for one in bindings if one.state != UNSCHEDULED and not one.deleting}
        plans = self._status["stagedUpdateStrategySnapshot"]["stages"]
        for plan, stage in zip(plans, self._status["stagesStatus"], strict=True):
            if is_done(stage):
                continue
            self._current = stage
            finished, wait = await self._stage(plan, stage, live, master)
            if not finished:
                return wait
        if self._stops:
            self._progress(False, "UpdateRunStopped", "The update run has been stopped")
            return None
        return await self._delete(bindings)

    # One stage

    async def _stage(self, plan: Obj, stage: Obj, live: dict[str, Binding], master: Obj) -> tuple[bool, float | None]:
        if "startTime" not in stage:
            if self._stops:
                return self._stopped(stage, [])
            if not await self._approved(stage, "before"):
                self._wait(stage, "before")
                return False, None
            stage["startTime"] = self._now
        under_way = await self._clusters(plan, stage, live, master)
        if all(is_done(cluster) for cluster in stage["clusters"]) and not (self._patient and self._begun):
            if (find(stage.get("conditions") or [], "Progressing") or {}).get("reason") == "StageUpdatingStarted":
                took = self._tools.clock.now() - parse_time(stage["startTime"])
                self._tools.metrics.stage(key_of(self._run), took)
            return await self._after(plan, stage)
        if self._stops:
            return self._stopped(stage, under_way)
        self._set(stage, "Progressing", True, "StageUpdatingStarted", "Clusters in the stage started updating")
        return False, self._next_look(self._watch_for_stuck(stage, under_way))

    def _next_look(self, due: float | None = None) -> float | None:
        """When to look at bindings again: `due`, their changes wake the run; a patient run has to look by itself."""
        return self._tools.settings.run_cluster_wait if self._patient else due

    def _wait(self, stage: Obj, when: str) -> None:
        self._set(stage, "Progressing", False, "StageUpdatingWaiting", WAITING[when])
        text = f"The updateRun is waiting for {when}-stage tasks in stage {stage['stageName']} to complete"
        self._progress(False, "UpdateRunWaiting", text)

    def _stopped(self, stage: Obj, under_way: list[Obj]) -> tuple[bool, float | None]:
        if under_way:
            text = "Waiting for all the updating clusters to finish updating before completing the stop process"
            self._set(stage, "Progressing", "Unknown", "StageUpdatingStopping", text)
            text = (
                "The update run is the process of stopping, waiting for all the updating/deleting clusters to finish"
                " updating before completing the stop process"
            )
            self._progress("Unknown", "UpdateRunStopping", text)
            return False, self._next_look()
        text = "All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed"
        self._set(stage, "Progressing", False, "StageUpdatingStopped", text)
        self._progress(False, "UpdateRunStopped", "The update run has been stopped")
        return False, None

    def _watch_for_stuck(self, stage: Obj, under_way: list[Obj]) -> float | None:
        """Say whether the run progresses or is stuck; seconds until it would be."""
        limit = self._tools.settings.run_stuck_after
        now = self._tools.clock.now()
        ages = {one["clusterName"]: now - parse_time(_since(one, "Started")) for one in under_way}
        stuck = [name for name, age in ages.items() if age >= limit]
        if stuck:
            text = (
                f"The updateRun is stuck waiting for {stuck_names(stuck)} cluster(s) in stage {stage['stageName']} to"
                " finish updating, please check placement status for potential errors"
            )
            self._progress(False, "UpdateRunStuck", text)
            return None
        self._progress(True, "UpdateRunProgressing", "The update run is making progress")
        return min((limit - age for age in ages.values()), default=None)

    async def _clusters(self, plan: Obj, stage: Obj, live: dict[str, Binding], master: Obj) -> list[Obj]:
        """Start and finish clusters; returns those under way."""
        room = concurrency(plan, len(stage["clusters"]))
        under_way: list[Obj] = []
        self._begun = 0
        for cluster in stage["clusters"]:
            if is_done(cluster):
                continue
            binding = live.get(cluster["clusterName"])
            if binding is None:
                raise RunError(f"{ABORTED}the binding of cluster `{cluster['clusterName']}` is gone")
            if find(cluster.get("conditions") or [], "Started") is None:
                idle = self._begun if self._patient else 0
                if self._stops or len(under_way) + idle >= room:
                    continue
                await self._start(cluster, binding, master)
                self._begun += is_done(cluster)
            elif not self._is_ours(cluster, binding, master):
                raise RunError(self._preempted(cluster, stage, binding))
            elif _is_ready(binding):
                self._finish(cluster)
            if not is_done(cluster):
                under_way.append(cluster)
        return under_way

    async def _start(self, cluster: Obj, binding: Binding, master: Obj) -> None:
        if self._is_ours(cluster, binding, master) and binding.fresh("RolloutStarted") is not None:
            if _is_ready(binding):
                self._finish(cluster)
            self._set(cluster, "Started", True, "ClusterUpdatingStarted", "Cluster update started")
            return
        spec = {
            **spec_of(binding.obj),
            "state": BOUND,
            "resourceSnapshotName": name_of(master),
            "applyStrategy": self._status["appliedStrategy"],
        }
        bindings = self._tools.scope.bindings
        body = {**binding.obj, "spec": overrides_in(cluster).put(spec)}
        written = await self._tools.client.update(bindings, body)
        index = spec_of(self._run).get("resourceSnapshotIndex") or ""
        text = f"{STARTED}, resourceSnapshotIndex: {index}, updateRun: {name_of(self._run)}"
        entry = condition("RolloutStarted", True, "RolloutStarted", text, generation_of(written))
        old = status_of(written)
        conditions = set_condition(old.get("conditions") or [], entry, self._now)
        await write_status(self._tools.client, bindings, written, {**old, "conditions": conditions})
        self._set(cluster, "Started", True, "ClusterUpdatingStarted", "Cluster update started")

    def _finish(self, cluster: Obj) -> None:
        self._set(cluster, "Succeeded", True, "ClusterUpdatingSucceeded", "Cluster update completed successfully")

    def _is_ours(self, cluster: Obj, binding: Binding, master: Obj) -> bool:
        return (
            binding.state == BOUND
            and binding.snapshot == name_of(master)
            and binding.apply_strategy == self._status["appliedStrategy"]
            and binding.overrides == overrides_in(cluster)
        )

    def _preempted(self, cluster: Obj, stage: Obj, binding: Binding) -> str:
        return (
            f"{ABORTED}{CLIENT_ERROR}the binding of the updating cluster `{cluster['clusterName']}` in the stage"
            f" `{stage['stageName']}` is not up-to-date with the desired status, please check the status of binding"
            f" `{namespace_of(binding.obj)}/{binding.name}` and see if there is a concurrent updateRun referencing the"
            " same placement and updating the same cluster: preempted"
        )

    # Tasks

    async def _after(self, plan: Obj, stage: Obj) -> tuple[bool, float | None]:
        tasks = stage.get("afterStageTaskStatus") or []
        if tasks:
            entry = find(stage.get("conditions") or [], "Progressing") or {}
            if entry.get("reason") != "StageUpdatingWaiting":
                self._wait(stage, "after")
            elapsed, wait = self._timed_wait(plan, stage)
            approved = await self._approved(stage, "after")
            if not elapsed or not approved:
                self._wait(stage, "after")
                return False, wait
        text = "All clusters in the stage are updated and after-stage tasks are completed"
        self._set(stage, "Progressing", False, "StageUpdatingSucceeded", text)
        self._set(stage, "Succeeded", True, "StageUpdatingSucceeded", "Stage update completed successfully")
        stage["endTime"] = self._now
        self._progress(True, "UpdateRunProgressing", "The update run is making progress")
        return True, None

    def _timed_wait(self, plan: Obj, stage: Obj) -> tuple[bool, float | None]:
        for task, entry in zip(plan.get("afterStageTasks") or (), stage.get("afterStageTaskStatus") or (), strict=True):
            if task["type"] != "TimedWait" or find(entry.get("conditions") or [], "WaitTimeElapsed"):
                continue
            left = parse_time(_since(stage, "Progressing")) + wait_of(task) - self._tools.clock.now()
            if left > 0:
                return False, left
            self._set(entry, "WaitTimeElapsed", True, "AfterStageTaskWaitTimeElapsed", "Wait time elapsed")
        return True, None

    async def _approved(self, stage: Obj, when: str) -> bool:
        """Whether all approvals before or after a stage are given; asks for them when nobody has."""
        for task in stage.get(f"{when}StageTaskStatus") or ():
            if task["type"] != "Approval" or find(task.get("conditions") or [], "ApprovalRequestApproved"):
                continue
            request = self._approvals.get(Key(namespace_of(self._run), task["approvalRequestName"]))
            if request is None:
                await self._ask(task["approvalRequestName"], stage["stageName"], when)
            self._set(
                task,
                "ApprovalRequestCreated",
                True,
                "StageTaskApprovalRequestCreated",
                "ApprovalRequest object is created",
            )
            if request is None or not await self._accept(request):
                return False
            asked = parse_time(request["metadata"]["creationTimestamp"])
            self._tools.metrics.approval(key_of(self._run), when, self._tools.clock.now() - asked)
            self._set(
                task,
                "ApprovalRequestApproved",
                True,
                "StageTaskApprovalRequestApproved",
                "ApprovalRequest object is approved",
            )
        return True

    async def _ask(self, name: str, stage: str, when: str) -> None:
        metadata: Obj = {
            "name": name,
            "labels": {
                TARGET_RUN: name_of(self._run),
                TARGET_STAGE: stage,
                TASK_TYPE: f"{when}Stage",
                IS_LATEST_APPROVAL: "true",
            },
        }
        if namespace_of(self._run):
            metadata["namespace"] = namespace_of(self._run)
        body = {"metadata": metadata, "spec": {"parentStageRollout": name_of(self._run), "targetStage": stage}}
        try:
            await self._tools.client.create(self._tools.scope.approvals, body)
        except AlreadyExists:
            pass  # the cache is behind

    async def _accept(self, request: Obj) -> bool:
        """Whether a request is approved; an approval that was accepted once cannot be taken back."""
        if (find(request, "ApprovalAccepted") or {}).get("status") == "True":
            return True
        approved = find(request, "Approved") or {}
        if approved.get("status") != "True" or approved.get("observedGeneration", 0) < generation_of(request):
            return False
        text = "The approval request has been approved and cannot be reverted"
        entry = condition("ApprovalAccepted", True, "ApprovalRequestApprovalAccepted", text, generation_of(request))
        old = status_of(request)
        conditions = set_condition(old.get("conditions") or [], entry, self._now)
        await write_status(self._tools.client, self._tools.scope.approvals, request, {**old, "conditions": conditions})
        return True

    # The end

    async def _delete(self, bindings: Sequence[Binding]) -> float | None:
        stage = self._status["deletionStageStatus"]
        stage.setdefault("startTime", self._now)
        self._current = stage
        left = False
        for cluster in stage.get("clusters") or ():
            if is_done(cluster):
                continue
            kept = {entry["clusterName"] for one in self._status["stagesStatus"] for entry in one["clusters"]}
            doomed = [
                one
                for one in bindings
                if one.cluster == cluster["clusterName"]
                and (one.state == UNSCHEDULED or cluster["clusterName"] not in kept)
            ]
            if not doomed:
                self._finish(cluster)
                continue
            left = True
            self._set(cluster, "Started", True, "ClusterUpdatingStarted", "Cluster update started")
            for binding in doomed:
                if not binding.deleting:
                    await remove(self._tools.client, self._tools.scope.bindings, binding.obj)
        if left:
            self._set(stage, "Progressing", True, "StageUpdatingStarted", "Clusters in the stage started updating")
            self._progress(True, "UpdateRunProgressing", "The update run is making progress")
            return self._next_look()
        text = "All clusters in the stage are updated and after-stage tasks are completed"
        self._set(stage, "Progressing", False, "StageUpdatingSucceeded", text)
        self._set(stage, "Succeeded", True, "StageUpdatingSucceeded", "Stage update completed successfully")
        stage["endTime"] = self._now
        self._progress(False, "UpdateRunSucceeded", "All stages are completed")
        self._set(self._status, "Succeeded", True, "UpdateRunSucceeded", "All stages are completed successfully")
        return None

    def abort(self, message: str) -> None:
        """End the run: what it planned is no longer possible."""
        stage = self._current
        if stage is not None:
            text = "Stage update aborted due to a non-recoverable error"
            self._set(stage, "Progressing", False, "StageUpdatingFailed", text)
            self._set(stage, "Succeeded", False, "StageUpdatingFailed", message)
        text = "The stages are aborted due to a non-recoverable error"
        self._progress(False, "UpdateRunFailed", text)
        self._set(self._status, "Succeeded", False, "UpdateRunFailed", message)


def _since(holder: Obj, kind: str) -> str:
    return str((find(holder.get("conditions") or [], kind) or {})["lastTransitionTime"])


def _is_ready(binding: Binding) -> bool:
    return any(binding.is_fresh(kind, "True") for kind in ("Available", "DiffReported"))
