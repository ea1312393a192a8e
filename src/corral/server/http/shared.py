"""What the connections of one server share, whichever protocol they speak: limits, the application, who is connected."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Protocol

from corral.core.admission import UserInfo
from corral.core.server_limits import Limits
from corral.server.http.message import Answer, Request, Response

MAX_BODY = 3 * 1024 * 1024
MAX_HEAD = 256 * 1024
MAX_UNASKED_BODY = 64 * 1024
MAX_PATH = 8 * 1024
HEAD_TIMEOUT_S = 10.0
BODY_TIMEOUT_S = 60.0
IDLE_TIMEOUT_S = 90.0
LINGER_S = 0.5
STREAM_BUFFER = 256 * 1024

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._~-]*)(?::[0-9]*)?")


class Application(Protocol):
    """What serves requests. `answer_now` may answer without waiting; None sends the request to `answer`."""

    def answer_now(self, request: Request) -> Response | None: ...

    async def answer(self, request: Request) -> Answer: ...

    def knows(self, request: Request) -> bool:
        """Whether the request comes from somebody with good credentials."""
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

    def drain(self) -> None:
        """Take nothing new, end what would never end, and close when the rest is answered."""
        ...

    def unfinished(self) -> asyncio.Future[None] | None:
        """Done when everything asked for has been answered; None when it is."""
        ...


class Shared:
    """What all connections of one server share: the application, who is connected, and the current Date header."""

    def __init__(self, app: Application, limits: Limits = Limits()) -> None:  # noqa: B008  # frozen
        self.app = app
        self.limits = limits
        self.connections: set[ServedConnection] = set()
        self.strangers: dict[ServedConnection, None] = {}
        """Connections that have shown no credentials yet, the oldest first."""
        self.closed = 0
        """How many connections have ended since somebody cleaned up."""
        self.date = ""
        self.closing = False
        self._sequence = 0
        self.audit_prefix = "00000000-0000-4000-8000-"

    def connected(self, connection: ServedConnection) -> bool:
        """Count a new connection; False when there is no room for it. Strangers make room for each other."""
        if len(self.connections) >= self.limits.connections:
            return False
        self.connections.add(connection)
        if connection.peer is None:
            self.strangers[connection] = None
            if len(self.strangers) > self.limits.strangers:
                oldest = next(iter(self.strangers))
                self.disconnected(oldest)
                oldest.transport.abort()
        return True

    def disconnected(self, connection: ServedConnection) -> None:
        self.closed += connection in self.connections
        self.connections.discard(connection)
        self.strangers.pop(connection, None)

    def next_audit_id(self) -> str:
        self._sequence += 1
        return f"{self.audit_prefix}{self._sequence:012x}"


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
