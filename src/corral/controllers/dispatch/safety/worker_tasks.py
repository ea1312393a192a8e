"""Requests to workers run as tasks of their own, so that a slow worker delays only what needs its answer.

A reconcile waits a moment (PATIENCE_S) for the task it started and then goes on without it; the Workload is reconciled
again when the task is done. At most one task runs for a Workload on a worker, so requests arrive there in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from corral.core.backoff import doubled
from corral.core.meta import Key
from corral.runtime.clock import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")
PATIENCE_S = 0.2
"""How long a reconcile waits for a worker; not at all while that worker keeps another one waiting."""
SILENT_S = 5.0
"""After how long without an answer a worker is said to be silent."""
FIRST_PAUSE_S = 0.01
MAX_PAUSE_S = 60.0


class StillRunning(Exception):
    """A worker has not answered yet; the Workload is looked at again when it has."""


@dataclass(slots=True)
class _WorkerTask:
    task: asyncio.Task[Any]
    since: float
    stops: bool
    is_late: bool = False
    is_missed: bool = False
    """Whether a reconcile went on without its result, so that the Workload must be reconciled again when it is done."""


class WorkerTasks:
    """The running tasks by Workload and worker. `again` is called with a Workload, and whether it failed, when a task ends
    that a reconcile did not wait for."""

    def __init__(self, clock: Clock, again: Callable[[Key, bool], None]) -> None:
        self._clock, self._again = clock, again
        self._running: dict[Key, dict[str, _WorkerTask]] = {}
        self._late: dict[str, int] = {}
        self._failures: dict[Key, dict[str, int]] = {}

    async def run(
        self, cluster: str, key: Key, work: Callable[[], Coroutine[Any, Any, T]], *, stops: bool = False
    ) -> T:
        """The result of `work`; raises `StillRunning` when it takes longer, and `work` goes on in the background.

        `stops` marks work that removes a job which may be running on the worker.
        """
        here = self._running.setdefault(key, {})
        # Not queued behind what is running: it was decided without knowing how that ends. The caller decides again then.
        if cluster in here:
            here[cluster].is_missed = True
            raise StillRunning(cluster)
        task = asyncio.get_running_loop().create_task(work(), name=f"{cluster} {key}")
        running = here[cluster] = _WorkerTask(task, self._clock.now(), stops)
        task.add_done_callback(partial(self._done, cluster, key))
        await asyncio.wait({task}, timeout=0.0 if self._late.get(cluster) else PATIENCE_S)
        if not task.done():
            # Not cancelled: the worker may have carried the request out already, and only its answer tells.
            self._late[cluster] = self._late.get(cluster, 0) + 1
            running.is_late = running.is_missed = True
            raise StillRunning(cluster)
        return task.result()

    async def settled(self, cluster: str, key: Key) -> None:
        """Wait for what is being done for a Workload on a worker, however it ends."""
        running = self._running.get(key, {}).get(cluster)
        if running is not None:
            await asyncio.wait({running.task})

    async def keep(self) -> None:
        """Let nothing outlive the manager; runs as long as it does."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = [running.task for here in self._running.values() for running in here.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def is_busy(self, cluster: str, key: Key) -> bool:
        """Whether something is being done for this Workload on a worker."""
        return cluster in self._running.get(key, {})

    def busy_on(self, cluster: str) -> list[Key]:
        """The Workloads something is being done for on a worker."""
        return [key for key, here in self._running.items() if cluster in here]

    def is_stopping(self, key: Key) -> bool:
        """Whether a job of this Workload is being removed somewhere, and may still run there."""
        return any(running.stops for running in self._running.get(key, {}).values())

    def is_silent(self, cluster: str, key: Key) -> bool:
        """Whether a worker has left this Workload without an answer for long."""
        running = self._running.get(key, {}).get(cluster)
        return running is not None and self._clock.now() - running.since >= SILENT_S

    def pause(self, cluster: str, key: Key) -> float:
        """Seconds until the next try after what has just failed, longer each time."""
        return doubled(FIRST_PAUSE_S, self._failures.get(key, {}).get(cluster, 0), MAX_PAUSE_S)

    def forget(self, key: Key) -> None:
        """The Workload is gone."""
        self._failures.pop(key, None)

    def _done(self, cluster: str, key: Key, task: asyncio.Task[Any]) -> None:
        here = self._running[key]
        running = here.pop(cluster)
        if not here:
            del self._running[key]
        if task.cancelled() or task.exception() is not None:
            failures = self._failures.setdefault(key, {})
            failures[cluster] = failures.get(cluster, 0) + 1
        elif cluster in (failures := self._failures.get(key, {})):
            del failures[cluster]
        if running.is_late:
            self._late[cluster] -= 1
        if running.is_missed and not task.cancelled():
            error = task.exception()
            if error is not None:
                log.info("late answer of a worker", extra={"cluster": cluster, "key": str(key), "error": str(error)})
            self._again(key, error is not None)


async def unless_still_running(work: Callable[[], Awaitable[None]]) -> None:
    """Await `work`, but do not fail when it goes on in the background: nothing depends on its result."""
    try:
        await work()
    except StillRunning:
        pass
