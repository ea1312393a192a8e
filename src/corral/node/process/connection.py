"""The control plane's end of the supervisor's socket: orders out, answers and exits in.

Connecting starts a supervisor when none answers. When the connection breaks, the supervisor and with it every program is
gone (they die together); `on_lost` says so, and the next order starts a new one.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.node.process.launch import Launch
from corral.node.process.supervisor import SOCKET_NAME
from corral.runtime.clock import Clock

CONNECT_TRIES = 400
CONNECT_PAUSE_S = 0.01


class StartError(Exception):
    """The program could not be started; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Started:
    pid: int
    at: float


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a program, as the supervisor recorded it."""

    id: str
    code: int
    started_at: float
    finished_at: float
    out_of_memory: bool = False
    failure: str = ""
    stopped: bool = False
    """It ended because everything was stopped, whatever its code says."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Ending:
        return cls(
            data["id"],
            data["code"],
            data["startedAt"],
            data["finishedAt"],
            data.get("oom", False),
            data.get("failure", ""),
            data.get("stopped", False),
        )


class SupervisorConnection:
    """One connection; keeps itself up."""

    def __init__(self, state: Path, clock: Clock, *, orphan_s: float = 600.0) -> None:
        self.state = state
        self.clock = clock
        self.orphan_s = orphan_s
        self.environment: dict[str, str] = {}
        """What the supervisor is told beside the environment of this process."""
        self.on_exit: Callable[[Ending], None] = lambda ending: None
        self.on_lost: Callable[[], None] = lambda: None
        self.on_output: dict[str, Callable[[str, bytes], None]] = {}
        self.on_session_end: dict[str, Callable[[Ending], None]] = {}
        self._sock: socket.socket | None = None
        self._reader: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._seq = 0
        self._child: int | None = None

    # Orders

    async def start(self, launch: Launch, descriptors: Sequence[int] = ()) -> Started:
        """Run `launch`; returns when the program runs. Starting a known id again changes nothing."""
        reply = await self._ask({"op": "start", "launch": launch.to_json()}, descriptors)
        return Started(reply["pid"], reply["startedAt"])

    async def signal(self, identity: str, number: int) -> bool:
        """Send a signal to the program's process group; False when it does not run."""
        reply = await self._ask({"op": "signal", "id": identity, "signal": number})
        return bool(reply["found"])

    async def signal_first(self, identity: str, number: int) -> bool:
        """Send a signal to the container's first process only, as container runtimes do."""
        reply = await self._ask({"op": "signal", "id": identity, "signal": number, "group": False})
        return bool(reply["found"])

    async def feed(self, identity: str, data: bytes | None) -> None:
        """Write to the program's standard input; None closes it."""
        text = None if data is None else data.decode("latin-1")
        await self._ask({"op": "stdin", "id": identity, "data": text})

    async def attach(self, identity: str, *, on: bool) -> None:
        """Have the program's output sent to `on_output`, or no more."""
        await self._ask({"op": "attach", "id": identity, "on": on})

    async def runs(self) -> dict[str, Started]:
        """Every program that runs now, by id."""
        reply = await self._ask({"op": "list"})
        return {run["id"]: Started(run["pid"], run["startedAt"]) for run in reply["runs"]}

    async def claim(self, holder: str, count: int, among: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """`count` devices of `among` for `holder`; where there are not so many, none, and who holds each of them."""
        reply = await self._ask({"op": "claim", "holder": holder, "count": count, "among": list(among)})
        return reply["names"], reply["holders"]

    async def unclaim(self, holder: str) -> None:
        """Give back what `holder` has claimed."""
        await self._ask({"op": "unclaim", "holder": holder})

    async def connect_existing(self) -> bool:
        """Join a supervisor that runs already; False when there is none."""
        return self._sock is not None or await self._connect_existing()

    async def is_isolating(self) -> bool:
        """Whether containers get their own view of the file system."""
        return bool((await self._ask({"op": "list"}))["isolated"])

    async def shut_down(self, grace: float = 0.0) -> None:
        """End every program, by force after `grace` seconds, and the supervisor, if there is one."""
        if self._sock is None and not await self._connect_existing():
            return
        self.on_lost = lambda: None
        await self._ask({"op": "stop", "grace": grace})
        if self._reader is not None:
            await self._reader
        await self._collect()

    async def close(self) -> None:
        """Leave; the supervisor and its programs go on."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    async def _ask(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        async with self._lock:
            if self._sock is None:
                await self._connect()
            self._seq += 1
            reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            self._replies[self._seq] = reply
            await self._transmit(json.dumps({**message, "seq": self._seq}).encode() + b"\n", descriptors)
        answer = await reply
        if "error" in answer:
            raise StartError(answer["error"])
        return answer

    async def _transmit(self, data: bytes, descriptors: Sequence[int]) -> None:
        assert self._sock is not None
        try:
            if descriptors:
                sent = socket.send_fds(self._sock, [data], list(descriptors))
                data = data[sent:]
            if data:
                await asyncio.get_running_loop().sock_sendall(self._sock, data)
        except OSError:
            pass  # the reader sees the same and settles every open question

    # The connection

    async def _connect(self) -> None:
        if await self._connect_existing():
            return
        await self._collect()
        self._child = self._spawn()
        for _ in range(CONNECT_TRIES):
            await self.clock.sleep(CONNECT_PAUSE_S)
            if await self._connect_existing():
                return
        raise StartError(f"the supervisor did not start; see {self.state / 'supervisor.log'}")

    async def _connect_existing(self) -> bool:
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        folder = os.open(self.state, os.O_PATH)
        try:
            # By way of the folder's descriptor: the path itself may be too long for a socket address.
            await asyncio.get_running_loop().sock_connect(sock, f"/proc/self/fd/{folder}/{SOCKET_NAME}")
        except OSError:
            sock.close()
            return False
        finally:
            os.close(folder)
        self._sock = sock
        self._reader = asyncio.get_running_loop().create_task(self._read(sock), name="supervisor")
        return True

    def _spawn(self) -> int:
        log = os.open(self.state / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            argv = [sys.executable, "-m", "corral.node.process.supervisor", str(self.state)]
            argv += ["--orphan-seconds", str(self.orphan_s)]
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ]
            return os.posix_spawn(
                sys.executable, argv, {**os.environ, **self.environment}, file_actions=actions, setsid=True
            )
        finally:
            os.close(log)

    async def _collect(self) -> None:
        """Reap the supervisor we started, once it has ended."""
        while self._child is not None:
            try:
                pid, _ = os.waitpid(self._child, os.WNOHANG)  # noqa: ASYNC222  # does not wait
            except ChildProcessError:
                pid = self._child
            if pid:
                self._child = None
                return
            await self.clock.sleep(CONNECT_PAUSE_S)

    async def _read(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        rest = b""
        try:
            while data := await loop.sock_recv(sock, 65536):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        except OSError:
            pass
        sock.close()
        self._sock = None
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            if not reply.done():
                reply.set_result({"error": "the supervisor ended"})
        sessions, self.on_session_end = self.on_session_end, {}
        for identity, end in sessions.items():
            end(Ending(identity, 137, 0.0, 0.0))
        self.on_lost()

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("event") == "exit":
            ending = Ending.from_json(message)
            self.on_session_end.pop(ending.id, self.on_exit)(ending)
            return
        if message.get("event") == "output":
            if listener := self.on_output.get(message["id"]):
                listener(message["stream"], message["data"].encode("latin-1"))
            return
        reply = self._replies.pop(message["seq"], None)
        if reply is not None and not reply.done():
            reply.set_result(message)
