"""Garbage on workers: copies whose Workload no longer exists on the manager, found by walking every worker now and then."""

from __future__ import annotations

import logging

from corral.configuration.dispatch import DispatchSettings
from corral.controllers.dispatch.runs.remote_job import remove
from corral.controllers.dispatch.workers.remotes import Remote, Remotes
from corral.core.errors import ApiError, ConnectionFailed
from corral.core.meta import Key, is_deleting, key_of
from corral.kinds.kueue import WORKLOADS
from corral.runtime.controller import Manager, run_all

log = logging.getLogger(__name__)


class CollectGarbage:
    """Removes copies and jobs with our origin that nothing on the manager stands for."""

    def __init__(self, manager: Manager, settings: DispatchSettings, remotes: Remotes) -> None:
        self._settings = settings
        self._remotes = remotes
        self._manager = manager
        self._workloads = manager.informer(WORKLOADS)
        if self._settings.gc_interval > 0:
            manager.run_task(self._run, "multikueue garbage collection")

    async def _run(self) -> None:
        while True:
            await self._manager.clock.sleep(self._settings.gc_interval)
            await self.collect()

    async def collect(self) -> None:
        """One walk over all connected workers, each at its own pace."""
        await run_all(self._collect(remote) for remote in self._remotes.connected())

    async def _collect(self, remote: Remote) -> None:
        keys = {key_of(copy) for copy in remote.workloads.list()}
        keys.update(Key.parse(value) for value in remote.jobs_by_workload())
        for key in sorted(keys):
            local = self._workloads.get(key)
            if local is not None and not is_deleting(local):
                continue
            try:
                await remove(remote, key, self._settings.origin)
            except ConnectionFailed:
                return  # the others wait for the end of this walk; it is tried again with the next
            except ApiError as error:
                log.info("garbage was not removed", extra={"cluster": remote.name, "error": str(error)})
