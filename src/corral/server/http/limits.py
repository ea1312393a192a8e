"""How much one server takes on, and how much of that may be one user's.

Counting only, without I/O. Administrators and the system's own identities are not held to a share, so that a cluster full of
somebody's requests can still be looked after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from corral.core.admission import UserInfo
from corral.core.errors import TooManyRequests
from corral.core.server_limits import Limits

_SYSTEM = frozenset({"system:masters", "system:nodes", "system:serviceaccounts:kube-system"})


def too_many(what: str) -> TooManyRequests:
    return TooManyRequests(f"Too many {what}, please try again later.", details={"retryAfterSeconds": 1})


class Load:
    """What is being done at this moment, and for whom."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests: Counter[str] = Counter()
        self._watches: Counter[str] = Counter()
        self._total = 0

    @contextmanager
    def request(self, user: UserInfo, verb: str) -> Iterator[None]:
        """Within, a request of `user` is being answered; TooManyRequests when that is one too many."""
        self._check(user, verb)
        self._requests[user.name] += 1
        self._total += 1
        try:
            yield
        finally:
            self._total -= 1
            _one_less(self._requests, user.name)

    def _check(self, user: UserInfo, verb: str) -> None:
        limits, system = self._limits, not _SYSTEM.isdisjoint(user.groups)
        if verb == "watch":
            if not system and self._watches[user.name] >= limits.watches_each:
                raise too_many("watches")
            return
        if self._total >= limits.requests and not system:
            raise too_many("requests")
        if self._total >= 2 * limits.requests or (not system and self._requests[user.name] >= limits.requests_each):
            raise too_many("requests")

    @contextmanager
    def watch(self, user: UserInfo) -> Iterator[None]:
        """Within, `user` is watching."""
        self._watches[user.name] += 1
        try:
            yield
        finally:
            _one_less(self._watches, user.name)


def _one_less(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
