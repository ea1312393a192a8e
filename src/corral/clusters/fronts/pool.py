"""The front processes of one cluster, as their owner sees them: started when there is work for them, watched, replaced, sent away.

New connections are handed to the front that has the fewest. A front whose loop does not turn, because of some request or other, is
ended and replaced: what its clients asked for, they ask again, and nobody else has noticed. The owner loses nothing with a
front, and its fronts end with the owner.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from corral.clusters.fronts.growth import ATTEMPTS, Growth, Look, is_worth_trying
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
    ToOwner,
    decode_to_owner,
    encode,
)
from corral.core.meta import Obj
from corral.runtime import link, secrets
from corral.runtime.busy import Busy, IdleCores, cores
from corral.runtime.clock import Clock
from corral.runtime.link import Handing, Link
from corral.server.front.forwarding import ForwardedConnection
from corral.server.http.shared import Shared
from corral.server.server import ApiServer
from corral.store import Store
from corral.store.replication import Drafts, Follower, Replication

log = logging.getLogger(__name__)

LOOK_S = 1.0
SILENT_S = 5.0
"""For so long the loop of a front may not turn."""
STARTING_S = 60.0
"""The same while it takes in what is stored."""
STARTED_S = 0.02
LEAVING_S = 10.0
UNSENT = 256 << 20
"""So many bytes may wait for a front to take them."""
MODULE = "corral.clusters.fronts.process"


class FrontsError(Exception):
    """A cluster has no front processes, because they end before they serve."""


class _Front:
    """One front process."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, handing: Handing, now: float) -> None:
        self.number = number
        self.process = process
        self.handing = handing
        self.link: Link | None = None
        self.follower: Follower | None = None
        self.is_ready = self.is_leaving = False
        self.given = 0
        """How many connections were handed to it, ever."""
        self.beat = Beat(0, 0, 0, 0.0, [], Held())
        """What it said last."""
        self.heard = now

    @property
    def connections(self) -> int:
        """How many it has, with those that are on their way to it."""
        return self.beat.connections + self.given - self.beat.taken

    def is_overdue(self, now: float) -> bool:
        assert self.link is not None
        return now - self.heard > (SILENT_S if self.is_ready else STARTING_S) or self.link.unsent > UNSENT

    def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()


def sum_of(held: Iterable[Held]) -> Held:
    """What users have of several processes together."""
    connections: Counter[str] = Counter()
    watches: Counter[str] = Counter()
    for each in held:
        connections.update(each.connections)
        watches.update(each.watches)
    return Held(dict(connections), dict(watches))


async def _send_snapshot(follower: Follower, to: Link) -> None:
    for _ in follower.begin():
        await asyncio.sleep(0)  # others have their turn
        await to.drained()


class Fronts:
    """`start` when the server serves, `stop` before the store is closed."""

    def __init__(
        self, server: ApiServer, store: Store, clock: Clock, serve: Callable[[], Serve], fixed: int | None = None
    ) -> None:
        self._server = server
        self._store = store
        self._clock = clock
        self._serve = serve
        self._growth = Growth(cores(), fixed)
        self._fixed = fixed
        self._replication: Replication | None = None
        self._fronts: list[_Front] = []
        self._numbers = itertools.count(1)
        self._stillborn = 0
        """How many ended before they served, since one did."""
        self._forwarded: Shared | None = None
        self._configuration: bytes | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def processes(self) -> Sequence[int]:
        """The ids of the processes that serve now."""
        return [front.process.pid for front in self._fronts if front.is_ready]

    @property
    def most(self) -> int:
        """How many there may be."""
        return self._growth.most

    @property
    def connections(self) -> Sequence[int]:
        """How many connections each of them has, as far as is known."""
        return [front.connections for front in self._fronts if front.is_ready]

    async def start(self) -> None:
        """Those whose number somebody chose serve when this returns. Raises FrontsError when they are not going to."""
        try:
            for _ in range(self._fixed or 0):
                await self._add()
        except OSError as error:
            raise FrontsError(f"no front process can be started: {error.strerror or error}") from error
        if self._fixed != 0:
            self._spawn(self._look_after(), "fronts")
        while self._fixed and len(self.processes) < self._fixed:
            if self._stillborn >= ATTEMPTS:
                raise FrontsError(
                    f"{self._stillborn} front processes ended before they served; the last lines of the log say why"
                )
            await self._clock.sleep(STARTED_S)

    async def stop(self) -> None:
        """Send all of them away, and wait until what they were asked is answered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        fronts = list(self._fronts)
        for front in fronts:
            self._dismiss(front)
        await asyncio.gather(*(self._ended(front) for front in fronts))

    def configure(self, document: Obj) -> None:
        """Tell everybody, also those to come, by which configuration jobs are admitted from now on."""
        self._configuration = encode(Configure(document))
        for front in self._fronts:
            self._tell(front, self._configuration)

    def _spawn(self, work: asyncio.Future[None] | object, name: str) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- how many -----------------------------------------------------------------------------------------------------

    async def _look_after(self) -> None:
        busy, idle = Busy(), IdleCores()
        looked = self._clock.monotonic()
        for number in itertools.count(1):
            await self._clock.sleep(LOOK_S)
            now, before = self._clock.monotonic(), looked
            looked = now
            if now - before > SILENT_S:  # we were away ourselves: they may have answered all the time
                for front in self._fronts:
                    front.heard = now
            self._end_the_silent()
            present = [front for front in self._fronts if not front.is_leaving]
            for front in present:
                self._tell(front, encode(Ping(number, sum_of(each.beat.held for each in present if each is not front))))
            look = Look(busy.share(), [front.beat.busy for front in present], idle.count())
            wanted = self._growth.wanted(look)
            for _ in range(wanted - len(present) if is_worth_trying(self._stillborn, number) else 0):
                try:
                    await self._add()
                except (
                    OSError
                ) as error:  # processes or descriptors are short, and those there are have to be looked after
                    log.warning("a front process cannot be started: error=%s", error)
            for front in present[wanted:]:
                self._dismiss(front)

    def _end_the_silent(self) -> None:
        now = self._clock.monotonic()
        for front in self._fronts:
            if not front.is_leaving and front.is_overdue(now):
                log.warning("a front process does not answer and is replaced pid=%s", front.process.pid)
                front.end()

    # -- one of them --------------------------------------------------------------------------------------------------

    async def _add(self) -> None:
        if self._replication is None:
            self._replication = Replication(self._store)
            self._server.listener.hand_over(self._hand_over)
            self._forwarded = self._server.listener.beside()
        ours, theirs = link.pair()
        our_hands, their_hands = link.pair()
        with theirs, their_hands:
            passed = (theirs.fileno(), their_hands.fileno(), self._replication.progress.descriptor)
            command = (sys.executable, "-P", "-m", MODULE, *map(str, passed))
            try:
                process = await asyncio.create_subprocess_exec(
                    *command, pass_fds=passed, stdin=asyncio.subprocess.DEVNULL
                )
            except OSError:
                ours.close()
                our_hands.close()
                raise
        front = _Front(next(self._numbers), process, Handing(our_hands), self._clock.monotonic())
        self._fronts.append(front)
        front.link = await Link.over(ours, lambda frame: self._taken(front, frame), lambda: self._lost(front))
        front.handing.receive(self._take_forwarded)
        front.link.send(encode(msgspec.structs.replace(self._serve(), mark=secrets.token())))
        if self._configuration is not None:
            front.link.send(self._configuration)
        front.follower = self._replication.add(front.link.send)
        self._spawn(_send_snapshot(front.follower, front.link), f"snapshot for front {front.number}")

    def _taken(self, front: _Front, frame: bytes) -> None:
        message: ToOwner = decode_to_owner(frame)
        match message:
            case Drafts():
                assert front.follower is not None
                front.follower.take(message)
            case Beat():
                front.heard = self._clock.monotonic()
                front.beat = message
                self._server.requests.add(message.served)
            case Audited(line):
                if self._server.audited is not None:
                    self._server.audited(line)
            case Ready():
                front.heard, front.is_ready = self._clock.monotonic(), True
                self._stillborn = 0
                self._spread()

    def _spread(self) -> None:
        """Somebody new can serve: have clients come back over new connections, so that he gets his part."""
        ready = [front for front in self._fronts if front.is_ready and not front.is_leaving]
        if self._server.listener.shared is not None:
            self._server.listener.shared.renew(1)
        for front in ready[:-1]:
            self._tell(front, encode(Renew(len(ready))))

    def _lost(self, front: _Front) -> None:
        """Its process is gone, or about to be."""
        if not front.is_leaving:
            log.warning("a front process is gone pid=%s", front.process.pid)
            self._stillborn += not front.is_ready
        front.is_leaving = True
        if front in self._fronts:
            self._fronts.remove(front)
        if front.follower is not None and self._replication is not None:
            self._replication.remove(front.follower)
        front.handing.close()

    def _dismiss(self, front: _Front) -> None:
        front.is_leaving = True
        self._tell(front, encode(Leave()))

    async def _ended(self, front: _Front) -> None:
        try:
            async with asyncio.timeout(LEAVING_S):
                await front.process.wait()
        except TimeoutError:
            front.end()
            await front.process.wait()

    def _tell(self, front: _Front, frame: bytes) -> None:
        if front.link is not None:
            front.link.send(frame)

    # -- connections --------------------------------------------------------------------------------------------------

    def _hand_over(self, accepted: socket.socket) -> bool:
        ready = [front for front in self._fronts if front.is_ready and not front.is_leaving]
        if not ready:
            return False
        front = min(ready, key=lambda each: each.connections)
        if not front.handing.give(accepted):
            return False
        front.given += 1
        return True

    def _take_forwarded(self, end: socket.socket) -> None:
        self._spawn(self._serve_forwarded(end), "forwarded requests")

    async def _serve_forwarded(self, end: socket.socket) -> None:
        assert self._forwarded is not None
        shared = self._forwarded
        end.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: ForwardedConnection(shared), end)
