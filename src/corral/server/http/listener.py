"""A port with TLS behind which an application answers: accepts, sweeps out who has gone quiet, and stops without cutting
requests in half. Connections may also be handed over between processes."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from email.utils import formatdate

import msgspec

from corral.core.server_limits import Limits
from corral.runtime import descriptors
from corral.server.gc_tuning import give_back_memory
from corral.server.http.accepting import HANDSHAKES, Accepting, HandOver
from corral.server.http.choosing import PROTOCOLS, Choosing
from corral.server.http.shared import Application, Shared

SWEEP_S = 1.0
STOP_GRACE_S = 5.0
BURST = 100
CLEAN_UP_S = 10.0


def server_context() -> ssl.SSLContext:
    """TLS as our servers speak it; the certificate, and whom to believe, is up to the caller."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(list(PROTOCOLS))
    return context


def within(limits: Limits, descriptors: int) -> Limits:
    """Limits under which clients leave descriptors to the rest of a process: where none is left, nobody is let in any more."""
    connections = min(limits.connections, descriptors * 5 // 8)
    strangers = (
        min(limits.strangers, max(1, connections // 4)) if connections < limits.connections else limits.strangers
    )
    return msgspec.structs.replace(limits, connections=connections, strangers=strangers)


class Listener:
    """`bind` where there is a port, then `serve`, then `stop`. `now` gives the time in epoch seconds."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._socket: socket.socket | None = None
        self._accepting: Accepting | None = None
        self.shared: Shared | None = None
        self._beside: list[Shared] = []
        self._sweeper: asyncio.Task[None] | None = None

    def bind(self, host: str, port: int) -> int:
        """Take the port; 0 takes any. Returns the real one."""
        self._socket = socket.create_server((host, port), backlog=2048, reuse_port=False)
        return int(self._socket.getsockname()[1])

    async def serve(self, app: Application, context: ssl.SSLContext, audit_prefix: str) -> None:
        """Answer what comes to the port that was taken, if one was, and whom `take` is given."""
        available = descriptors.limit()
        shared = self.shared = Shared(app, within(self._limits, available))
        shared.audit_prefix = audit_prefix
        shared.date = formatdate(self._now(), usegmt=True)
        loop = asyncio.get_running_loop()
        self._accepting = Accepting(
            self._socket, context, lambda: Choosing(shared), shared.failed, min(HANDSHAKES, available // 8)
        )
        self._accepting.start()
        self._sweeper = loop.create_task(self._sweep(shared), name="connection-sweeper")

    def take(self, accepted: socket.socket) -> None:
        """Serve a connection that another process has accepted."""
        if self._accepting is None:
            accepted.close()
        else:
            self._accepting.take(accepted)

    def hand_over(self, to: HandOver) -> None:
        """Offer `to` every connection that comes from now on."""
        assert self._accepting is not None, "serve first"
        self._accepting.hand_over = to

    def beside(self) -> Shared:
        """What connections share that reach the same application by another way, and are not counted with clients'."""
        assert self.shared is not None, "serve first"
        most = self._limits.connections + self._limits.requests + self._limits.watches  # each may be a connection here
        beside = Shared(self.shared.app, msgspec.structs.replace(self._limits, connections=most))
        beside.audit_prefix, beside.date = self.shared.audit_prefix, self.shared.date
        self._beside.append(beside)
        return beside

    @property
    def connections(self) -> int:
        """How many there are, with those that still shake hands."""
        if self.shared is None or self._accepting is None:
            return 0
        return len(self.shared.connections) + self._accepting.handshakes

    @property
    def is_serving(self) -> bool:
        return self.shared is not None and not self.shared.closing

    async def stop(self) -> None:
        """Accept nothing new, let running requests finish for a moment, then close."""
        if self._accepting is None or self.shared is None:
            return
        self.shared.closing = True
        self._accepting.stop()
        for connection in list(self.shared.connections):
            connection.drain()
        await self._wait_for_requests(self.shared)
        for shared in (self.shared, *self._beside):
            for connection in list(shared.connections):
                connection.transport.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        self._accepting = None

    async def _wait_for_requests(self, shared: Shared) -> None:
        running = [waited for each in shared.connections if (waited := each.unfinished()) is not None]
        if running:
            await asyncio.wait(running, timeout=STOP_GRACE_S)

    async def _sweep(self, shared: Shared) -> None:
        """Keep the Date header current and close connections nobody uses."""
        loop = asyncio.get_running_loop()
        cleaned = loop.time()
        while True:
            await asyncio.sleep(SWEEP_S)
            shared.date = formatdate(self._now(), usegmt=True)
            now = loop.time()
            for connection in list(shared.connections):
                connection.sweep(now)
            if shared.closed >= BURST or (shared.closed and now - cleaned > CLEAN_UP_S):
                shared.closed, cleaned = 0, now
                give_back_memory()
