"""The scheduler: asks the queueing state for a plan and writes it into Workloads.

The state decides and books; this reconciler is the only one that turns its decisions into status writes and events. A
write that fails is taken back in the state, so that nothing is believed that the API does not hold. There is one key;
whatever changes makes it due, and a plan covers everything that changed since the last one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from corral.controllers.queueing.context import ADMISSION_MANAGER, QueueingContext
from corral.controllers.queueing.metrics import QueueingMetrics, queued_since
from corral.controllers.queueing.waiting_reports import WaitingReports
from corral.core.errors import ApiError, Conflict, NotFound
from corral.core.meta import Key, Obj, is_deleting, status_of, uid_of, with_status
from corral.decide.queueing.cycle.plan import Admit, CyclePlan, Decision, Evict, Preempt, Victim, Wait
from corral.decide.queueing.state import QueueingState
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.controller import Result
from corral.workload import checks, lifecycle
from corral.workload import workload as wl

log = logging.getLogger(__name__)

KEY = Key("", "scheduler")
WRITES_AT_ONCE = 32
ATTEMPTS = 4
RETRY_S = 0.1
"""Pause after a write that failed; whoever caused that needs a moment too."""

StatusChange = Callable[[Obj], Obj | None]
"""Makes the new Workload from the current one; None when there is nothing (left) to do."""


class Scheduler:
    """Plans and writes admissions, preemptions and the reasons for waiting."""

    def __init__(self, context: QueueingContext, state: QueueingState, metrics: QueueingMetrics) -> None:
        self.name = ADMISSION_MANAGER
        self.context = context
        self.state = state
        self.metrics = metrics
        self.recorder = context.recorder.named(self.name)
        self._reports = WaitingReports()
        self._queue = context.manager.add(self, watches=(), one_for_all=True).queue

    def wake(self, delay: float = 0.0) -> None:
        """Something changed; plan when there is time, at the earliest after `delay`."""
        self._queue.add_after(KEY, delay)

    def look(self) -> None:
        """Some object changed; plan if that can decide anything new."""
        if self.state.questions.needs_cycle(self.context.clock.now()):
            self.wake()

    async def reconcile(self, key: Key) -> Result | None:
        await asyncio.sleep(0)  # others must get their turn between two plans, however busy the queues are
        now = self.context.clock.now()
        await self._write_stage(self._reports.due(self.context.clock.monotonic()))
        if not self.state.questions.needs_cycle(now):
            return self._until(self.state.questions.next_alarm)
        started = self.context.clock.monotonic()
        plan = self.state.plan_cycle(now)
        await self._apply(plan)
        self._observe(plan, self.context.clock.monotonic() - started)
        if plan.more:
            self.wake()
        return self._until(plan.next_at)

    def _until(self, at: float | None) -> Result | None:
        """Look again at a time, or when something that was put off is to be written."""
        clock, due_at = self.context.clock, self._reports.due_at
        waits = [at - clock.now()] if at is not None else []
        if due_at is not None:
            waits.append(due_at - clock.monotonic())
        return Result(requeue_after=max(0.0, min(waits))) if waits else None

    def _observe(self, plan: CyclePlan, seconds: float) -> None:
        result = "success" if any(True for _ in plan.admissions) else "inadmissible"
        if plan.decisions:
            self.metrics.count("kueue_admission_attempts_total", result)
            self.metrics.observe("kueue_admission_attempt_duration_seconds", seconds, result)
        for queue, skips in plan.skipped_preemptions.items():
            self.metrics.skipped_preemptions(queue, skips)

    async def _apply(self, plan: CyclePlan) -> None:
        """Write all decisions, several at a time, those about one Workload one after the other."""
        for decisions in plan.stages():
            await self._write_stage([decision for decision in decisions if not self._is_put_off(decision)])

    def _is_put_off(self, decision: Decision) -> bool:
        """Whether it only says again, among very many, why somebody waits."""
        if isinstance(decision, Wait):
            known = self.context.caches.workloads.get(decision.key)
            return self._reports.puts_off(decision, known, self.context.clock.monotonic())
        self._reports.forget(decision.key)
        return False

    async def _write_stage(self, decisions: Sequence[Decision]) -> None:
        if not decisions:
            return
        if len(decisions) == 1:
            await self._decide(decisions[0])
            return
        todo = iter(decisions)

        async def worker() -> None:
            for decision in todo:
                await self._decide(decision)

        await asyncio.gather(*(worker() for _ in range(min(WRITES_AT_ONCE, len(decisions)))))

    async def _decide(self, decision: Decision) -> None:
        if isinstance(decision, Admit):
            await self._admit(decision)
        elif isinstance(decision, Preempt):
            await self._preempt(decision)
        elif isinstance(decision, Wait):
            await self._wait(decision)
        else:
            await self._evict(decision)

    # Writing

    async def _write(self, key: Key, change: StatusChange, *, narrow: bool = False) -> Obj | None:
        """Apply `change` to a Workload, again on fresh data when it changed meanwhile; None when it did not apply.

        The state learns of the result at once, before the caches do.
        """
        current = self.context.caches.workloads.get(key)
        for _ in range(ATTEMPTS):
            new = change(current) if current is not None and not is_deleting(current) else None
            if new is None or new is current:
                return None
            try:
                written = await self.context.write_status(new, narrow=narrow)
            except Conflict:
                current = await self.context.client.get(WORKLOADS, key.name, key.namespace)
                continue
            known = self.context.caches.workloads.get(key)
            # The news of a deletion may be faster than the answer to the write before it.
            if known is not None and uid_of(known) == uid_of(written):
                self.state.upsert_workload(written)
            return written
        raise Conflict(f"workload {key} keeps changing")

    async def _tried(self, key: Key, attempt: Awaitable[Obj | None]) -> tuple[Obj | None, bool]:
        """The outcome of a write, and whether the workload still exists."""
        try:
            return await attempt, True
        except NotFound:
            return None, False
        except ApiError as error:
            log.warning("workload not written", extra={"workload": str(key), "error": str(error)})
            return None, True

    # Decisions

    async def _admit(self, decision: Admit) -> None:
        def change(workload: Obj) -> Obj | None:
            if wl.is_finished(workload) or not wl.is_active(workload):
                return None
            if decision.second_pass:
                status = {name: value for name, value in status_of(workload).items() if name != "unhealthyNodes"}
                return with_status(workload, {**status, "admission": decision.admission})
            if wl.has_quota(workload):
                return None
            now = self.context.now()
            new = lifecycle.reserve(workload, decision.admission, now)
            new = checks.sync_check_states(new, decision.checks, now)
            admitted = lifecycle.sync_admitted(new, decision.checks, now)
            return admitted if wl.is_admitted(admitted) else new

        written, exists = await self._tried(decision.key, self._write(decision.key, change, narrow=True))
        if written is None:
            self.state.admission_failed(decision.key, gone=not exists)
            self.wake(RETRY_S)
            return
        if not decision.second_pass:
            self._report_reserved(written, decision)
        if decision.replaces is not None:
            await self._replace(decision.replaces, written)

    def _report_reserved(self, workload: Obj, decision: Admit) -> None:
        now = self.context.clock.now()
        queued = queued_since(workload)
        message = (
            f"Quota reserved in ClusterQueue {decision.cluster_queue}, wait time since queued was {now - queued:.0f}s"
        )
        if decision.considered:
            message = f"{message}; {decision.considered}"
        self.recorder.event(workload, "Normal", "QuotaReserved", message)
        self.metrics.quota_reserved(workload, queued, now)
        if wl.is_admitted(workload):
            message = f"Admitted by ClusterQueue {decision.cluster_queue}, wait time since reservation was 0s"
            self.recorder.event(workload, "Normal", "Admitted", message)
            self.metrics.admitted(workload, queued, now)

    async def _replace(self, key: Key, successor: Obj) -> None:
        """The slice that a larger one takes over from has done its part."""

        def change(workload: Obj) -> Obj | None:
            if wl.is_finished(workload):
                return None
            return lifecycle.replaced(workload, successor, self.context.now())

        written, _ = await self._tried(key, self._write(key, change))
        if written is not None:
            self.recorder.event(written, "Normal", lifecycle.SLICE_REPLACED, lifecycle.replaced_by(successor))
            self.metrics.count("kueue_replaced_workload_slices_total", wl.cluster_queue_of(written))

    async def _preempt(self, decision: Preempt) -> None:
        preemptor = self.context.caches.workloads.get(decision.key)
        outcomes = [
            True if victim.ongoing else await self._evict_victim(victim, preemptor, decision.cluster_queue)
            for victim in decision.victims
        ]
        issued, failed = outcomes.count(True), outcomes.count(False)
        waiting = Wait(
            decision.key,
            decision.cluster_queue,
            decision.reason,
            decision.outcome(issued, failed),
            decision.requests,
            preempting=issued > 0,
        )
        await self._wait(waiting)

    async def _evict_victim(self, victim: Victim, preemptor: Obj | None, queue: str) -> bool | None:
        """Was the eviction issued, by us or somebody else? None when there is nothing left to evict."""
        evicted: bool | None = None

        def change(workload: Obj) -> Obj | None:
            nonlocal evicted
            holds = wl.has_quota(workload) and not wl.is_finished(workload)
            evicted = wl.is_evicted(workload) if holds else None
            if evicted is not False:
                return None
            return lifecycle.preempt(workload, victim.reason, victim.message, self.context.now())

        written, exists = await self._tried(victim.key, self._write(victim.key, change))
        if written is None:
            if evicted and exists:
                return True
            self.state.eviction_failed(victim.key)
            self.wake(RETRY_S)
            return evicted if exists else None
        now = self.context.clock.now()
        self.recorder.event(written, "Normal", "EvictedDueToPreempted", victim.message)
        self.recorder.event(written, "Normal", "Preempted", victim.event)
        if preemptor is not None:
            self.recorder.event(preemptor, "Normal", "PreemptedWorkload", victim.preemptor_event)
        self.metrics.evicted(written, names.BY_PREEMPTION, "", now)
        self.metrics.preempted(queue, victim.reason)
        return True

    def _report_not_placed(self, key: Key, message: str) -> None:
        """A workload keeps its quota, but there is no place on nodes for it."""
        workload = self.context.caches.workloads.get(key)
        if workload is not None:
            self.recorder.event(workload, "Warning", "SecondPassFailed", wl.truncated(message, 1024))

    async def _wait(self, decision: Wait) -> None:
        if decision.second_pass:
            self._report_not_placed(decision.key, decision.message)
            return

        def change(workload: Obj) -> Obj | None:
            if wl.is_finished(workload) or wl.has_quota(workload) or not wl.is_active(workload):
                return None
            now = self.context.now()
            new = lifecycle.pending(
                workload,
                decision.reason,
                decision.message,
                now,
                decision.resource_requests,
                preempting=decision.preempting,
            )
            if decision.blocked_on_gate:
                new = lifecycle.with_condition(
                    new, names.BLOCKED_ON_PREEMPTION_GATES, True, "PreemptionGated", decision.message, now
                )
            return new

        written, _ = await self._tried(decision.key, self._write(decision.key, change))
        if written is not None:
            self.recorder.event(written, "Warning", decision.reason, wl.truncated(decision.message, 1024))

    async def _evict(self, decision: Evict) -> None:
        wanted = False

        def change(workload: Obj) -> Obj | None:
            nonlocal wanted
            wanted = not (wl.is_finished(workload) or wl.is_evicted(workload)) and wl.has_quota(workload)
            return lifecycle.evict(workload, decision.reason, decision.message, self.context.now()) if wanted else None

        written, exists = await self._tried(decision.key, self._write(decision.key, change))
        if written is None and wanted and exists:
            if decision.detail:
                self._report_not_placed(decision.key, decision.detail)
            self.state.eviction_failed(decision.key)
            self.wake(RETRY_S)
        if written is not None:
            self.recorder.event(written, "Normal", f"EvictedDueTo{decision.reason}", decision.message)
            self.metrics.evicted(written, decision.reason, "", self.context.clock.now())
