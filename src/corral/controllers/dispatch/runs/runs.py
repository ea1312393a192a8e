"""Running a Workload on its worker: create the job, mirror its status back, finish, and remove everything afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from corral.controllers import workload_status
from corral.controllers.dispatch.context import DispatchContext, DispatchedWorkload
from corral.controllers.dispatch.runs.deliveries import AGAIN_S, Deliveries
from corral.controllers.dispatch.runs.dependencies import send_needed
from corral.controllers.dispatch.runs.remote_job import apply_changes, remove, sync_job
from corral.controllers.dispatch.safety.worker_tasks import StillRunning, unless_still_running
from corral.controllers.dispatch.workers.rejections import NameTaken, WorkerRejection
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core import conditions
from corral.core.meta import Key, Obj, key_of, name_of, status_of, with_status
from corral.core.timestamps import parse_time
from corral.decide.dispatch.machine import check_state
from corral.decide.dispatch.model import EVICTED_ON_WORKER, SendBack
from corral.decide.dispatch.reasons import eviction_on_worker
from corral.jobs.framework.adapter import JobAdapter
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.controller import Result, run_all
from corral.workload import lifecycle
from corral.workload import workload as wl

DEFERRED_S = 2.0
SOON_S = 0.01
NAME_S = 10.0
"""How often to see whether a name that was taken on a worker is free."""


class Runs:
    """What is done on workers for Workloads that have one, and for those that have none any more."""

    def __init__(self, context: DispatchContext) -> None:
        self._context = context
        self._deliveries = Deliveries(context)

    async def remove_everywhere(self, key: Key) -> bool:
        """Remove the copies and jobs of a Workload that no longer exists on the manager; True when there were none."""
        holding = [
            remote
            for remote in self._context.remotes.holding(key)
            if remote.connected and (remote.workloads.get(key) is not None or remote.jobs_of(key) or remote.ending(key))
        ]

        async def removed_from(remote: Remote) -> None:
            work = partial(self._stop, remote, key)
            await self._context.worker_tasks.run(remote.name, key, work, stops=self._may_run(remote, key))

        await run_all(unless_still_running(partial(removed_from, remote)) for remote in holding)
        self._context.possible_locations.forget(key)
        self._deliveries.forget(key)
        return not holding and not self._context.remotes.unreachable()

    async def leave(self, remote: Remote) -> None:
        """Remove everything of ours from a worker that is taken out, unless it is also configured under another name."""
        if (twin := self._context.remotes.twin(remote)) is not None:
            await self._hand_over(remote, twin)
            return
        keys = {*self._context.worker_tasks.busy_on(remote.name), *remote.all_ending()}
        keys.update(key_of(copy) for copy in remote.workloads.list())
        keys.update(Key.parse(value) for value in remote.jobs_by_workload())
        await run_all(self._leave(remote, key) for key in sorted(keys))

    async def _hand_over(self, remote: Remote, twin: Remote) -> None:
        """What runs on a worker is known under the name that it keeps."""
        for key in self._context.worker_tasks.busy_on(remote.name):
            await self._context.worker_tasks.settled(remote.name, key)
        self._context.possible_locations.moved(remote.name, twin.name)

    async def _leave(self, remote: Remote, key: Key) -> None:
        worker_tasks = self._context.worker_tasks
        while True:
            try:
                return await worker_tasks.run(remote.name, key, partial(self._stop, remote, key), stops=True)
            except StillRunning:
                await worker_tasks.settled(remote.name, key)

    def _may_run(self, remote: Remote, key: Key) -> bool:
        is_there = remote.jobs_of(key) or remote.ending(key)
        return bool(is_there) or self._context.possible_locations.may_be(key, remote.name)

    async def _stop(self, remote: Remote, key: Key, adapter: JobAdapter | None = None, job: Key | None = None) -> None:
        """Remove a job that may run elsewhere next, and see that it does not run here any more."""
        settings = self._context.settings
        limit = settings.worker_lost_timeout if self._may_run(remote, key) else 0.0
        if self._context.possible_locations.is_untouched(key, remote.name):
            adapter = None
        await remove(remote, key, settings.origin, adapter, job, stop_within=limit)
        self._context.possible_locations.gone(key, remote.name)

    async def clean_up(self, subject: DispatchedWorkload, clusters: Sequence[str]) -> None:
        """Remove copies and jobs from workers. A slow worker is not waited for: its removal goes on as a task."""
        await run_all(unless_still_running(partial(self.remove_from, subject, name)) for name in clusters)

    async def remove_from(self, subject: DispatchedWorkload, cluster: str) -> None:
        remote = self._context.remotes.get(cluster)
        if remote is not None and remote.connected:
            key = key_of(subject.workload)
            work = partial(self._remove, subject, remote)
            await self._context.worker_tasks.run(cluster, key, work, stops=self._may_run(remote, key))

    async def _remove(self, subject: DispatchedWorkload, remote: Remote) -> None:
        key, kept = key_of(subject.workload), self._context.kept
        if not conditions.is_true(subject.workload, names.FINISHED):
            await self._stop(remote, key, subject.adapter, subject.job_key)
            return
        if kept is not None and not remote.is_itself:
            await kept.keep(remote, key, subject.jobs)
        await remove(remote, key, self._context.settings.origin, subject.adapter, subject.job_key)
        self._context.possible_locations.forget(key)

    async def sync_status(self, subject: DispatchedWorkload, cluster: str) -> Result | None:
        return None if await self.sync(subject, cluster) else Result(DEFERRED_S)

    async def sync(self, subject: DispatchedWorkload, cluster: str, *, live: bool = False) -> bool:
        """Make or mirror the job on `cluster`; True when nothing is left to copy."""
        remote = self._context.connected(cluster) if subject.jobs else None
        done = True
        for job in subject.jobs:
            assert remote is not None
            is_missing = remote.job(subject.adapter.resource, key_of(job)) is None
            if is_missing:
                self._context.possible_locations.begin(key_of(subject.workload), cluster)
            if self._context.settings.propagate and is_missing:
                client, origin = self._context.manager.client, self._context.settings.origin
                await send_needed(client, remote, subject.adapter, job, origin)
            done &= await sync_job(
                self._context.manager.client,
                self._context.manager.informer(subject.adapter.resource),
                remote,
                subject.adapter,
                job,
                name_of(subject.workload),
                self._context.settings.origin,
                live=live,
                by_label=self._context.settings.labels_copies,
            )
            if not live:
                await self._apply_changes(remote, subject, job)
        return done

    async def _apply_changes(self, remote: Remote, subject: DispatchedWorkload, job: Obj) -> None:
        settings = self._context.settings
        refused = await apply_changes(remote, subject.adapter, job, subject.workload, settings)
        if refused:
            self._context.manager.recorder.event(job, "Warning", "ChangeRefused", refused)

    async def finish(self, subject: DispatchedWorkload, cluster: str, condition: Obj) -> None:
        await self.sync(subject, cluster, live=True)
        workload = self._context.current(subject.workload)
        now = self._context.manager.clock.timestamp()
        reason, message = str(condition.get("reason", "")), str(condition.get("message", ""))
        await self._context.write(lifecycle.finish(workload, reason, message, now))
        recorder = self._context.manager.recorder.named(f"{subject.adapter.framework}-kueue-controller")
        for job in subject.jobs:
            text = f"Workload '{key_of(subject.workload)}' is declared finished"
            recorder.event(job, "Normal", "FinishedWorkload", text)

    async def send_back(self, subject: DispatchedWorkload, step: SendBack) -> None:
        alone = not step.event_type  # what a worker did is told by the one who admits
        await self._context.set_check(subject.workload, subject.check, names.RETRY, step.message, alone=alone)
        self._context.metrics.redispatched(status_of(subject.workload).get("clusterName") or "", step.reason)
        if step.event_type:
            self._context.recorder.event(subject.workload, step.event_type, "MultiKueue", step.event_message)
        if step.reason == EVICTED_ON_WORKER:
            self._tell_eviction(subject)

    def _tell_eviction(self, subject: DispatchedWorkload) -> None:
        """The check says that a worker evicted the Workload; say why, as long as the worker has its copy."""
        cluster = str(status_of(subject.workload).get("clusterName") or "")
        remote = self._context.remotes.get(cluster)
        copy = remote.workload(key_of(subject.workload)) if remote is not None else None
        if (
            remote is not None
            and copy is not None
            and (why := eviction_on_worker(cluster, copy, remote.workloads.list()))
        ):
            self._context.manager.recorder.event(subject.workload, "Normal", EVICTED_ON_WORKER, why)

    async def deactivate(self, subject: DispatchedWorkload, cluster: str, message: str) -> Result | None:
        remote = self._context.connected(cluster)
        copy = remote.workload(key_of(subject.workload))
        if copy is not None and not conditions.is_true(copy, names.DEACTIVATION_TARGET):
            now = self._context.manager.clock.timestamp()
            target = lifecycle.deactivation_target(copy, "EvictedOnManagerCluster", message, now)
            await workload_status.write_admission(remote.client, target)
        return await self.sync_status(subject, cluster)

    async def settle(self, subject: DispatchedWorkload) -> None:
        """Say in the job's status that it has stopped, once queueing has suspended it."""
        adapter = subject.adapter
        for job in subject.jobs:
            if not adapter.is_suspended(job) or not adapter.is_active(job):
                continue
            stopped = with_status(job, adapter.stopped_status(job, self._context.manager.clock.timestamp()))
            await self._context.manager.client.update(
                adapter.resource, stopped, subresource="status", manager=names.QUEUEING_MANAGER
            )

    async def update_spec(self, subject: DispatchedWorkload, cluster: str, spec: Obj) -> None:
        key = key_of(subject.workload)
        await self._context.connected(cluster).client.patch(
            WORKLOADS, key.name, key.namespace, {"spec": spec}, manager=names.MULTIKUEUE_MANAGER
        )

    async def start(self, subject: DispatchedWorkload, cluster: str, drop: Sequence[str]) -> Result | None:
        """Run a Workload on `cluster` from now on, and on no other worker."""
        await self.clean_up(subject, drop)
        return await self.mirror(subject, cluster)

    async def mirror(self, subject: DispatchedWorkload, cluster: str) -> Result | None:
        """Keep the job on `cluster` as it is asked for here, show its status here, and that the check is Ready."""
        try:
            done = await self.sync(subject, cluster)
        except WorkerRejection as problem:
            if isinstance(problem, NameTaken) and not self._context.settings.tries_other_workers:
                await self._context.explain(subject.workload, subject.check, str(problem))
                return Result(NAME_S)
            return await self._take_back(subject, cluster, problem)
        is_complete = await self._deliveries.deliver(self._context.connected(cluster), subject)
        await self._mark_ready(subject, cluster)
        again = self._context.settings.worker_lost_timeout if done else DEFERRED_S
        return Result(again if is_complete else min(again, AGAIN_S))

    async def _take_back(self, subject: DispatchedWorkload, cluster: str, problem: WorkerRejection) -> Result:
        """A worker that admits a Workload but cannot have its job must not keep it; the next look asks another."""
        self._context.note_refusal(subject.workload, cluster, problem)
        await self._remove(subject, self._context.connected(cluster))
        return Result(SOON_S)

    async def _mark_ready(self, subject: DispatchedWorkload, cluster: str) -> None:
        workload = self._context.current(subject.workload)
        state = check_state(workload, subject.check)
        chosen = status_of(workload).get("clusterName")
        if state.get("state") in (names.RETRY, names.REJECTED) or conditions.is_true(workload, names.EVICTED):
            return
        if not wl.has_quota(workload):
            return
        if chosen and chosen != cluster:
            return
        decided = lifecycle.places_decided(workload)  # it is admitted there, so its pods have their places there
        if chosen and state.get("state") == names.READY:
            if decided is not workload:
                await self._context.write(decided)
            return
        workload = decided
        asked = status_of(workload).get("nominatedClusterNames") or []
        if not chosen and cluster not in asked:
            # It came back with the copy it admitted in a former round, and runs the job still: nobody asked it in this one.
            status = {**status_of(workload), "nominatedClusterNames": [*asked, cluster]}
            workload = await self._context.write(with_status(workload, status))
        message = f'The workload was admitted on "{cluster}"'
        status = {**status_of(workload), "clusterName": cluster}
        status.pop("nominatedClusterNames", None)
        ready = with_status(workload, status)
        await self._context.set_check(ready, subject.check, names.READY, message, alone=False, quietly=True)
        reserved = (conditions.find(workload, names.QUOTA_RESERVED) or {}).get("lastTransitionTime")
        waited = self._context.manager.clock.now() - parse_time(reserved) if reserved else 0.0
        self._context.metrics.admitted(cluster, max(waited, 0.0))
        self._context.recorder.event(workload, "Normal", "MultiKueue", message)
