"""The JobSet operator: carries out what `plan` decides."""

from __future__ import annotations

from corral.core.errors import AlreadyExists, ApiError, NotFound
from corral.core.meta import (
    Key,
    Obj,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    status_of,
    uid_of,
    with_status,
)
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.child_objects import typed
from corral.jobs.framework.growth_pacing import Steps
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.jobs.jobset.children import JOB_SET_NAME
from corral.jobs.jobset.in_place_restart import restarts_in_place
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.jobset.plan import is_managed_here, plan_job_set
from corral.jobs.jobset.plan_values import JobSetPlan
from corral.kinds.kubernetes.core.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES
from corral.runtime.controller import Manager, Result, Watch, owner_key

MANAGER = "jobset"


def _job_set_of(pod: Obj) -> list[str]:
    name = labels_of(pod).get(JOB_SET_NAME)
    return [str(Key(namespace_of(pod), name))] if name else []


class JobSetController:
    """Runs jobset.x-k8s.io JobSets."""

    name = "jobset"

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._steps = Steps(manager.clock)
        self._sets = manager.informer(JOB_SETS)
        self._jobs = manager.informer(JOBS)
        index_by_controller(self._jobs)
        self._services = manager.informer(SERVICES)
        self._pods = manager.informer(PODS)
        self._pods.add_index("job-set", _job_set_of)
        self._recorder = manager.recorder.named("jobset")
        owners = owner_key("JobSet", JOB_SETS.group)
        watches = [
            Watch(JOB_SETS),
            Watch(JOBS, map=owners),
            Watch(SERVICES, map=owners, when=lambda old, new: new is None),
            Watch(PODS, map=self._restarting_set),
        ]
        manager.add(self, watches=watches, workers=5)

    def _restarting_set(self, pod: Obj) -> list[Key]:
        """The JobSet a pod belongs to, where that restarts in place; elsewhere its Jobs say all there is to know."""
        key = Key(namespace_of(pod), labels_of(pod).get(JOB_SET_NAME, ""))
        job_set = self._sets.get(key) if key.name else None
        return [key] if job_set is not None and restarts_in_place(job_set) else []

    async def reconcile(self, key: Key) -> Result | None:
        found = self._sets.get(key)
        if found is None or is_deleting(found) or not is_managed_here(found):
            self._steps.forget(key)
            return None
        job_set = typed(found, JOB_SETS.api_version, "JobSet")
        jobs = controlled_by(self._jobs, job_set)
        pods = self._pods.by_index("job-set", str(key)) if restarts_in_place(job_set) else []
        plan = plan_job_set(job_set, jobs, self._clock.now(), pods, self._steps.room(key))
        if plan.status != status_of(job_set):
            # The status decides what an attempt is; a stale view loses here, before it touches any child.
            changed = with_status(job_set, plan.status)
            await self._client.update(JOB_SETS, changed, subresource="status", manager=MANAGER)
        for kind, reason, message in plan.events:
            self._recorder.event(job_set, kind, reason, message)
        self._steps.made(key, len(plan.create))
        await self._act(job_set, plan)
        if plan.expire:
            await self._client.delete(JOB_SETS, key.name, key.namespace, propagation="Foreground", uid=uid_of(job_set))
        return Result(self._steps.wait(key, plan.wait_s))

    async def _act(self, job_set: Obj, plan: JobSetPlan) -> None:
        for job in plan.delete:
            await self._delete(job)
        if plan.service is not None and self._services.get(Key(namespace_of(job_set), name_of(plan.service))) is None:
            await self._create(job_set, SERVICES, plan.service, "HeadlessServiceCreationFailed")
        for claim in plan.claims:
            await self._create(job_set, PERSISTENT_VOLUME_CLAIMS, claim, "PVCCreationFailed")
        for job in plan.create:
            await self._create(job_set, JOBS, job, "JobCreationFailed")
        for job in plan.suspend:
            changed = {**job, "spec": {**job["spec"], "suspend": True}}
            await self._client.update(JOBS, changed, manager=MANAGER)
        for job in plan.resume:
            await self._resume(job)

    async def _resume(self, job: Obj) -> None:
        """A Job that ran before has to forget its start first; only then may its template change."""
        status = status_of(job)
        if "startTime" in status:
            fresh = {name: value for name, value in status.items() if name != "startTime"}
            written = await self._client.update(JOBS, with_status(job, fresh), subresource="status", manager=MANAGER)
            job = {**written, "spec": job["spec"]}
        await self._client.update(JOBS, job, manager=MANAGER)

    async def _delete(self, job: Obj) -> None:
        try:
            await self._client.delete(JOBS, name_of(job), namespace_of(job), propagation="Foreground", uid=uid_of(job))
        except NotFound:
            return

    async def _create(self, job_set: Obj, resource: Resource, body: Obj, reason: str) -> None:
        try:
            await self._client.create(resource, body, manager=MANAGER)
        except AlreadyExists:
            return
        except ApiError as error:
            self._recorder.event(job_set, "Warning", reason, error.message)
            raise


def operators(context: OperatorContext) -> None:
    JobSetController(context.manager)
