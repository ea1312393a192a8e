"""What the pods of a job write, line by line, wherever they run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Final

from corral.client.http import HttpClient
from corral.client.sync import SyncClient
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj, name_of, namespace_of, uid_of
from corral.core.resource import Resource
from corral.inspect.containers import containers_of, failed_starts, has_begun, main_container
from corral.inspect.lookup import workload_of
from corral.inspect.naming import get_named
from corral.inspect.placed_pods import let_go, no_pods, where_pods_run
from corral.jobs.framework.registry import ENDINGS
from corral.sdk.errors import CorralError, as_corral_errors
from corral.submit.submitting import typed

if TYPE_CHECKING:
    from corral.sdk.connection import Connection

POLL_S: Final = 0.3
LAST_S: Final = 5.0
"""How long the end of the logs is waited for after the job has ended."""
LOOKS: Final = 8
"""How often the pods of a job that has ended are looked for."""
WAITING: Final = 1000
"""Lines that are read ahead of whoever takes them."""

Place = tuple[SyncClient, Obj]


class LogLine(str):
    """A line without its end, which knows the pod and the container that wrote it."""

    pod: str
    container: str

    def __new__(cls, text: str, pod: str = "", container: str = "") -> LogLine:
        line = super().__new__(cls, text)
        line.pod, line.container = pod, container
        return line


class LogReader:
    """Reads the logs of one job."""

    def __init__(
        self, connection: Connection, resource: Resource, name: str, namespace: str, tail: int | None, container: str
    ) -> None:
        self._connection = connection
        self._job = (resource, name, namespace)
        self._tail = tail
        self._container = container

    async def read(self) -> AsyncGenerator[LogLine, None]:
        """What was written so far, one pod after the other."""
        places, workload, _ = await self._look()
        if not places:
            raise CorralError(no_pods(f"{self._job[0].kind} {self._job[1]}", workload))
        for where, pod in places:
            for container in self._containers(pod):
                with as_corral_errors():
                    async for line in self._lines(where, pod, container, follow=False):
                        yield line

    async def follow(self) -> AsyncGenerator[LogLine, None]:
        """What is written until the job has ended, several pods at once."""
        lines: asyncio.Queue[LogLine | None] = asyncio.Queue(WAITING)
        reading = asyncio.create_task(self._follow_into(lines))
        try:
            while (line := await lines.get()) is not None:
                yield line
            await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _follow_into(self, lines: asyncio.Queue[LogLine | None]) -> None:
        tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        try:
            while True:
                places, _, has_ended = await self._look()
                for where, pod in places:
                    for container in self._containers(pod):
                        key = (uid_of(pod) or name_of(pod), container)
                        if key not in tasks and has_begun(pod, container):
                            tasks[key] = asyncio.create_task(self._pass_on(where, pod, container, lines))
                if has_ended:
                    break
                await asyncio.sleep(POLL_S)
            if tasks:
                await asyncio.wait(tasks.values(), timeout=LAST_S)
        finally:
            for task in tasks.values():
                task.cancel()
            await lines.put(None)

    async def _pass_on(self, where: SyncClient, pod: Obj, container: str, lines: asyncio.Queue[LogLine | None]) -> None:
        try:
            async for line in self._lines(where, pod, container, follow=True):
                await lines.put(line)
        except ApiError as error:
            await lines.put(LogLine(f"# {name_of(pod)}: {error}", name_of(pod), container))

    async def _lines(self, where: SyncClient, pod: Obj, container: str, *, follow: bool) -> AsyncIterator[LogLine]:
        """The lines of a container. A pod that its worker removes just now, because its job has ended, is kept by the manager."""
        there, here = self._connection.at(where), self._connection.http
        has_begun = False
        try:
            async for line in self._from(there, pod, container, follow=follow):
                has_begun = True
                yield line
        except NotFound:
            if has_begun or there is here:
                raise
            async for line in self._kept(here, pod, container):
                yield line

    async def _kept(self, here: HttpClient, pod: Obj, container: str) -> AsyncIterator[LogLine]:
        """What the manager has kept of a pod; it has it a moment after the worker has removed it."""
        for attempt in range(LOOKS):
            try:
                async for line in self._from(here, pod, container, follow=False):
                    yield line
                return
            except NotFound:
                if attempt == LOOKS - 1:
                    raise
                await asyncio.sleep(POLL_S)

    async def _from(self, client: HttpClient, pod: Obj, container: str, *, follow: bool) -> AsyncIterator[LogLine]:
        chunks = client.logs(name_of(pod), namespace_of(pod), container=container, follow=follow, tail_lines=self._tail)
        rest = b""
        async for chunk in chunks:
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield LogLine(line.decode(errors="replace"), name_of(pod), container)
        if rest:
            yield LogLine(rest.decode(errors="replace"), name_of(pod), container)

    def _containers(self, pod: Obj) -> list[str]:
        if self._container and self._container not in containers_of(pod):
            raise CorralError(
                f"pod {name_of(pod)} has no container {self._container}; there are {', '.join(containers_of(pod))}"
            )
        return [self._container] if self._container else failed_starts(pod) or [main_container(pod)]

    async def _look(self) -> tuple[list[Place], Obj | None, bool]:
        """The pods of the job with their clusters, its Workload, and whether it has ended. What a worker removes is shown by the
        manager a moment later, so a job that has ended without pods is looked at again."""
        for _ in range(LOOKS):
            places, workload, has_ended = await self._connection.ask(_look, *self._job)
            if places or not has_ended:
                break
            await asyncio.sleep(POLL_S)
        return places, workload, has_ended


def _look(client: SyncClient, resource: Resource, name: str, namespace: str) -> tuple[list[Place], Obj | None, bool]:
    """The pods of a job with their clusters, its Workload, and whether it has ended."""
    job = typed(resource, get_named(client, resource, name, namespace))
    workload = workload_of(client, resource, job, namespace)
    try:
        places = where_pods_run(client, resource, job, workload, namespace)
        let_go(client, places)
    except NotFound:
        places = []
    return places, workload, ENDINGS.success(job) is not None
