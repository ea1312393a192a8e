"""An API server whose pods run commands on this machine: what `kubectl exec` and friends are tested against.

Prints the path of the kubeconfig when it is ready, and runs until it is terminated.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import uvloop

from corral.clusters.embedded_api import EmbeddedApi
from corral.core.errors import BadRequest
from corral.core.meta import Obj, name_of
from corral.core.streams import LogOptions


class LocalProcess:
    """An exec session on a process of this machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.sizes: list[tuple[int, int]] = []

    async def read(self) -> AsyncIterator[tuple[int, bytes]]:
        queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()

        async def pump(channel: int, stream: asyncio.StreamReader | None) -> None:
            assert stream is not None
            while data := await stream.read(65536):
                await queue.put((channel, data))
            await queue.put((channel, b""))

        tasks = [
            asyncio.create_task(pump(1, self._process.stdout)),
            asyncio.create_task(pump(2, self._process.stderr)),
        ]
        open_streams = 2
        while open_streams:
            channel, data = await queue.get()
            if data:
                yield channel, data
            else:
                open_streams -= 1
        await asyncio.gather(*tasks)

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def close_stdin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))

    async def wait(self) -> int:
        return await self._process.wait()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Connection:
    """A forwarded connection to a port of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(65536)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()


class LocalStreams:
    """Pods that are this machine."""

    async def logs(self, pod: Obj, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        if options.previous:
            raise BadRequest(f'previous terminated container "{container}" in pod "{name_of(pod)}" not found')
        lines = [f"line {number}\n".encode() for number in range(1, 6)]
        for line in lines[-options.tail_lines :] if options.tail_lines is not None else lines:
            yield line
        if options.follow:
            await asyncio.sleep(0.2)
            yield b"the end\n"

    async def exec(self, pod: Obj, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> LocalProcess:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return LocalProcess(process)

    async def attach(self, pod: Obj, container: str, *, stdin: bool, tty: bool) -> LocalProcess:
        return await self.exec(pod, container, ["sh", "-c", "echo attached"], stdin=stdin, tty=tty)

    async def port_forward(self, pod: Obj, port: int) -> Connection:
        return Connection(*await asyncio.open_connection("127.0.0.1", port))


async def main(state: Path, fronts: int) -> None:
    cluster = EmbeddedApi(state, streams=LocalStreams(), fronts=fronts)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await cluster.start()
    cluster.server.write_kubeconfig(state / "kubeconfig")
    print(state / "kubeconfig", flush=True)
    await stop.wait()
    await cluster.stop()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2])))
