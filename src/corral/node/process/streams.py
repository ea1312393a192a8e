"""Logs, exec, attach and port-forward of process pods, in the words a kubelet would use when there is nothing to give."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence

from corral.core.errors import BadRequest, InternalError
from corral.core.meta import Obj, name_of, status_of, uid_of
from corral.core.streams import ExecSession, LogOptions, PortStream
from corral.decide.pods.record import all_containers, main_containers
from corral.node.exec import AttachedSession, ProcessSession, TcpPort
from corral.node.logs import read_log
from corral.node.process.connection import StartError, SupervisorConnection
from corral.node.process.folder import PodFolder
from corral.runtime.clock import Clock


def chosen_container(pod: Obj, container: str) -> str:
    """The container a user means; the only one when they name none."""
    names = [entry["name"] for entry in all_containers(pod)]
    if not container:
        mains = [entry["name"] for entry in main_containers(pod)]
        if len(mains) == 1:
            return str(mains[0])
        listed = " ".join(mains)
        raise BadRequest(f"a container name must be specified for pod {name_of(pod)}, choose one of: [{listed}]")
    if container not in names:
        raise BadRequest(f"container {container} is not valid for pod {name_of(pod)}")
    return container


class ProcessStreams(ABC):
    """The `PodStreams` half of the process runtime."""

    connection: SupervisorConnection
    clock: Clock

    @abstractmethod
    def folder(self, uid: str) -> PodFolder:
        """Where a pod's files are."""

    @abstractmethod
    def running_id(self, uid: str, container: str) -> str:
        """The run of a container that goes on now. Raises StartError when there is none."""

    @abstractmethod
    def is_running(self, uid: str, container: str, attempt: int) -> bool: ...

    @abstractmethod
    async def open_session(
        self, pod: Obj, container: str, command: list[str], *, stdin: bool, tty: bool
    ) -> ProcessSession:
        """Run a command in a running container. Raises StartError."""

    @abstractmethod
    def on_end(self, identity: str, react: Callable[[int], None]) -> None:
        """Have `react` called with the exit code when a run ends."""

    async def logs(self, pod: Obj, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        name = chosen_container(pod, container)
        folder = self.folder(uid_of(pod))
        attempts = [number for number in folder.attempts(name) if (folder.run(name, number) / "log").exists()]
        if options.previous:
            attempts = attempts[:-1]
            if not attempts:
                raise BadRequest(f'previous terminated container "{name}" in pod "{name_of(pod)}" not found')
        if not attempts:
            raise BadRequest(_waiting(pod, name))
        run = folder.run(name, attempts[-1])
        is_latest = not options.previous

        def is_over() -> bool:
            return (run / "exit.json").exists() or not (is_latest and self.is_running(uid_of(pod), name, attempts[-1]))

        async for chunk in read_log(run, options, self.clock, is_over):
            yield chunk

    async def exec(self, pod: Obj, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> ExecSession:
        name = chosen_container(pod, container)
        if not command:
            raise BadRequest("you must specify at least one command for the container")
        try:
            return await self.open_session(pod, name, list(command), stdin=stdin, tty=tty)
        except StartError as error:
            raise InternalError(f"Internal error occurred: error executing command in container: {error}") from error

    async def attach(self, pod: Obj, container: str, *, stdin: bool, tty: bool) -> ExecSession:
        name = chosen_container(pod, container)
        try:
            identity = self.running_id(uid_of(pod), name)
            until: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self.on_end(identity, lambda code: None if until.done() else until.set_result(code))
            once = any(entry["name"] == name and entry.get("stdinOnce") for entry in all_containers(pod))
            session = AttachedSession(self.connection, identity, until, closes_stdin=stdin and once)
            await session.open()
        except StartError as error:
            raise BadRequest(f'container "{name}" in pod "{name_of(pod)}" is not running') from error
        return session

    async def port_forward(self, pod: Obj, port: int) -> PortStream:
        # The address the node gave it: what the status says is written by others too, and would lead anywhere.
        holding = self.folder(uid_of(pod)).load()
        address = holding.address if holding is not None else ""
        if not address:
            raise BadRequest(f"pod {name_of(pod)} has no address yet")
        try:
            return await TcpPort.connect(address, port)
        except OSError as error:
            message = f"error forwarding port {port} to pod {uid_of(pod)}: connection refused"
            raise InternalError(message) from error


def _waiting(pod: Obj, container: str) -> str:
    statuses = status_of(pod).get("containerStatuses") or []
    entry: Obj = next((entry for entry in statuses if entry["name"] == container), {})
    reason = ((entry.get("state") or {}).get("waiting") or {}).get("reason") or "ContainerCreating"
    return f'container "{container}" in pod "{name_of(pod)}" is waiting to start: {reason}'
