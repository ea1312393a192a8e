"""The Job operator: acts on what `plan`, `pods` and `status` decide, one Job at a time.

Pod changes are answered about a second later, in one batch, as Kubernetes does; a change of the Job's spec is answered
at once. The order of writes is fixed: pods, status that names the finished pods, their finalizers, status that counts
them. Dying between any two of them costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from corral.core.errors import ApiError, NotFound
from corral.core.meta import (
    Key,
    Obj,
    controller_of,
    generation_of,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
    with_status,
    without_finalizer,
)
from corral.core.notes import Notes
from corral.core.selectors import from_label_selector
from corral.jobs.batch_job.failure import NO_BACKOFF, Backoff
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.plan import TRACKING, SyncView, assess, finish_of, is_managed_here, is_tracked
from corral.jobs.batch_job.pods import PodPlan, plan_pods
from corral.jobs.batch_job.status import Events, plan_status, settle
from corral.jobs.framework.child_objects import Children, slow_start
from corral.jobs.framework.expectations import Expectations
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.changes import changed
from corral.runtime.controller import Manager, Result, Watch, owner_key

MANAGER = "kube-controller-manager"
POD_BATCH_S = 1.0
BATCH = 64
"""Requests on their way at once; the API commits them together."""
LABEL_NAME = "batch.kubernetes.io/job-name"
LABEL_UID = "batch.kubernetes.io/controller-uid"
OWNING_JOB = owner_key("Job", "batch")


_spec_changed = changed(generation_of)


def _labelled_key(pod: Obj) -> list[Key]:
    """The Job a pod's labels name."""
    name = labels_of(pod).get(LABEL_NAME)
    return [Key(namespace_of(pod), name)] if name else []


def _stray_key(pod: Obj) -> list[Key]:
    """The Job whose accounting a pod without controller still carries."""
    return _labelled_key(pod) if is_tracked(pod) and controller_of(pod) is None else []


class JobController:
    """Runs batch/v1 Jobs."""

    name = "job"

    def __init__(self, manager: Manager, *, honours_managers: bool = True) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._honours_managers = honours_managers
        self._backoffs = Notes[Backoff]()
        self._released: dict[Key, set[str]] = {}
        self._jobs = manager.informer(JOBS)
        self._pods = manager.informer(PODS)
        index_by_controller(self._pods)
        self._pods.add_index("job-strays", lambda pod: map(str, _stray_key(pod)))
        self._pods.add_index("job-owner", lambda pod: map(str, OWNING_JOB(pod)))
        self._pods.on_change(self._note_released)
        self._recorder = manager.recorder.named("job-controller")
        self._children = Children(self._client, self._recorder, PODS, MANAGER)
        self._expectations = Expectations(self._pods, self._clock)
        manager.add(
            self,
            watches=[
                Watch(JOBS, when=self._spec_changed),
                Watch(JOBS, when=self._status_changed, delay=POD_BATCH_S),
                Watch(PODS, map=OWNING_JOB, delay=POD_BATCH_S),
                Watch(PODS, map=_stray_key),
            ],
            workers=16,
        )

    def _spec_changed(self, old: Obj | None, new: Obj | None) -> bool:
        return (new is None or self._is_managed_here(new)) and _spec_changed(old, new)

    def _status_changed(self, old: Obj | None, new: Obj | None) -> bool:
        return new is not None and self._is_managed_here(new) and not _spec_changed(old, new)

    def _is_managed_here(self, job: Obj) -> bool:
        """Whether nobody else runs it."""
        return not self._honours_managers or is_managed_here(job)

    def _note_released(self, old: Obj | None, new: Obj | None) -> None:
        """The cache shows a pod without the finalizer, or no longer shows it."""
        if not self._released:
            return
        for pod in (old, new):
            if pod is not None and (new is None or uid_of(new) != uid_of(pod) or not is_tracked(new)):
                for key in (*OWNING_JOB(pod), *_labelled_key(pod)):
                    self._forget_release(key, uid_of(pod))

    def _forget_release(self, key: Key, uid: str) -> None:
        held = self._released.get(key)
        if held is not None:
            held.discard(uid)
            if not held:
                del self._released[key]

    async def reconcile(self, key: Key) -> Result | None:
        job = self._jobs.get(key)
        if job is not None and not self._is_managed_here(job):
            return None
        await self._release_strays(key, job)
        if job is None:
            self._expectations.forget(key)
            self._backoffs.forget(key)
            return None
        if finish_of(job) is not None:
            self._backoffs.forget(key)
            await self._release(key, [pod for pod in self._owned(job) if is_tracked(pod)])
            return None
        return await self._sync(key, {"apiVersion": "batch/v1", "kind": "Job", **job})

    def _owned(self, job: Obj) -> list[Obj]:
        return controlled_by(self._pods, job)

    async def _sync(self, key: Key, job: Obj) -> Result | None:
        view = SyncView(
            job,
            await self._claim(job),
            self._clock.now(),
            current=self._expectations.met(key),
            released=frozenset(self._released.get(key, ())),
            backoff=self._backoffs.get(job) or NO_BACKOFF,
        )
        facts = assess(view)
        plan = plan_pods(view, facts)
        created, deleted, failure = await self._act(key, job, plan)
        status = plan_status(view, facts, plan, len(created), deleted)
        self._say(job, status.events)
        if status.write:
            job = await self._write(job, status.status)
            self._backoffs.put(job, facts.backoff)
        released = await self._release(key, status.release)
        settlement = settle(view, status, released)
        if settlement.write:
            await self._write(job, settlement.status)
            self._say(job, settlement.events)
        if failure is not None:
            raise failure
        waits = [wait for wait in (plan.wait_s, facts.deadline_in) if wait is not None]
        return Result(requeue_after=min(waits)) if waits else None

    async def _claim(self, job: Obj) -> list[Obj]:
        selector = from_label_selector(spec_of(job).get("selector") or {})
        strays = self._pods.by_index("job-strays", str(key_of(job)))
        mine = await self._children.claim(job, selector, [*self._owned(job), *strays])
        return sorted(mine, key=name_of)

    async def _act(self, key: Key, job: Obj, plan: PodPlan) -> tuple[list[Obj], list[Obj], ApiError | None]:
        """Carry out the pod plan; what was made, what was deleted, and the first failure."""
        deleted: list[Obj] = []
        failure: ApiError | None = None
        doomed: Sequence[Obj] = plan.delete
        if plan.release_first:
            released = set(await self._release(key, plan.delete))
            doomed = [pod for pod in plan.delete if uid_of(pod) in released]
        for start in range(0, len(doomed), BATCH):
            batch = doomed[start : start + BATCH]
            for pod, error in zip(batch, await self._delete(key, job, batch), strict=True):
                if error is None:
                    deleted.append(pod)
                failure = failure or error

        async def make(body: Obj) -> Obj:
            pod = await self._children.create(job, body)
            self._expectations.made(key, pod)
            return pod

        created, refusal = await slow_start(plan.create, make)
        return created, deleted, failure or refusal

    async def _delete(self, key: Key, job: Obj, pods: Sequence[Obj]) -> list[ApiError | None]:
        """Delete pods side by side; for each, why it did not work."""

        async def one(pod: Obj) -> ApiError | None:
            self._expectations.removing(key, pod)
            try:
                await self._children.delete(job, pod)
            except ApiError as error:
                self._expectations.give_up(key, pod)
                return error
            return None

        return list(await asyncio.gather(*(one(pod) for pod in pods)))

    async def _release(self, key: Key, pods: Sequence[Obj]) -> list[str]:
        """Remove the tracking finalizer; the uids of the pods that no longer have it."""
        released: list[str] = []
        for start in range(0, len(pods), BATCH):
            batch = pods[start : start + BATCH]
            done = await asyncio.gather(*(self._release_one(key, pod) for pod in batch))
            released += [uid_of(pod) for pod, gone in zip(batch, done, strict=True) if gone]
        return released

    async def _release_one(self, key: Key, pod: Obj) -> bool:
        uid = uid_of(pod)
        if not is_tracked(pod) or uid in self._released.get(key, ()):
            return True
        self._released.setdefault(key, set()).add(uid)
        try:
            await self._remove_finalizer(pod)
        except NotFound:
            pass  # gone is as good as released
        except ApiError:
            self._forget_release(key, uid)
            return False
        seen = self._pods.get(key_of(pod))
        if seen is None or uid_of(seen) != uid or not is_tracked(seen):
            self._forget_release(key, uid)
        return True

    async def _remove_finalizer(self, pod: Obj) -> None:
        kept = without_finalizer(pod, TRACKING)["metadata"].get("finalizers")
        patch = {"metadata": {"uid": uid_of(pod), "finalizers": kept}}
        await self._client.patch(PODS, name_of(pod), namespace_of(pod), patch, manager=MANAGER)

    async def _release_strays(self, key: Key, job: Obj | None) -> None:
        """Free pods whose Job is gone or was replaced by another of the same name."""
        uid = uid_of(job) if job is not None else ""
        orphans = [pod for pod in self._pods.by_index("job-strays", str(key)) if labels_of(pod).get(LABEL_UID) != uid]
        children = [
            pod
            for pod in self._pods.by_index("job-owner", str(key))
            if is_tracked(pod) and (controller_of(pod) or {}).get("uid") != uid
        ]
        await self._release(key, [*orphans, *children])

    async def _write(self, job: Obj, status: Obj) -> Obj:
        if status == status_of(job):
            return job
        written = await self._client.update(JOBS, with_status(job, status), subresource="status", manager=MANAGER)
        return {"apiVersion": "batch/v1", "kind": "Job", **written}

    def _say(self, job: Obj, events: Events) -> None:
        for kind, reason, message in events:
            self._recorder.event(job, kind, reason, message)


def operators(context: OperatorContext) -> None:
    """Jobs, CronJobs, and the removal of Jobs whose time is up."""
    # CronJobs and TTLs stand on this module.
    from corral.jobs.batch_job.cron_operator import CronJobController
    from corral.jobs.batch_job.ttl import TtlController

    TtlController(context.manager)
    CronJobController(context.manager)
    JobController(context.manager, honours_managers=context.settings.has("JobManagedBy"))
