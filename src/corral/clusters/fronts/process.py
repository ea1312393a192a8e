"""The body of one front process: an API server over a replica of the store, until its owner says so or is gone.

    python -m corral.clusters.fronts.process LINK HANDING PROGRESS

where the arguments are the descriptors the owner passed on.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from corral.clusters.fronts.messages import (
    Audited,
    Beat,
    Configure,
    Held,
    Leave,
    Ping,
    Ready,
    Renew,
    Serve,
    ToFront,
    decode_to_front,
    encode,
)
from corral.core.meta import Obj
from corral.jobs.framework.served_kinds import builtin_registry
from corral.runtime import descriptors, logs
from corral.runtime.aside import Aside
from corral.runtime.busy import Busy
from corral.runtime.clock import WallClock
from corral.runtime.link import Handing, Link
from corral.runtime.random import Random
from corral.server.access.audit import AuditOptions
from corral.server.api import Api
from corral.server.front.application import FrontApp
from corral.server.front.forwarding import ToOwner
from corral.server.gc_tuning import calm_collector, loading
from corral.server.lifecycle.served_definitions import ServedDefinitions
from corral.server.server import ApiServer
from corral.store import ObjectKey
from corral.store.replica import Replica
from corral.store.replication import Change, Loaded, Progress, Snapshot

if TYPE_CHECKING:
    from corral.clusters.fronts.admission import FrontAdmission


NOTEWORTHY: Final = 16
"""Who has this part of what one may have, or more of it, is told of."""


def namespace_of(key: ObjectKey) -> ObjectKey | None:
    """What has to be there for an object to be created."""
    return ObjectKey("namespaces", "", key.namespace) if key.namespace else None


class Followed:
    """What this front knows of the cluster beside its store."""

    def __init__(self, serve: Serve, admission: FrontAdmission | None) -> None:
        self.shown_by_owner = frozenset(serve.shown_by_owner)
        self.writes = admission is None or admission.writes


class Front:
    """`run` it once."""

    def __init__(self, handing: socket.socket, progress: int) -> None:
        self._clock = WallClock()
        self._handing = Handing(handing)
        self._progress = Progress(progress)
        self._busy = Busy()
        self._objects: list[Change] = []
        self._serve: Serve | None = None
        self._link: Link | None = None
        self._replica: Replica | None = None
        self._server: ApiServer | None = None
        self._app: FrontApp | None = None
        self._admission: FrontAdmission | None = None
        self._document: Obj | None = None
        self._taken_over = 0
        """How many connections the owner has handed over."""
        self._ended = asyncio.Event()

    async def run(self, end: socket.socket) -> None:
        self._link = await Link.over(end, self._taken, self._ended.set)
        await self._ended.wait()
        if self._server is not None:
            await self._server.listener.stop()
        if self._replica is not None:
            await self._replica.close()
        self._handing.close()
        self._link.close()

    def _send(self, frame: bytes) -> None:
        assert self._link is not None
        self._link.send(frame)

    def _taken(self, frame: bytes) -> None:
        message: ToFront = decode_to_front(frame)
        match message:
            case Serve():
                self._serve = message
            case Snapshot(objects):
                self._objects += objects
            case Loaded(revision):
                self._begin(revision)
            case Configure(document):
                self._configure(document)
            case Ping(number, others):
                self._answer(number, others)
            case Renew(one_of):
                self._renew(one_of)
            case Leave():
                self._ended.set()
            case _:
                assert self._replica is not None
                self._replica.take(message)

    def _begin(self, revision: int) -> None:
        serve = self._serve
        assert serve is not None
        with loading():
            objects, self._objects = self._objects, []
            self._replica = Replica(
                objects,
                revision,
                self._progress,
                self._send,
                mark=serve.mark,
                now=self._clock.now,
                home=namespace_of,
            )
            self._server = _server(serve, self._replica, self._clock)
            if serve.audit is not None:
                self._server.audited = lambda line: self._send(encode(Audited(line)))
            self._admission = _admission(serve, self._server, self._clock)
            if self._document is not None:
                self._configure(self._document)
        to_owner = ToOwner(self._handing.give)
        make = partial(FrontApp, replica=self._replica, to_owner=to_owner, followed=Followed(serve, self._admission))
        self._serving = asyncio.get_running_loop().create_task(self._start(self._server, make))

    async def _start(self, server: ApiServer, make: partial[FrontApp]) -> None:
        def made(**parts: Any) -> FrontApp:
            self._app = make(**parts)
            return self._app

        await server.serve_handed(made)
        self._handing.receive(self._take)
        self._send(encode(Ready()))

    def _take(self, accepted: socket.socket) -> None:
        assert self._server is not None
        self._taken_over += 1
        self._server.listener.take(accepted)

    def _answer(self, number: int, others: Held) -> None:
        shared = self._server.listener.shared if self._server is not None else None
        if self._server is None or self._app is None or shared is None:
            self._send(encode(Beat(number, 0, 0, self._busy.share(), [], Held())))
            return
        shared.shares.count_others(others.connections)
        self._app.load.watches.count_others(others.watches)
        limits = self._server.limits
        held = Held(
            shared.shares.most(-(-limits.connections_each // NOTEWORTHY)),
            self._app.load.watches.largest(-(-limits.watches_each // NOTEWORTHY)),
        )
        connections, served = self._server.listener.connections, self._server.requests.take()
        self._send(encode(Beat(number, connections, self._taken_over, self._busy.share(), served, held)))

    def _configure(self, document: Obj) -> None:
        self._document = document
        if self._admission is not None:
            self._admission.configure(document)

    def _renew(self, one_of: int) -> None:
        shared = self._server.listener.shared if self._server is not None else None
        if shared is not None:
            shared.renew(one_of)


def _server(serve: Serve, replica: Replica, clock: WallClock) -> ApiServer:
    api = Api(replica, builtin_registry(), clock=clock, random=Random(), aside=Aside())
    ServedDefinitions(api.registry).follow(replica)
    server = ApiServer(
        api,
        state=Path(serve.state),
        name=serve.name,
        host=serve.host,
        port=serve.port,
        hosts=serve.hosts,
        limits=serve.limits,
        webhook_networks=serve.webhook_networks,
        audit_options=serve.audit or AuditOptions(),
    )
    server.pod_networks = serve.pod_networks
    server.answered_here.update(serve.answered_here)
    return server


def _admission(serve: Serve, server: ApiServer, clock: WallClock) -> FrontAdmission | None:
    """The rules of a cluster that is more than an API."""
    if serve.fleet is None:
        return None
    from corral.clusters.fronts.admission import FrontAdmission

    admission = FrontAdmission(serve.fleet, serve.cluster, server.api, server.authorizer, clock)
    server.api.chain.plugins += admission.plugins
    return admission


def main(arguments: list[str]) -> None:
    import uvloop

    end, handing, progress = (int(argument) for argument in arguments)
    logs.set_up(verbosity=1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # meant for the owner, who says when to end
    calm_collector()
    descriptors.raise_limit()
    front = partial(Front, socket.socket(fileno=handing), progress)

    async def run() -> None:
        await front().run(socket.socket(fileno=end))

    uvloop.run(run())


if __name__ == "__main__":
    main(sys.argv[1:])
