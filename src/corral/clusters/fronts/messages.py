"""What the owner of a store and its front processes say to each other, beside what is said about the store itself."""

from __future__ import annotations

import msgspec

from corral.configuration.fleet import FleetSpec
from corral.core.meta import Obj
from corral.core.server_limits import Limits
from corral.server.access.audit import AuditOptions
from corral.store.replication import Drafts, FromOwner


class Serve(msgspec.Struct, array_like=True, tag=20, frozen=True):
    """The first message: which cluster this is."""

    name: str
    host: str
    port: int
    hosts: list[str]
    state: str
    limits: Limits
    webhook_networks: list[str]
    pod_networks: list[str] | None
    answered_here: list[str]
    shown_by_owner: list[tuple[str, str]]
    """Kinds, as group and plural, that only the owner can show."""
    mark: str = ""
    """What no object contains: where the revision goes in what the front writes."""
    fleet: FleetSpec | None = None
    cluster: str = ""
    """Its name in its fleet, where it belongs to one."""
    audit: AuditOptions | None = None
    """What is audited, where anything is."""


class Configure(msgspec.Struct, array_like=True, tag=24, frozen=True):
    """The configuration of queueing that is in force from now on."""

    document: Obj


class Held(msgspec.Struct, array_like=True, frozen=True):
    """What users have of a process for long, those who have little of it left out: by their names."""

    connections: dict[str, int] = {}
    watches: dict[str, int] = {}


class Ping(msgspec.Struct, array_like=True, tag=21, frozen=True):
    """Does the loop still turn? And what users have of the other fronts."""

    number: int
    others: Held


class Renew(msgspec.Struct, array_like=True, tag=22, frozen=True):
    """Have one of so many clients come back over a new connection, which may then lead shown_by_owner."""

    one_of: int


class Leave(msgspec.Struct, array_like=True, tag=23, frozen=True):
    """Take nothing new, answer what was asked, and end."""


class Ready(msgspec.Struct, array_like=True, tag=30, frozen=True):
    """Connections may be handed over."""


class Beat(msgspec.Struct, array_like=True, tag=31, frozen=True):
    """The loop turns; how many connections there are, of how many that were ever handed over, how busy it is, and what was served since
    the last one."""

    number: int
    connections: int
    taken: int
    busy: float
    served: list[tuple[tuple[str, str, str, str, str, int], int]]
    held: Held


class Audited(msgspec.Struct, array_like=True, tag=32, frozen=True):
    """A line for the audit log."""

    line: bytes


ToFront = FromOwner | Serve | Configure | Ping | Renew | Leave
ToOwner = Drafts | Ready | Beat | Audited

encode = msgspec.msgpack.Encoder().encode
decode_to_front = msgspec.msgpack.Decoder(ToFront).decode
decode_to_owner = msgspec.msgpack.Decoder(ToOwner).decode
