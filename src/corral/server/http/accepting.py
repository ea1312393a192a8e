"""Taking connections from a listening socket, no more handshakes at once than there is room for.

A connection costs memory from its first moment, long before anybody knows who is there. Those that do not get on with their
handshake make room for others, the oldest first, and only a few are begun in each turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger(__name__)

HANDSHAKES = 256
HANDSHAKE_S = 10.0
EACH_TURN = 4
STRANGER_RECEIVES = 16 * 1024
"""So much of what a stranger sends at once is taken in by the system before we have looked at it: many who send a lot at the same moment
are cut off before all of it is here."""
PAUSE_S = 0.5

HandOver = Callable[[socket.socket], bool]
"""Gives an accepted connection to another process, which closes it here; False when it stays."""


def _keep(accepted: socket.socket) -> bool:
    return False


class Accepting:
    """Hands every connection that comes to `listening`, or that is given to `take`, a protocol, when TLS is agreed upon."""

    def __init__(
        self,
        listening: socket.socket | None,
        context: ssl.SSLContext,
        protocol: Callable[[], asyncio.Protocol],
        failed: Callable[[], None],
        at_once: int = HANDSHAKES,
    ) -> None:
        self.hand_over: HandOver = _keep
        self._listening = listening
        self._context = context
        self._protocol = protocol
        self._at_once = at_once
        self._failed = failed  # told of every connection that did not come to be
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], socket.socket] = {}  # the oldest first
        self._stopped = False

    @property
    def handshakes(self) -> int:
        """How many have begun theirs and are not connected yet."""
        return len(self._handshakes)

    def start(self) -> None:
        if self._listening is not None:
            self._listening.setblocking(False)
        self._resume()

    def stop(self) -> None:
        """Take no more, and leave those alone who were still shaking hands."""
        self._stopped = True
        if self._listening is not None:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()
        for accepted in self._handshakes.values():
            _cut(accepted)

    def _resume(self) -> None:
        if not self._stopped and self._listening is not None:
            self._loop.add_reader(self._listening.fileno(), self._accept, self._listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(EACH_TURN):
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptors are left: who is connected is still served
                log.warning("connections are not accepted for a moment: error=%s", error)
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(PAUSE_S, self._resume)
                return
            if not self.hand_over(accepted):
                self.take(accepted)

    def take(self, accepted: socket.socket) -> None:
        """A connection that was accepted, here or by somebody else."""
        if self._stopped:
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STRANGER_RECEIVES)
        self._begin(accepted)

    def _begin(self, accepted: socket.socket) -> None:
        if len(self._handshakes) >= self._at_once:
            oldest = next(iter(self._handshakes))
            _cut(self._handshakes.pop(oldest))
        task = self._loop.create_task(self._shake_hands(accepted))
        self._handshakes[task] = accepted
        task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol, accepted, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError:  # of TLS and timeouts too: the client is told by what it gets, and nobody else cares
            self._failed()


def _cut(accepted: socket.socket) -> None:
    """End a connection whose transport is still being made: to it, the client has left."""
    with suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)
