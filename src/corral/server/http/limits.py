"""How much one server takes on, and how much of that may be one user's.

Counting only, without I/O. Nobody may have more of anything than is left for the others, so no user takes the whole, however
early he comes; all strangers together count as one modest user. Administrators and the system's own identities are not held
to a share, so that a cluster full of somebody's requests can still be looked after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from corral.core.admission import ANONYMOUS, UserInfo
from corral.core.errors import TooManyRequests
from corral.core.server_limits import Limits
from corral.server.http.message import Request

TARGET_WEIGHT = 40
"""What a selector takes once it is understood, for each byte it is written in."""
STRANGERS_PART: Final = 8
"""Strangers may have this part of what is left: they are refused long before users are."""

_SYSTEM = frozenset({"system:masters", "system:nodes", "system:serviceaccounts:kube-system"})


def too_many(what: str) -> TooManyRequests:
    return TooManyRequests(f"Too many {what}, please try again later.", details={"retryAfterSeconds": 1})


def is_system(user: UserInfo) -> bool:
    """Whether somebody is not held to a user's share."""
    return not _SYSTEM.isdisjoint(user.groups)


class Pool:
    """So much of one thing for all together, so much of it for each."""

    def __init__(self, total: int, each: int) -> None:
        self._total, self._each = total, each
        self._used = 0
        self._held: Counter[str] = Counter()
        self._in_others: Mapping[str, int] = {}

    def count_others(self, held: Mapping[str, int]) -> None:
        """What each user is known to have of it in other processes."""
        self._in_others = held

    def largest(self, least: int) -> dict[str, int]:
        """What is held by those who hold so much of it."""
        return {name: held for name, held in self._held.items() if held >= least}

    def held(self, user: UserInfo) -> int:
        return self._held[user.name]

    def has_room(self, user: UserInfo, more: int = 0) -> bool:
        """Whether a user may have this much more. The system's own have as much again when all others are refused."""
        left = self._total - self._used - more
        if is_system(user):
            return left >= -self._total
        share = min(self._each, left) if user.name != ANONYMOUS.name else min(self._each, left // STRANGERS_PART)
        return self._held[user.name] + self._in_others.get(user.name, 0) + more <= max(share, 0)

    def has_room_for_first(self, user: UserInfo, size: int) -> bool:
        """The same for what cannot be had in parts: one may have all that is left."""
        first = not self._held[user.name] and (not self._used or self._used + size <= self._total)
        return (first and user.name != ANONYMOUS.name) or self.has_room(user, size)

    def add(self, user: UserInfo, amount: int) -> None:
        self._used += amount
        held = self._held[user.name] + amount
        if held:
            self._held[user.name] = held
        else:
            self._held.pop(user.name, None)

    @contextmanager
    def taken(self, user: UserInfo, amount: int) -> Iterator[None]:
        """Within, a user has this much more, whether or not there is room for it."""
        self.add(user, amount)
        try:
            yield
        finally:
            self.add(user, -amount)


class Share:
    """What one user has of the connections of a server."""

    __slots__ = ("connections", "user")

    def __init__(self, user: UserInfo) -> None:
        self.user = user
        self.connections = 0


class Shares:
    """The connections of those who have shown who they are."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_user: dict[str, Share] = {}
        self._in_others: Mapping[str, int] = {}

    def count_others(self, connections: Mapping[str, int]) -> None:
        """How many connections each user is known to have to other processes."""
        self._in_others = connections

    def most(self, least: int) -> dict[str, int]:
        """The connections of those who have so many."""
        return {name: share.connections for name, share in self._by_user.items() if share.connections >= least}

    def join(self, user: UserInfo) -> Share:
        """Count a connection of `user`, whether or not there is room for it."""
        share = self._by_user.setdefault(user.name, Share(user))
        share.connections += 1
        return share

    def leave(self, share: Share) -> None:
        share.connections -= 1
        if not share.connections:
            self._by_user.pop(share.user.name, None)

    def may_connect(self, share: Share) -> bool:
        """Whether a user may have the connections there are."""
        connections = share.connections + self._in_others.get(share.user.name, 0)
        return connections <= self._limits.connections_each or is_system(share.user)

    def largest(self) -> Share | None:
        """The user with the most connections, if anybody has more than one; the system's own do not count."""
        shares = [share for share in self._by_user.values() if share.connections > 1 and not is_system(share.user)]
        return max(shares, key=lambda share: share.connections, default=None)


class Load:
    """What is being done at this moment, and for whom."""

    def __init__(self, limits: Limits) -> None:
        self._requests = Pool(limits.requests, limits.requests_each)
        self.watches = Pool(limits.watches, limits.watches_each)
        self._bytes = Pool(limits.bytes, limits.bytes_each)

    @contextmanager
    def request(self, user: UserInfo, verb: str, size: int = 0) -> Iterator[None]:
        """Within, a request of `user` that takes `size` bytes is being answered; TooManyRequests when that is too much."""
        what, pool = ("watches", self.watches) if verb == "watch" else ("requests", self._requests)
        if not self._bytes.has_room_for_first(user, size):
            raise too_many("bytes in requests")
        if not pool.has_room(user, 1):
            raise too_many(what)
        with self._bytes.taken(user, size), pool.taken(user, 1):
            yield

    @contextmanager
    def watch(self, user: UserInfo, size: int = 0) -> Iterator[None]:
        """Within, `user` is watching what was asked for in `size` bytes."""
        with self._bytes.taken(user, size), self.watches.taken(user, 1):
            yield


def size_of(request: Request) -> int:
    """What a request takes while it is being answered."""
    return len(request.body) + TARGET_WEIGHT * len(request.target)
