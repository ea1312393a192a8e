"""Finished Jobs go away by themselves once their time to live is over, dependents first."""

from __future__ import annotations

from corral.core.meta import Key, Obj, is_deleting, resource_version_of, spec_of, uid_of
from corral.core.timestamps import parse_time
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.plan import finish_of
from corral.runtime.controller import Manager, Result, Watch


def expires_at(job: Obj) -> float | None:
    """When a finished Job is to be deleted; None when it is not finished or stays for good."""
    ttl = spec_of(job).get("ttlSecondsAfterFinished")
    finish = finish_of(job)
    if ttl is None or finish is None or is_deleting(job):
        return None
    return parse_time(finish["lastTransitionTime"]) + float(ttl)


class TtlController:
    """Deletes finished Jobs after `ttlSecondsAfterFinished`."""

    name = "ttl-after-finished"

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._jobs = manager.informer(JOBS)
        manager.add(self, watches=[Watch(JOBS, when=lambda old, new: new is not None and expires_at(new) is not None)])

    async def reconcile(self, key: Key) -> Result | None:
        job = self._jobs.get(key)
        due = expires_at(job) if job is not None else None
        if job is None or due is None:
            return None
        left = due - self._clock.now()
        if left > 0:
            return Result(requeue_after=left)
        await self._client.delete(
            JOBS,
            key.name,
            key.namespace,
            propagation="Foreground",
            uid=uid_of(job),
            resource_version=resource_version_of(job),
        )
        return None
