"""The Workload controller: everything in a Workload's life that is neither scheduling nor the job itself.

Deactivation, stopped queues, admission checks, back-off after an eviction, time limits, readiness deadlines, retention and
orphans. Each step is one write; the change it makes wakes the next one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from corral.controllers.queueing import checks, unadmitted, variants
from corral.controllers.queueing.context import FIELD_MANAGER, Context
from corral.controllers.queueing.metrics import QueueingMetrics, queued_since
from corral.controllers.queueing.unadmitted import Problem
from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import (
    Key,
    Obj,
    finalizers_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
    with_spec,
    with_status,
    without_finalizer,
)
from corral.core.timestamps import format_time, parse_time
from corral.decide.queueing.state import QueueingState
from corral.jobs import lifecycle
from corral.jobs import workload as wl
from corral.kinds.dynamic_resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS, names
from corral.runtime.controller import Manager, Result, Watch

CAUSE_TEXTS = {
    "RequeuingLimitExceeded": "exceeding the maximum number of re-queuing retries",
    "MaximumExecutionTimeExceeded": "exceeding the maximum execution time",
}
ITS_TURN = "The workload is waiting for its turn"
LOOK_AGAIN_S = 0.1
STOPPED_REASONS = {
    names.BY_CLUSTER_QUEUE_STOPPED: ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
    names.BY_LOCAL_QUEUE_STOPPED: ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
}

Done = Result | None
Step = Callable[[Obj], Awaitable[tuple[bool, float | None]]]
"""A step says whether it wrote something, and when it wants to be asked again."""


class WorkloadController:
    """Moves Workloads through their life."""

    name = "kueue-workload-controller"

    def __init__(self, context: Context, metrics: QueueingMetrics, state: QueueingState | None = None) -> None:
        """`state` knows what the scheduler found out about equal workloads."""
        self.context = context
        self.metrics = metrics
        self.state = state
        self.caches = context.caches
        self.recorder = context.recorder.named(self.name)
        self._steps: tuple[Step, ...] = (
            self._deactivate,
            self._reactivate,
            self._restart,
            self._end_backoff,
            self._sync_gates,
            self._hold_at_gate,
            self._drain,
            self._sync_checks,
            self._act_on_checks,
            self._sync_admitted,
            self._explain_waiting,
            self._limit_execution,
            self._require_readiness,
        )

    def setup(self, manager: Manager) -> None:
        workers = self.context.config.workers.get("Workload.kueue.x-k8s.io", 10)
        manager.add(
            self,
            watches=[
                Watch(WORKLOADS),
                Watch(CLUSTER_QUEUES, map=self._of_cluster_queue, when=_queue_changed),
                Watch(LOCAL_QUEUES, map=self._of_local_queue, when=_queue_changed),
                *self._device_watches(),
            ],
            workers=workers,
        )

    def _device_watches(self) -> list[Watch]:
        """Whatever devices depend on may let them be counted, or no more."""
        if not self.context.config.gates["KueueDRAIntegration"]:
            return []
        kinds = (DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES)
        return [Watch(kind, map=self._using_devices) for kind in kinds]

    def _using_devices(self, _: Obj) -> Iterable[Key]:
        return self.state.device_users() if self.state is not None else ()

    def _of_cluster_queue(self, queue: Obj) -> Iterable[Key]:
        return [key_of(workload) for workload in self.caches.workloads_of_cluster_queue(name_of(queue))]

    def _of_local_queue(self, queue: Obj) -> Iterable[Key]:
        return [key_of(workload) for workload in self.caches.workloads_of_local_queue(key_of(queue))]

    async def reconcile(self, key: Key) -> Result | None:
        workload = self.caches.workloads.get(key)
        if workload is None:
            return None
        if wl.is_finished(workload):
            return await self._retire(workload)
        if await self._finish_orphan(workload):
            return None
        if is_deleting(workload) or await self._become_parent(workload):
            return None
        waits: list[float] = []
        for step in self._steps:
            wrote, wait = await step(workload)
            if wrote:
                return None
            if wait is not None:
                waits.append(max(0.0, wait))
        return Result(requeue_after=min(waits)) if waits else None

    async def _become_parent(self, workload: Obj) -> bool:
        """In a queue that admits concurrently, variants are queued in a workload's place."""
        if not self.context.config.gates["ConcurrentAdmission"] or variants.is_parent(workload):
            return False
        _, queue = self._queues(workload)
        if variants.parent_of(workload) is not None or variants.policy_of(queue) is None:
            return False
        await self.context.client.update(WORKLOADS, variants.marked_as_parent(workload), manager=FIELD_MANAGER)
        return True

    async def _write(self, workload: Obj) -> tuple[bool, None]:
        await self.context.write_status(workload)
        return True, None

    def _queues(self, workload: Obj) -> tuple[Obj | None, Obj | None]:
        """The LocalQueue and the ClusterQueue of a workload: the one holding its quota, else the one it waits for."""
        local = self.caches.local_queues.get(wl.local_queue_key(workload))
        name = wl.cluster_queue_of(workload) or (str(spec_of(local).get("clusterQueue", "")) if local else "")
        return local, (self.caches.cluster_queues.get(Key("", name)) if name else None)

    def _required(self, workload: Obj) -> list[str]:
        if self._is_parent(workload):
            return []
        _, queue = self._queues(workload)
        if queue is None:
            return [state["name"] for state in wl.check_states_of(workload)]
        return checks.required_checks(queue, workload)

    # The end

    async def _retire(self, workload: Obj) -> Result | None:
        """A finished Workload loses its finalizer when nobody owns it, and goes after its retention time."""
        if not owner_references_of(workload) and names.RESOURCE_IN_USE in finalizers_of(workload):
            await self._remove_finalizer(workload)
            return None
        keep = self.context.config.retention.after_finished_s
        if keep is None:
            return None
        finished = conditions.find(workload, names.FINISHED) or {}
        left = parse_time(finished["lastTransitionTime"]) + keep - self.context.clock.now()
        if left > 0:
            return Result(requeue_after=left)
        await self._delete(workload, "Deleted finished workload due to elapsed retention")
        return None

    async def _delete(self, workload: Obj, message: str) -> None:
        """Our finalizer goes first, as nobody may be left to remove it; an object already on its way needs no more."""
        workload = await self._remove_finalizer(workload)
        if is_deleting(workload):
            return
        try:
            await self.context.client.delete(WORKLOADS, name_of(workload), namespace_of(workload), uid=uid_of(workload))
        except NotFound:
            return  # gone already
        self.recorder.event(workload, "Normal", "Deleted", message)

    async def _remove_finalizer(self, workload: Obj) -> Obj:
        if names.RESOURCE_IN_USE not in finalizers_of(workload):
            return workload
        new = without_finalizer(workload, names.RESOURCE_IN_USE)
        return await self.context.client.update(WORKLOADS, new, manager=FIELD_MANAGER)

    async def _finish_orphan(self, workload: Obj) -> bool:
        """A Workload whose job is gone ends; one that is being deleted without owners is let go."""
        if owner_references_of(workload):
            return False
        if is_deleting(workload):
            await self._remove_finalizer(workload)
            return True
        if names.JOB_UID not in labels_of(workload) or not self.context.config.gates["FinishOrphanedWorkloads"]:
            return False
        message = "The workload's owner no longer exists"
        done = lifecycle.finish(workload, "OwnerNotFound", message, self.context.now())
        await self.context.write_status(done)
        self.metrics.finished(done)
        return True

    # Deactivation

    async def _deactivate(self, workload: Obj) -> tuple[bool, float | None]:
        target = conditions.find(workload, names.DEACTIVATION_TARGET)
        marked = target is not None and target.get("status") == "True"
        if wl.is_active(workload):
            if not marked:
                return False, None
            inactive = with_spec(workload, {**spec_of(workload), "active": False})
            await self.context.client.update(WORKLOADS, inactive, manager=FIELD_MANAGER)
            return True, None
        if wl.is_evicted(workload):
            return await self._retain_deactivated(workload)
        cause, message = "", "The workload is deactivated"
        if marked and target is not None:
            cause, message = str(target["reason"]), f"{message} due to {target['message']}"
        new = lifecycle.without_condition(workload, names.DEACTIVATION_TARGET) if target else workload
        new = lifecycle.evict(new, names.BY_DEACTIVATION, message, self.context.now(), cause=cause)
        status = {name: value for name, value in status_of(new).items() if name != "requeueState"}
        await self._evicted(with_status(new, status), names.BY_DEACTIVATION, message, cause)
        return True, None

    async def _retain_deactivated(self, workload: Obj) -> tuple[bool, float | None]:
        """Without a job that would go first, the Workload itself goes after its retention time."""
        left = self.context.retention_left(workload)
        jobs = any(owner.get("kind") != "Pod" for owner in owner_references_of(workload))
        if left is None or jobs or wl.has_quota(workload):
            return False, None
        if left > 0:
            return False, left
        await self._delete(workload, "Deleted workload: deactivation retention period expired")
        return True, None

    async def _evicted(self, workload: Obj, reason: str, message: str, cause: str = "") -> None:
        """Write an eviction and tell about it."""
        await self.context.write_status(workload)
        named = (conditions.find(workload, names.EVICTED) or {}).get("reason", reason)
        self.recorder.event(workload, "Normal", f"EvictedDueTo{named}", message)
        self.metrics.evicted(workload, reason, cause, self.context.clock.now())

    async def _reactivate(self, workload: Obj) -> tuple[bool, float | None]:
        requeued = conditions.find(workload, names.REQUEUED) or {}
        blocked = requeued.get("status") == "False" and str(requeued.get("reason", "")).startswith("Deactivated")
        if not wl.is_active(workload) or not blocked:
            return False, None
        new = lifecycle.with_condition(
            workload, names.REQUEUED, True, "Reactivated", "The workload was reactivated", self.context.now()
        )
        status = {name: value for name, value in status_of(new).items() if name != "requeueState"}
        return await self._write(with_status(new, status))

    # Back-off and restart

    async def _end_backoff(self, workload: Obj) -> tuple[bool, float | None]:
        requeued = conditions.find(workload, names.REQUEUED) or {}
        waiting = requeued.get("status") == "False" and requeued.get("reason") in (
            names.BY_PODS_READY_TIMEOUT,
            names.BY_ADMISSION_CHECK,
        )
        if not waiting or wl.is_single_pod(workload):
            return False, None
        state = status_of(workload).get("requeueState") or {}
        due = parse_time(state["requeueAt"]) if state.get("requeueAt") else 0.0
        left = due - self.context.clock.now()
        if left > 0:
            return False, left
        new = lifecycle.with_condition(
            workload, names.REQUEUED, True, "BackoffFinished", "The workload backoff was finished", self.context.now()
        )
        if state:
            kept = {name: value for name, value in state.items() if name != "requeueAt"}
            new = with_status(new, {**status_of(new), "requeueState": kept})
        return await self._write(new)

    async def _restart(self, workload: Obj) -> tuple[bool, float | None]:
        requeued = conditions.find(workload, names.REQUEUED) or {}
        text = STOPPED_REASONS.get(str(requeued.get("reason", "")))
        if requeued.get("status") != "False" or text is None or wl.is_single_pod(workload):
            return False, None
        local, queue = self._queues(workload)
        owner = queue if requeued["reason"] == names.BY_CLUSTER_QUEUE_STOPPED else local
        if owner is None or _is_stopped(owner):
            return False, None
        return await self._write(
            lifecycle.with_condition(workload, names.REQUEUED, True, text[0], text[1], self.context.now())
        )

    async def _sync_gates(self, workload: Obj) -> tuple[bool, float | None]:
        """Preemption gates of the spec appear closed in the status."""
        wanted = [gate["name"] for gate in spec_of(workload).get("preemptionGates") or []]
        held = {gate["name"]: gate for gate in status_of(workload).get("preemptionGates") or []}
        if list(held) == wanted:
            return False, None
        now = self.context.now()
        closed = {"position": "Closed", "lastTransitionTime": now}
        gates = [held.get(name) or {"name": name, **closed} for name in wanted]
        return await self._write(with_status(workload, {**status_of(workload), "preemptionGates": gates}))

    # Queues that stop or go

    async def _drain(self, workload: Obj) -> tuple[bool, float | None]:
        """A stopped or deleted queue takes quota back: from running workloads only when it is drained."""
        if not wl.has_quota(workload) or wl.is_evicted(workload):
            return False, None
        local, queue = self._queues(workload)
        if queue is not None and _policy(queue) == "HoldAndDrain":
            await self._evict(workload, names.BY_CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped")
            return True, None
        if local is not None and _policy(local) == "HoldAndDrain":
            await self._evict(workload, names.BY_LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped")
            return True, None
        if wl.is_admitted(workload):
            return False, None
        problem = _lost_queue(workload, local, queue)
        if problem is None:
            return False, None
        reason, message = problem.under(self.context.config.gates)
        return await self._write(self._released(workload, reason, message))

    def _released(self, workload: Obj, reason: str, message: str) -> Obj:
        required = [state["name"] for state in wl.check_states_of(workload)]
        return lifecycle.release(workload, required, self.context.now(), message=message, reason=reason)

    async def _evict(self, workload: Obj, reason: str, message: str, cause: str = "") -> None:
        new = lifecycle.evict(workload, reason, message, self.context.now(), cause=cause)
        await self._evicted(new, reason, message, cause)

    # Waiting

    async def _hold_at_gate(self, workload: Obj) -> tuple[bool, float | None]:
        """A gated workload has no quota and says so, until the last gate is gone."""
        if wl.is_admitted(workload):
            return False, None
        wanted = unadmitted.admission_gates(workload, self.context.config.gates)
        held = (conditions.find(workload, names.QUOTA_RESERVED) or {}).get("reason") == unadmitted.GATED
        if bool(wanted) == held:
            return False, None
        now = self.context.now()
        if wanted:
            reason, message = unadmitted.gated(wanted)
            has_quota = wl.has_quota(workload)
            new = (
                self._released(workload, reason, message)
                if has_quota
                else lifecycle.pending(workload, reason, message, now)
            )
            event = "AdmissionGated", f"Workload admission is gated by: {wanted}"
        else:
            reason = "PendingEvaluation" if unadmitted.is_granular(self.context.config.gates) else "Pending"
            new = lifecycle.pending(workload, reason, unadmitted.GATE_CLEARED, now)
            event = "AdmissionGateCleared", "Admission gate cleared, workload is now admissible"
        await self._write(new)
        self.recorder.event(workload, "Normal", *event)
        return True, None

    async def _explain_waiting(self, workload: Obj) -> tuple[bool, float | None]:
        """A waiting workload whose queue cannot take it says so."""
        gates = self.context.config.gates
        if wl.has_quota(workload):
            return False, None
        if wl.is_evicted(workload) and not wl.is_active(workload) and not unadmitted.is_granular(gates):
            return False, None
        if unadmitted.admission_gates(workload, gates) and not unadmitted.is_granular(gates):
            return False, None
        found = unadmitted.why_waiting(workload, self._queue_problem(workload), gates, self.state)
        if found is None:
            held = conditions.find(workload, names.QUOTA_RESERVED) or {}
            stale = str(held.get("message", "")).endswith((" is inactive", " doesn't exist"))
            if held.get("reason") != "Inadmissible" or not stale or unadmitted.is_granular(gates):
                return False, None
            if self.state is not None and not self.state.is_at_rest(key_of(workload), self.context.clock.now()):
                return False, LOOK_AGAIN_S
            # Its queue takes it again, and the scheduler had nothing to say about it.
            found = (self.state and self.state.told(key_of(workload))) or ("Pending", ITS_TURN)
        new = lifecycle.pending(workload, *found, self.context.now())
        return (False, None) if new is workload else await self._write(new)

    def _queue_problem(self, workload: Obj) -> Problem | None:
        uncounted = self.state.uncounted(key_of(workload)) if self.state is not None else ""
        if uncounted:
            return Problem("Misconfigured", uncounted)
        local, queue = self._queues(workload)
        if local is None:
            return Problem("Misconfigured", f"LocalQueue {wl.queue_of(workload)} doesn't exist")
        if _is_stopped(local):
            return Problem("Suspended", f"LocalQueue {name_of(local)} is inactive")
        name = str(spec_of(local).get("clusterQueue", ""))
        if queue is None:
            return Problem("Misconfigured", f"ClusterQueue {name} doesn't exist")
        if _is_stopped(queue) or conditions.is_false(queue, names.ACTIVE):
            return Problem("Suspended", f"ClusterQueue {name} is inactive")
        return None

    # Admission checks

    def _is_parent(self, workload: Obj) -> bool:
        """Parents have no checks of their own; their variants have them."""
        return self.context.config.gates["ConcurrentAdmission"] and variants.is_parent(workload)

    async def _sync_checks(self, workload: Obj) -> tuple[bool, float | None]:
        _, queue = self._queues(workload)
        if queue is None or is_deleting(queue) or self._is_parent(workload):
            return False, None
        new = checks.sync_check_states(workload, checks.required_checks(queue, workload), self.context.now())
        if new is workload:
            return False, None
        await self.context.replace_status(new)
        return True, None

    async def _act_on_checks(self, workload: Obj) -> tuple[bool, float | None]:
        rejected = checks.in_state(workload, names.REJECTED)
        if rejected and not conditions.is_true(workload, names.DEACTIVATION_TARGET) and wl.is_active(workload):
            message = f"{_which(rejected)} in Rejected state: {checks.described(rejected)}"
            self.recorder.event(workload, "Warning", "AdmissionCheckRejected", f"Deactivated due to {message}")
            return await self._write(
                lifecycle.deactivation_target(workload, names.BY_ADMISSION_CHECK, message, self.context.now())
            )
        retry = checks.in_state(workload, names.RETRY)
        if not retry or wl.is_evicted(workload):
            return False, None
        message = f"Evicted due to {_which(retry)} in Retry state: {checks.described(retry)}"
        new = lifecycle.evict(workload, names.BY_ADMISSION_CHECK, message, self.context.now())
        due = checks.retry_time(workload)
        if due is not None:
            new = _with_requeue_at(new, due)
        await self._evicted(new, names.BY_ADMISSION_CHECK, message)
        return True, None

    async def _sync_admitted(self, workload: Obj) -> tuple[bool, float | None]:
        if wl.is_evicted(workload) and wl.has_quota(workload):
            return False, None
        gates = self.context.config.gates
        if not wl.is_admitted(workload) and wl.has_quota(workload) and unadmitted.admission_gates(workload, gates):
            return False, None
        new = lifecycle.sync_admitted(
            workload,
            self._required(workload),
            self.context.now(),
            granular=unadmitted.is_granular(gates),
            explicit=unadmitted.is_explicit(gates),
        )
        if new is workload:
            return False, None
        await self.context.write_status(new)
        if wl.is_admitted(new):
            self._tell_admitted(new)
        return True, None

    def _tell_admitted(self, workload: Obj) -> None:
        now = self.context.clock.now()
        reserved = conditions.find(workload, names.QUOTA_RESERVED) or {}
        waited = max(0, round(now - parse_time(reserved["lastTransitionTime"])))
        self.recorder.event(
            workload,
            "Normal",
            "Admitted",
            f"Admitted by ClusterQueue {wl.cluster_queue_of(workload)}, wait time since reservation was {waited}s",
        )
        self.metrics.admitted(workload, queued_since(workload), now)

    # Time limits

    async def _limit_execution(self, workload: Obj) -> tuple[bool, float | None]:
        limit = spec_of(workload).get("maximumExecutionTimeSeconds")
        if limit is None or not wl.is_admitted(workload) or wl.is_evicted(workload):
            return False, None
        admitted = conditions.find(workload, names.ADMITTED) or {}
        past = int(status_of(workload).get("accumulatedPastExecutionTimeSeconds") or 0)
        left = limit - past - (self.context.clock.now() - parse_time(admitted["lastTransitionTime"]))
        if left > 0:
            return False, left
        if conditions.is_true(workload, names.DEACTIVATION_TARGET):
            return False, None
        cause = "MaximumExecutionTimeExceeded"
        self.recorder.event(workload, "Warning", cause, f"The maximum execution time ({limit}s) exceeded")
        return await self._write(lifecycle.deactivation_target(workload, cause, CAUSE_TEXTS[cause], self.context.now()))

    async def _require_readiness(self, workload: Obj) -> tuple[bool, float | None]:
        """Pods that do not get ready in time cost the workload its place."""
        settings = self.context.config.wait_for_pods_ready
        if self.context.config.gates["ConcurrentAdmission"] and variants.parent_of(workload) is not None:
            # The parent watches over the pods.
            return False, None
        if settings is None or not wl.is_active(workload) or wl.is_evicted(workload):
            return False, None
        found = _readiness_deadline(workload, settings.timeout_s, settings.recovery_timeout_s)
        if found is None:
            return False, None
        cause, deadline = found
        left = deadline - self.context.clock.now()
        if left > 0:
            return False, left
        count = int((status_of(workload).get("requeueState") or {}).get("count") or 0) + 1
        if settings.backoff_limit is not None and count > settings.backoff_limit:
            reason = "RequeuingLimitExceeded"
            if conditions.is_true(workload, names.DEACTIVATION_TARGET):
                return False, None
            return await self._write(
                lifecycle.deactivation_target(workload, reason, CAUSE_TEXTS[reason], self.context.now())
            )
        delay = min(settings.backoff_base_s * 2.0 ** (count - 1), settings.backoff_max_s)
        message = f"Exceeded the PodsReady timeout {key_of(workload)}"
        new = lifecycle.evict(workload, names.BY_PODS_READY_TIMEOUT, message, self.context.now(), cause=cause)
        new = _with_requeue_at(new, self.context.clock.now() + delay, counted=True)
        await self._evicted(new, names.BY_PODS_READY_TIMEOUT, message, cause)
        return True, None


def _readiness_deadline(workload: Obj, timeout: float, recovery: float | None) -> tuple[str, float] | None:
    """Why and until when an admitted workload may have pods that are not ready; None when there is no deadline."""
    if not wl.is_admitted(workload) or conditions.is_true(workload, names.PODS_READY):
        return None
    admitted_at = parse_time((conditions.find(workload, names.ADMITTED) or {})["lastTransitionTime"])
    ready = conditions.find(workload, names.PODS_READY)
    if ready is not None and ready.get("reason") == "WaitForRecovery":
        if recovery is None:
            return None
        return "WaitForRecovery", parse_time(ready["lastTransitionTime"]) + recovery
    return "WaitForStart", admitted_at + timeout


def _with_requeue_at(workload: Obj, due: float, *, counted: bool = False) -> Obj:
    """The earliest next try moved to `due`, and counted if asked; it never moves back."""
    old = status_of(workload).get("requeueState") or {}
    state = dict(old)
    if counted:
        state["count"] = int(old.get("count") or 0) + 1
    if not old.get("requeueAt") or parse_time(old["requeueAt"]) < due:
        state["requeueAt"] = format_time(due)
    return workload if state == old else with_status(workload, {**status_of(workload), "requeueState": state})


def _policy(queue: Obj) -> str:
    return str(spec_of(queue).get("stopPolicy") or "None")


def _is_stopped(queue: Obj) -> bool:
    return _policy(queue) != "None"


def _lost_queue(workload: Obj, local: Obj | None, queue: Obj | None) -> Problem | None:
    """Why a reservation can no longer stand."""
    if local is None or is_deleting(local):
        return Problem("Misconfigured", f"LocalQueue {wl.queue_of(workload)} is terminating or missing")
    if _is_stopped(local):
        return Problem("Suspended", f"LocalQueue {name_of(local)} is stopped")
    if queue is None or is_deleting(queue):
        return Problem("Misconfigured", f"ClusterQueue {wl.cluster_queue_of(workload)} is terminating or missing")
    return Problem("Suspended", f"ClusterQueue {name_of(queue)} is stopped") if _is_stopped(queue) else None


def _queue_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether workloads of a queue have to look again: its spec, its activity or its existence changed."""
    if old is None or new is None:
        return True
    return (
        old.get("spec") != new.get("spec")
        or is_deleting(old) != is_deleting(new)
        or conditions.is_true(old, names.ACTIVE) != conditions.is_true(new, names.ACTIVE)
    )


def _which(states: Sequence[Obj]) -> str:
    return "AdmissionCheck" if len(states) == 1 else "AdmissionChecks"
