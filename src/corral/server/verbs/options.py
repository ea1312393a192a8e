"""What a caller may ask for besides the object itself, and what a list answers with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from corral.core.admission import ignore_warning
from corral.core.selectors import FieldSelector, Selector
from corral.store import Stored


class Clock(Protocol):
    """The part of the runtime's clock the server needs."""

    def now(self) -> float: ...

    def timestamp(self) -> str: ...

    async def sleep(self, seconds: float) -> None: ...


class Random(Protocol):
    """The part of the runtime's randomness the server needs."""

    def uid(self) -> str: ...

    def uid_at(self, now: float) -> str: ...

    def suffix(self, length: int = 5) -> str: ...

    def uniform(self, low: float, high: float) -> float: ...


class WriteOptions(NamedTuple):
    """Options of create, update, patch and apply. `field_validation` is "", Ignore, Warn or Strict; "" is Warn.
    `owned` says that the object passed in is the caller's to give away, so that it need not be copied. `complaints` are
    what decoding found wrong with the body (duplicate fields), to be treated like unknown fields. `size` is that of the body
    the object came in, 0 for callers within."""

    dry_run: bool = False
    manager: str = ""
    field_validation: str = ""
    force: bool = False
    owned: bool = False
    complaints: tuple[str, ...] = ()
    size: int = 0
    warn: Callable[[str], None] = ignore_warning


class DeleteOptions(NamedTuple):
    """Options of delete. `propagation` is Background, Foreground or Orphan; None is the kind's default."""

    grace: int | None = None
    propagation: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False
    warn: Callable[[str], None] = ignore_warning


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of list and delete_collection. `namespace` "" is all namespaces."""

    namespace: str = ""
    labels: Selector | None = None
    fields: FieldSelector | None = None
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Options of watch. `timeout` in seconds; None watches until closed."""

    namespace: str = ""
    labels: Selector | None = None
    fields: FieldSelector | None = None
    resource_version: str = ""
    resource_version_match: str = ""
    bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout: float | None = None


class Listing(NamedTuple):
    """A list answer: items in the requested version, the revision they are consistent at, and how to go on."""

    items: list[Stored]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


@dataclass(slots=True)
class Warnings:
    """Collects warnings for one request, each once, within the limits of the HTTP header."""

    messages: dict[str, None] = field(default_factory=dict)

    def __call__(self, message: str) -> None:
        self.messages.setdefault(message)


PLAIN_WRITE = WriteOptions()
PLAIN_DELETE = DeleteOptions()
PLAIN_LIST = ListOptions()
PLAIN_WATCH = WatchOptions()
