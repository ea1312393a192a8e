"""The CronJob operator: starts Jobs when they are due, gives up or forgets others as its policies say."""

from __future__ import annotations

from corral.core.errors import AlreadyExists, ApiError, NotFound
from corral.core.meta import (
    Key,
    Obj,
    name_of,
    namespace_of,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
    with_status,
)
from corral.core.timestamps import format_time
from corral.jobs.batch_job.cron_plan import CronPlan, plan_cron, reference
from corral.jobs.batch_job.cron_schedule import ScheduleError, parse_schedule
from corral.jobs.batch_job.kind import CRON_JOBS, JOBS
from corral.jobs.framework.child_objects import MANAGER, typed
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.runtime.controller import Manager, Result, Watch, owner_key


class CronJobController:
    """Runs batch/v1 CronJobs."""

    name = "cronjob"

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._cron_jobs = manager.informer(CRON_JOBS)
        self._jobs = manager.informer(JOBS)
        index_by_controller(self._jobs)
        self._recorder = manager.recorder.named("cronjob-controller")
        watches = [Watch(CRON_JOBS), Watch(JOBS, map=owner_key("CronJob", "batch"))]
        manager.add(self, watches=watches, workers=5)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._cron_jobs.get(key)
        if found is None:
            return None
        cron_job = typed(found, "batch/v1", "CronJob")
        spec = spec_of(cron_job)
        try:
            schedule = parse_schedule(spec.get("schedule", ""), spec.get("timeZone") or "")
        except ScheduleError as error:
            # The user has to write another schedule; until then there is nothing to wait for.
            text = f"unparseable schedule: {spec.get('schedule')!r} : {error}"
            self._recorder.event(cron_job, "Warning", "UnparseableSchedule", text)
            return None
        jobs = controlled_by(self._jobs, cron_job)
        plan = plan_cron(cron_job, jobs, schedule, self._clock.now())
        for kind, reason, message in plan.events:
            self._recorder.event(cron_job, kind, reason, message)
        for job in plan.forget:
            await self._delete(cron_job, job)
        status = await self._start(cron_job, plan)
        if status != status_of(cron_job):
            changed = with_status(cron_job, status)
            await self._client.update(CRON_JOBS, changed, subresource="status", manager=MANAGER)
        return Result(plan.wait_s)

    async def _start(self, cron_job: Obj, plan: CronPlan) -> Obj:
        """Start the Job that is due; the status afterwards."""
        status = dict(plan.status or {})
        if plan.start is None or plan.due_time is None:
            return status
        for job in plan.replace:
            await self._delete(cron_job, job)
        gone = {uid_of(job) for job in plan.replace}
        active = [entry for entry in status.get("active") or () if entry.get("uid") not in gone]
        try:
            job = await self._client.create(JOBS, plan.start, manager=MANAGER)
            self._recorder.event(cron_job, "Normal", "SuccessfulCreate", f"Created job {name_of(job)}")
        except AlreadyExists:
            job = await self._client.get(JOBS, name_of(plan.start), namespace_of(plan.start))
            if not any(ref.get("uid") == uid_of(cron_job) for ref in owner_references_of(job)):
                raise
        except ApiError as error:
            self._recorder.event(cron_job, "Warning", "FailedCreate", f"Error creating job: {error.message}")
            raise
        if not any(entry.get("uid") == uid_of(job) for entry in active):
            active.append(reference(job))
        return {**status, "active": active, "lastScheduleTime": format_time(plan.due_time)}

    async def _delete(self, cron_job: Obj, job: Obj) -> None:
        try:
            await self._client.delete(JOBS, name_of(job), namespace_of(job), propagation="Background", uid=uid_of(job))
        except NotFound:
            return
        self._recorder.event(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {name_of(job)}")
