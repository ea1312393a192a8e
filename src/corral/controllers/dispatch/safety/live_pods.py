"""The pods of jobs that are being removed from a worker, followed until the last of them has ended.

A removed job's pods have their time to stop. Whoever wants to run the job elsewhere waits for that; a worker that does not
let us see its pods cannot be waited for.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from corral.controllers.dispatch.workers.pod_ancestry import Ancestry
from corral.controllers.dispatch.workers.remotes import ENDED, Remote, workload_of_pod
from corral.core.errors import ConnectionFailed, Forbidden, NotFound
from corral.core.meta import Obj, is_deleting, name_of, namespace_of, status_of, uid_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import PODS

log = logging.getLogger(__name__)

FIRST_LOOK_S = 0.05
MAX_LOOK_S = 2.0


class LivePods:
    """What still runs of some jobs on a worker."""

    def __init__(self, remote: Remote, origin: str, workload: str, jobs: Sequence[tuple[Resource, Obj]]) -> None:
        self._remote, self._workload, self._jobs = remote, workload, jobs
        self._ancestry = Ancestry(remote, origin)
        self._is_running = False

    async def find(self) -> None:
        """Look for the first time. This must happen before the jobs are deleted: afterwards the objects between a job and
        its pods may be gone, and nothing would say which pods are its."""
        self._is_running = await self._any()

    async def ended(self, limit: float) -> None:
        """Wait until nothing runs any more, for no longer than `limit` seconds."""
        passed, pause = 0.0, FIRST_LOOK_S
        while self._is_running and passed < limit:
            await self._remote.clock.sleep(pause)
            passed, pause = passed + pause, min(pause * 2, MAX_LOOK_S)
            if not self._remote.connected:
                raise ConnectionFailed(f"cluster {self._remote.name} was lost while it stopped a job")
            self._is_running = await self._any()
        if self._is_running:
            log.warning("pods do not end", extra={"cluster": self._remote.name, "job": name_of(self._jobs[0][1])})

    async def _any(self) -> bool:
        try:
            return any([await self._runs(resource, job) for resource, job in self._jobs])
        except Forbidden as error:
            log.info("pods cannot be seen", extra={"cluster": self._remote.name, "error": str(error)})
            return False

    async def _runs(self, resource: Resource, job: Obj) -> bool:
        if resource == PODS:
            return await self._is_there(job)
        pods = await self._ancestry.pods_of(resource, job, or_else=self._is_orphan)
        return any(status_of(pod).get("phase") not in ENDED for pod in pods)

    def _is_orphan(self, pod: Obj) -> bool:
        """Whether a pod stops that says whose it is when nobody else can: those between it and the job are gone."""
        return is_deleting(pod) and workload_of_pod(pod) == self._workload

    async def _is_there(self, pod: Obj) -> bool:
        try:
            held = await self._remote.client.get(PODS, name_of(pod), namespace_of(pod))
        except NotFound:
            return False
        return uid_of(held) == uid_of(pod) and status_of(held).get("phase") not in ENDED
