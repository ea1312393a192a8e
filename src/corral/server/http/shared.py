"""What the connections of one server share, whichever protocol they speak: limits, the application, who is connected."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any, Protocol

from corral.core.admission import ANONYMOUS, UserInfo
from corral.core.server_limits import Limits
from corral.server.http.limits import Pool, Share, Shares, too_many
from corral.server.http.message import Answer, Request, Response

MAX_BODY = 3 * 1024 * 1024
MAX_HEAD = 256 * 1024
MAX_UNASKED_BODY = 64 * 1024
MAX_PATH = 8 * 1024
HEAD_TIMEOUT_S = 10.0
BODY_TIMEOUT_S = 60.0
IDLE_TIMEOUT_S = 90.0
LINGER_S = 0.5
USER_RECEIVES = 1 << 20
"""How much of what a user sends the system takes in before we have looked at it; it allows itself less."""
SLOWEST_RATE = 16 * 1024
"""So many bytes a second an answer must be taken with, on average, after the first IDLE_TIMEOUT_S."""
STRANGERS_HOLD = 4 * 1024 * 1024
"""All bytes that are kept for strangers: what has come of their requests, and what they have not read of the answers."""
STRANGER_BUFFER = 16 * 1024
STREAM_BUFFER = 256 * 1024

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._~-]*)(?::[0-9]*)?")


class Application(Protocol):
    """What serves requests. `answer_now` may answer without waiting; None sends the request to `answer`."""

    def answer_now(self, request: Request) -> Response | None: ...

    async def answer(self, request: Request) -> Answer: ...

    def caller(self, request: Request) -> UserInfo | None:
        """Whose share of the connections a request takes, when it comes from somebody with good credentials."""
        ...

    def refuse_body(self, request: Request) -> Response | None:
        """The refusal of a request of which only the head is there; None when its body may come."""
        ...

    def refuse(self, code: int, message: str) -> Response:
        """The answer to a request that never became one."""
        ...


class ServedConnection(Protocol):
    """What a server does with its connections, whichever protocol they speak."""

    transport: asyncio.Transport
    peer: UserInfo | None

    def sweep(self, now: float) -> None:
        """End what has taken too long."""
        ...

    def renew(self) -> None:
        """Have the client come back over a new connection, once what it has asked for is answered."""
        ...

    def drain(self) -> None:
        """Take nothing new, end what would never end, and close when the rest is answered."""
        ...

    def unfinished(self) -> asyncio.Future[None] | None:
        """Done when everything asked for has been answered; None when it is."""
        ...


class _Place:
    """A connection in the share of its user."""

    __slots__ = ("arrived", "buffered", "share", "unsent")

    def __init__(self, share: Share) -> None:
        self.share = share
        self.arrived = self.unsent = self.buffered = 0


class Shared:
    """What all connections of one server share: the application, who is connected, and the current Date header."""

    def __init__(self, app: Application, limits: Limits = Limits()) -> None:  # noqa: B008  # frozen
        self.app = app
        self.limits = limits
        self.connections: set[ServedConnection] = set()
        self.strangers: dict[ServedConnection, int] = {}
        """Connections that have shown no credentials yet, the oldest first, and how many bytes are kept for each."""
        self._rooms: dict[ServedConnection, int] = {}
        """Of strangers, how much came at once at most: TLS keeps the room for it as long as a connection lasts."""
        self._arriving = Pool(limits.bytes, limits.bytes_each)
        self._unsent = Pool(limits.answers, limits.answers_each)
        self.shares = Shares(limits)
        self._known: dict[ServedConnection, _Place] = {}
        self.closed = 0
        """How many connections have ended since somebody cleaned up."""
        self.date = ""
        self.closing = False
        self._sequence = 0
        self.audit_prefix = "00000000-0000-4000-8000-"

    def connected(self, connection: ServedConnection) -> bool:
        """Count a new connection; False when there is no room for it. Strangers make room for each other, and who has the most
        connections makes room for others."""
        if len(self.connections) >= self.limits.connections and not self._made_room():
            return False
        self.connections.add(connection)
        if connection.peer is not None:
            return self._belongs(connection, connection.peer)
        self.strangers[connection] = 0
        if len(self.strangers) > self.limits.strangers:
            self._end(next(iter(self.strangers)))
        return True

    def _made_room(self) -> bool:
        largest = self.shares.largest()
        if largest is not None:
            self._end(next(each for each, place in self._known.items() if place.share is largest))
        return largest is not None

    def _end(self, connection: ServedConnection) -> None:
        self.disconnected(connection)
        connection.transport.abort()

    def disconnected(self, connection: ServedConnection) -> None:
        self.closed += connection in self.connections
        self.connections.discard(connection)
        self._arriving.add(ANONYMOUS, -self.strangers.pop(connection, 0) - self._rooms.pop(connection, 0))
        place = self._known.pop(connection, None)
        if place is not None:
            self._arriving.add(place.share.user, -place.arrived)
            self._unsent.add(place.share.user, -place.unsent)
            self.shares.leave(place.share)

    def failed(self) -> None:
        """A connection has ended before it was one."""
        self.closed += 1

    def known(self, connection: ServedConnection, request: Request) -> Response | None:
        """Note who is there, now that a request says so: what is kept for users counts as theirs. The refusal of one who has
        too many connections."""
        if connection not in self.strangers:
            return None
        user = self.app.caller(request)
        if user is None:
            return None
        held = self.strangers.pop(connection)
        self._arriving.add(ANONYMOUS, -held - self._rooms.pop(connection, 0))
        connection.transport.set_write_buffer_limits(high=STREAM_BUFFER)
        may_stay = self._belongs(connection, user)
        self._arriving.add(user, held)
        self._known[connection].arrived = held
        return None if may_stay else self.too_many("connections")

    def _belongs(self, connection: ServedConnection, user: UserInfo) -> bool:
        accepted = connection.transport.get_extra_info("socket")
        if accepted is not None:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, USER_RECEIVES)
        share = self.shares.join(user)
        self._known[connection] = _Place(share)
        return self.shares.may_connect(share)

    def serves(self, connection: ServedConnection, user: UserInfo) -> None:
        """Note for whom a connection is used from now on, where it is used for one user after the other."""
        place = self._known[connection]
        if place.share.user == user:
            return
        moved = _Place(self.shares.join(user))
        for pool, amount in ((self._arriving, place.arrived), (self._unsent, place.unsent)):
            pool.add(place.share.user, -amount)
            pool.add(user, amount)
        moved.arrived, moved.unsent, moved.buffered = place.arrived, place.unsent, place.buffered
        self.shares.leave(place.share)
        self._known[connection] = moved

    def too_many(self, what: str) -> Response:
        error = too_many(what)
        return self.app.refuse(error.code, error.message)

    def hold(self, connection: ServedConnection, size: int) -> bool:
        """Note how much has come over a connection and is kept. When it is too much for all strangers, who holds the most has to
        go; when it is too much for one user, that is said."""
        place = self._known.get(connection)
        if place is not None:
            self._arriving.add(place.share.user, size - place.arrived)
            place.arrived = size
            return self._arriving.has_room(place.share.user)
        if connection in self.strangers:
            self._arriving.add(ANONYMOUS, size - self.strangers[connection])
            self.strangers[connection] = size
            self._bound_strangers()
        return True

    def came(self, connection: ServedConnection, size: int) -> None:
        """Note that so much came at once. What TLS keeps of it for a user is bounded by the number of his connections."""
        if connection in self.strangers and size > (before := self._rooms.get(connection, 0)):
            self._arriving.add(ANONYMOUS, size - before)
            self._rooms[connection] = size
            self._bound_strangers()

    def _bound_strangers(self) -> None:
        while self._arriving.held(ANONYMOUS) > STRANGERS_HOLD or not self._arriving.has_room(ANONYMOUS):
            self._end(max(self.strangers, key=lambda each: self.strangers[each] + self._rooms.get(each, 0)))

    def may_send(self, connection: ServedConnection, size: int) -> bool:
        """Whether so much may wait for a client to take it, beside what waits already; it counts until `sent`. What strangers do
        not read counts as held for them."""
        place = self._known.get(connection)
        if place is None:
            return size <= STREAM_BUFFER or self._unsent.has_room(ANONYMOUS, size)
        if not self._unsent.has_room_for_first(place.share.user, size):
            return False
        place.unsent += size
        self._unsent.add(place.share.user, size)
        return True

    def sent(self, connection: ServedConnection, size: int) -> None:
        place = self._known.get(connection)
        if place is not None:
            place.unsent -= size
            self._unsent.add(place.share.user, -size)

    def is_known(self, connection: ServedConnection) -> bool:
        """Whether what is sent over a connection counts as somebody's."""
        return connection in self._known

    def paused(self, connection: ServedConnection) -> None:
        """Note that a client does not take what it is sent: what the transport holds is its user's. Who has no room left for it
        loses the connection."""
        place = self._known.get(connection)
        if place is None or place.unsent >= STREAM_BUFFER:  # a large answer is counted in whole
            return
        if self.may_send(connection, STREAM_BUFFER):
            place.buffered = STREAM_BUFFER
        else:
            self._end(connection)

    def resumed(self, connection: ServedConnection) -> None:
        place = self._known.get(connection)
        if place is not None:
            self.sent(connection, place.buffered)
            place.buffered = 0

    def renew(self, one_of: int) -> None:
        """Have every so manieth client come back over a new connection."""
        for connection in list(self.connections)[::one_of]:
            connection.renew()

    def next_audit_id(self) -> str:
        self._sequence += 1
        return f"{self.audit_prefix}{self._sequence:012x}"


def time_to_take(size: int) -> float:
    """How long a client may take for an answer of this size."""
    return IDLE_TIMEOUT_S + size / SLOWEST_RATE


def peer_user(transport: asyncio.Transport) -> UserInfo | None:
    """The user of a verified client certificate: common name, with organizations as groups."""
    certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
    attributes = [pair for group in certificate.get("subject", ()) for pair in group]
    name = next((value for key, value in attributes if key == "commonName"), "")
    if not name:
        return None
    return UserInfo(name, tuple(value for key, value in attributes if key == "organizationName"))


def names_one_host(fields: list[tuple[str, str]]) -> bool:
    """Whether at most one host is named, and as one."""
    hosts = [value for key, value in fields if key == "host"]
    return not hosts or (len(hosts) == 1 and _HOST.fullmatch(hosts[0]) is not None)
