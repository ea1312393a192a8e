"""The pods of finished jobs and the end of their logs, read just before they are removed from their worker.

Everything is within limits: the last lines of each container, so many pods of a job, so many bytes in all, the oldest jobs going
first, and all of them after a time. A worker gets a few seconds to answer, and in a rush most jobs are let go unread: removing what
has ended is never held up for long. With files, a manager that restarts knows them again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from corral.controllers.dispatch.remote_pods.kept_files import KeptFiles, SavedJob, SavedPod
from corral.controllers.dispatch.workers.pod_ancestry import Ancestry
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core.errors import ApiError
from corral.core.meta import Key, Obj, annotations_of, key_of, name_of, namespace_of, spec_of, uid_of
from corral.core.remote_pods import CALL_ANNOTATION
from corral.core.resource import Resource
from corral.core.streams import LogOptions
from corral.decide.dispatch.remote_pods import part_of, shown_pod, tail
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.clock import Clock

log = logging.getLogger(__name__)

READ_S: Final = 5.0
"""How long a worker may take to hand out the logs of a job."""
LINES: Final = 5000
CONTAINER_BYTES: Final = 256 * 1024
PODS_OF_A_JOB: Final = 16
POD_BYTES: Final = 8 * 1024
"""What a pod itself is taken to weigh."""
BURST, PER_SECOND = 100.0, 2.0
"""How many jobs may end at once, and how many for long, before some are let go unread."""
CALL_BURST, CALLS_PER_SECOND = 5000.0, 100.0
"""The same of those that run functions: somebody waits for what they returned, which is in their logs."""


class KeptPod(NamedTuple):
    """A pod as it was shown last, and the log of each container, every line with its time."""

    pod: Obj
    logs: Mapping[str, bytes]

    @property
    def size(self) -> int:
        return POD_BYTES + sum(map(len, self.logs.values()))


class _KeptJob(NamedTuple):
    kept_at: float
    pods: Sequence[KeptPod]


KeptPodHandler = Callable[[Key, Obj | None], None]
"""Called with a pod that is kept from now on, or not any more."""


class _Allowance:
    """So many at once, and so many a second for long."""

    def __init__(self, burst: float, per_second: float, now: float) -> None:
        self._burst, self._per_second, self._counted_at = burst, per_second, now
        self._left = burst

    def take(self, now: float) -> bool:
        """Whether one more may be read now."""
        self._left = min(self._burst, self._left + (now - self._counted_at) * self._per_second)
        self._counted_at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class KeptPods:
    """What is left of finished jobs, by the uid of the manager's job, oldest first."""

    def __init__(
        self, clock: Clock, origin: str, limit: int, age_s: float = math.inf, files: KeptFiles | None = None
    ) -> None:
        self._clock, self._origin, self._limit, self._age_s, self._files = clock, origin, limit, age_s, files
        self._jobs: dict[str, _KeptJob] = {}
        self._pods: dict[Key, KeptPod] = {}
        self._size = 0
        self._others = _Allowance(BURST, PER_SECOND, clock.now())
        self._calls = _Allowance(CALL_BURST, CALLS_PER_SECOND, clock.now())
        self._handlers: list[KeptPodHandler] = []
        for job in files.load() if files is not None else ():
            self._add(job.uid, _KeptJob(job.kept_at, [KeptPod(saved.pod, saved.logs) for saved in job.pods]))

    def on_change(self, handler: KeptPodHandler) -> None:
        self._handlers.append(handler)

    def all(self) -> Iterable[tuple[Key, Obj]]:
        return [(key, kept.pod) for key, kept in self._pods.items()]

    def log(self, pod: Obj, container: str, options: LogOptions) -> bytes | None:
        """The wanted part of a container's log; None when the pod is not kept."""
        kept = self._pods.get(key_of(pod))
        if kept is None or uid_of(kept.pod) != uid_of(pod):
            return None
        return part_of(kept.logs.get(container, b""), options)

    # Keeping

    async def keep(self, remote: Remote, workload: Key, jobs: Sequence[Obj]) -> None:
        """Read what the pods of the manager's finished `jobs` left on a worker; whatever goes wrong is no failure."""
        allowance = self._calls if any(CALL_ANNOTATION in annotations_of(job) for job in jobs) else self._others
        if self._limit <= 0 or not allowance.take(self._clock.now()):
            return
        try:
            async with asyncio.timeout(READ_S):
                found = [await self._read(remote, made, jobs) for made in remote.jobs_of(workload)]
        except (ApiError, TimeoutError) as error:
            log.info("logs were not kept", extra={"cluster": remote.name, "key": str(workload), "error": str(error)})
            return
        for uid, pods in found:
            if pods:
                self.forget(uid)
                self._add(uid, _KeptJob(self._clock.now(), pods))
                self._save(uid)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        job = self._jobs.pop(uid, None)
        if job is None:
            return
        if self._files is not None:
            self._files.remove(uid)
        for kept in job.pods:
            self._size -= kept.size
            if self._pods.get(key_of(kept.pod)) is kept:
                del self._pods[key_of(kept.pod)]
                self._notify(key_of(kept.pod), None)

    def retain(self, uids: Collection[str]) -> None:
        """These are all jobs there are; others went while nobody looked."""
        for uid in [uid for uid in self._jobs if uid not in uids]:
            self.forget(uid)

    def expire(self) -> None:
        """Forget what is older than is wanted."""
        oldest = self._clock.now() - self._age_s
        for uid in [uid for uid, job in self._jobs.items() if job.kept_at < oldest]:
            self.forget(uid)

    def _add(self, uid: str, job: _KeptJob) -> None:
        self._jobs[uid] = job
        for kept in job.pods:
            self._size += kept.size
            self._pods[key_of(kept.pod)] = kept
            self._notify(key_of(kept.pod), kept.pod)
        while self._size > self._limit and self._jobs:
            self.forget(next(iter(self._jobs)))
        self.expire()

    def _save(self, uid: str) -> None:
        job = self._jobs.get(uid)
        if job is not None and self._files is not None:
            self._files.save(SavedJob(uid, job.kept_at, [SavedPod(kept.pod, dict(kept.logs)) for kept in job.pods]))

    def _notify(self, key: Key, pod: Obj | None) -> None:
        for handler in self._handlers:
            handler(key, pod)

    # Reading

    async def _read(self, remote: Remote, made: tuple[Resource, Obj], jobs: Sequence[Obj]) -> tuple[str, list[KeptPod]]:
        """The pods of the job that was made on a worker for one of the manager's `jobs`."""
        resource, there = made
        here = next((job for job in jobs if key_of(job) == key_of(there)), None)
        if here is None:
            return "", []
        pods = [there] if resource == PODS else await Ancestry(remote, self._origin).pods_of(resource, there)
        del pods[PODS_OF_A_JOB:]
        logs = await asyncio.gather(*(self._logs(remote, pod) for pod in pods))
        kept = [KeptPod(shown_pod(pod, there, here, remote.name), said) for pod, said in zip(pods, logs, strict=True)]
        return uid_of(here), kept

    async def _logs(self, remote: Remote, pod: Obj) -> dict[str, bytes]:
        spec = spec_of(pod)
        names = [str(entry["name"]) for group in ("initContainers", "containers") for entry in spec.get(group) or ()]
        return {name: await self._log(remote, pod, name) for name in names}

    async def _log(self, remote: Remote, pod: Obj, container: str) -> bytes:
        said = bytearray()
        stream = remote.client.logs(
            name_of(pod), namespace_of(pod), container=container, timestamps=True, tail_lines=LINES
        )
        try:
            async for chunk in stream:
                said += chunk
                if (
                    len(said) > 2 * CONTAINER_BYTES
                ):  # seldom, so that a log in many small pieces costs what its size does
                    del said[: -CONTAINER_BYTES - 1]
        except ApiError as error:  # this container has none, another may
            log.info("log was not kept", extra={"cluster": remote.name, "pod": name_of(pod), "error": str(error)})
        return tail(bytes(said), CONTAINER_BYTES)
