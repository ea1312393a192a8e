"""Sessions in running containers: `exec`, `attach` and port forwarding, over the supervisor.

A session's streams are pipes (or a terminal) made here and handed to the supervisor with the order, so bytes do not pass
through it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
import termios
from collections.abc import AsyncIterator
from itertools import count

from corral.node.process.connection import Ending, StartError, SupervisorConnection
from corral.node.process.launch import Launch

_numbers = count(1)
CHUNK = 32 * 1024


def session_id() -> str:
    """A name for one exec session, unlike that of any container run."""
    return f"exec.{os.getpid()}.{next(_numbers)}"


class _Input:
    """The end of a pipe or terminal that is written to; what a program does not read is not kept here.

    The event loop has transports for this, but uvloop's also read from what they write to, to learn when it is closed: of a
    terminal they would take what the program shows.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._free: asyncio.Future[None] | None = None

    async def write(self, data: bytes) -> None:
        """Return when all of it was taken, or nobody takes it any more."""
        left = memoryview(data)
        while left and self._descriptor >= 0:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                await self._wait()
            except OSError:
                self.close()

    def close(self) -> None:
        if self._descriptor < 0:
            return
        self._wake()
        os.close(self._descriptor)
        self._descriptor = -1

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._free = loop.create_future()
        loop.add_writer(self._descriptor, self._wake)
        try:
            await self._free
        finally:
            self._wake()  # whoever waited has left

    def _wake(self) -> None:
        if self._free is None:
            return
        asyncio.get_running_loop().remove_writer(self._descriptor)
        if not self._free.done():
            self._free.set_result(None)
        self._free = None


class ProcessSession:
    """A program started inside a container."""

    def __init__(self, connection: SupervisorConnection, identity: str) -> None:
        self._connection = connection
        self._identity = identity
        self._readers: list[tuple[int, asyncio.StreamReader]] = []
        self._transports: list[asyncio.BaseTransport] = []
        self._stdin: _Input | None = None
        self._terminal: int | None = None
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @classmethod
    async def start(cls, connection: SupervisorConnection, launch: Launch, *, stdin: bool) -> ProcessSession:
        """Run `launch`, which names the container it is `inside` of."""
        session = cls(connection, launch.id)
        connection.on_session_end[launch.id] = session._ended
        theirs = await (session._open_terminal() if launch.tty else session._open_pipes(stdin))
        try:
            await connection.start(launch, theirs)
        except StartError:
            connection.on_session_end.pop(launch.id, None)
            session._close()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return session

    async def _open_pipes(self, stdin: bool) -> list[int]:
        in_theirs, in_ours = os.pipe2(os.O_CLOEXEC) if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
        if in_ours >= 0:
            self._stdin = _Input(in_ours)
        theirs = [in_theirs]
        for channel in (1, 2):
            ours, other = os.pipe2(os.O_CLOEXEC)
            await self._reader(channel, ours)
            theirs.append(other)
        return theirs

    async def _open_terminal(self) -> list[int]:
        ours, theirs = os.openpty()
        self._terminal = os.dup(ours)
        self._stdin = _Input(os.dup(ours))
        await self._reader(1, ours)
        return [theirs]

    async def _reader(self, channel: int, descriptor: int) -> None:
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
        )
        self._readers.append((channel, reader))
        self._transports.append(transport)

    async def read(self) -> AsyncIterator[tuple[int, bytes]]:
        """Output as it comes, until every stream has ended."""
        queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(8)
        pumps = [asyncio.create_task(_pump(channel, reader, queue)) for channel, reader in self._readers]
        open_streams = len(pumps)
        try:
            while open_streams:
                channel, data = await queue.get()
                if data:
                    yield channel, data
                else:
                    open_streams -= 1
        finally:
            for pump in pumps:
                pump.cancel()

    async def write(self, data: bytes) -> None:
        if self._stdin is not None:
            await self._stdin.write(data)

    async def close_stdin(self) -> None:
        if self._stdin is not None:
            if self._terminal is not None:
                await self._stdin.write(b"\x04")
            self._close_stdin()

    def _close_stdin(self) -> None:
        if self._stdin is not None:
            self._stdin.close()
            self._stdin = None

    async def resize(self, width: int, height: int) -> None:
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    async def kill(self) -> None:
        if not self._code.done():
            await self._connection.signal(self._identity, 9)
        self._close()

    def _ended(self, ending: Ending) -> None:
        if not self._code.done():
            self._code.set_result(ending.code)

    def _close(self) -> None:
        for transport in self._transports:
            transport.close()
        self._close_stdin()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None


async def _pump(channel: int, reader: asyncio.StreamReader, queue: asyncio.Queue[tuple[int, bytes]]) -> None:
    while True:
        try:
            data = await reader.read(CHUNK)
        except OSError:
            data = b""  # a terminal ends with an error
        await queue.put((channel, data))
        if not data:
            return


class AttachedSession:
    """The standard streams of a container's own program."""

    def __init__(
        self, connection: SupervisorConnection, identity: str, until: asyncio.Future[int], *, closes_stdin: bool
    ) -> None:
        self._connection = connection
        self._identity = identity
        self._until = until
        self._closes_stdin = closes_stdin
        self._queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()

    async def open(self) -> None:
        self._connection.on_output[self._identity] = self._take
        await self._connection.attach(self._identity, on=True)

    def _take(self, stream: str, data: bytes) -> None:
        self._queue.put_nowait((1 if stream == "stdout" else 2, data))

    async def read(self) -> AsyncIterator[tuple[int, bytes]]:
        while True:
            waiting = asyncio.ensure_future(self._queue.get())
            either: list[asyncio.Future[tuple[int, bytes]] | asyncio.Future[int]] = [waiting, self._until]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                return
            yield waiting.result()

    async def write(self, data: bytes) -> None:
        await self._feed(data)

    async def _feed(self, data: bytes | None) -> None:
        try:
            await self._connection.feed(self._identity, data)
        except StartError:
            pass  # it has ended, or closed its input

    async def close_stdin(self) -> None:
        """Detaching closes the container's input only when it asked for that with `stdinOnce`."""
        if self._closes_stdin:
            await self._feed(None)

    async def resize(self, width: int, height: int) -> None:
        """The container's terminal keeps its size."""

    async def wait(self) -> int:
        return await asyncio.shield(self._until)

    async def kill(self) -> None:
        self._connection.on_output.pop(self._identity, None)
        try:
            await self._connection.attach(self._identity, on=False)
        except StartError:
            pass  # it has ended


class TcpPort:
    """One connection to a port of a pod."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, address: str, port: int) -> TcpPort:
        return cls(*await asyncio.open_connection(address, port, family=socket.AF_INET))

    async def read(self) -> bytes:
        try:
            return await self._reader.read(CHUNK)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
