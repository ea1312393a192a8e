"""What ties a process to one it has started: frames over a pair of sockets, and a second pair over which sockets themselves are handed.

A frame is its length and its bytes. Those sent in one turn of the loop leave together. The other side is one of our own, so what it
sends is believed; that it still turns its loop is not, and whoever minds has to ask.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

_LENGTH = struct.Struct("=I")


class Link(asyncio.Protocol):
    """One end. `taken` is called with each frame, `ended` once when the other side is gone."""

    def __init__(self, taken: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._taken = taken
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._arrived = bytearray()
        self._leaving: list[bytes] = []
        self._can_write = asyncio.Event()
        self._can_write.set()

    @classmethod
    async def over(cls, end: socket.socket, taken: Callable[[bytes], None], ended: Callable[[], None]) -> Link:
        """A link over one end of a pair."""
        loop = asyncio.get_running_loop()
        end.setblocking(False)
        _, link = await loop.create_connection(lambda: cls(taken, ended), sock=end)
        return link

    def send(self, frame: bytes) -> None:
        """Send a frame; nothing happens when the other side is gone."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._leaving:
            asyncio.get_running_loop().call_soon(self._flush)
        self._leaving += (_LENGTH.pack(len(frame)), frame)

    @property
    def unsent(self) -> int:
        """Bytes that the other side has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    async def drained(self) -> None:
        """Wait until the other side has taken most of what was sent."""
        await self._can_write.wait()

    def close(self) -> None:
        """Let go of the other side, once it has what was sent."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def _flush(self) -> None:
        leaving, self._leaving = self._leaving, []
        if leaving and self._transport is not None:
            self._transport.writelines(leaving)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        arrived = self._arrived
        arrived += data
        start, size = 0, len(arrived)
        while size - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(arrived, start)
            end = start + _LENGTH.size + length
            if end > size:
                break
            frame = bytes(memoryview(arrived)[start + _LENGTH.size : end])
            start = end
            self._taken(frame)
        if start:
            del arrived[:start]

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._can_write.set()
        self._ended()


class Handing:
    """One end of a pair over which open sockets change hands."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._loop: asyncio.AbstractEventLoop | None = None
        end.setblocking(False)

    def give(self, given: socket.socket) -> bool:
        """Hand a socket to the other side and close it here; False when the other side takes none just now."""
        try:
            socket.send_fds(self._end, [b"."], [given.fileno()])
        except OSError:
            return False
        given.close()
        return True

    def receive(self, taken: Callable[[socket.socket], None]) -> None:
        """Call `taken` with every socket that is handed over."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._end.fileno(), self._arrived, taken)

    def _arrived(self, taken: Callable[[socket.socket], None]) -> None:
        try:
            text, descriptors, _, _ = socket.recv_fds(self._end, 1, 1)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            text, descriptors = b"", []
        for descriptor in descriptors:
            taken(socket.socket(fileno=descriptor))
        if not text:
            self.close()  # the other side is gone

    def close(self) -> None:
        if self._end.fileno() >= 0:
            if self._loop is not None:
                self._loop.remove_reader(self._end.fileno())
            self._end.close()


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends that are tied to each other and to nobody else."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
