"""Streams into running pods: logs, exec, attach and port-forward, as protocols the node implements and the server serves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from corral.core.meta import Obj


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What part of a container's log is wanted; times are epoch seconds."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: float | None = None
    limit_bytes: int | None = None


class ExecSession(Protocol):
    """A process with three streams. `read` yields (channel, data) with channel 1 = stdout, 2 = stderr until the end."""

    def read(self) -> AsyncIterator[tuple[int, bytes]]: ...

    async def write(self, data: bytes) -> None: ...

    async def close_stdin(self) -> None: ...

    async def resize(self, width: int, height: int) -> None: ...

    async def wait(self) -> int:
        """The exit code, once the process has ended."""
        ...

    async def kill(self) -> None: ...


class PortStream(Protocol):
    """One forwarded connection."""

    async def read(self) -> bytes:
        """The next bytes from the pod, or b"" at the end."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


class PodStreams(Protocol):
    """What a node offers on its pods. Methods raise ApiError with the words a kubelet would use."""

    def logs(self, pod: Obj, container: str, options: LogOptions) -> AsyncIterator[bytes]: ...

    async def exec(
        self, pod: Obj, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> ExecSession: ...

    async def attach(self, pod: Obj, container: str, *, stdin: bool, tty: bool) -> ExecSession: ...

    async def port_forward(self, pod: Obj, port: int) -> PortStream: ...
