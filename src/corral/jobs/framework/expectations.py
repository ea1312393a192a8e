"""What an operator did that its cache may not show yet.

A cache lags behind the writes of its own controller. Before counting children an operator asks whether everything it
made has been seen and everything it deleted is seen leaving; until then it waits for the event that will wake it.
"""

from __future__ import annotations

from collections.abc import Callable

from corral.core.meta import Key, Obj, is_deleting, uid_of
from corral.runtime.clock import Clock
from corral.runtime.informer import Informer

STALE_AFTER_S = 300.0


class Expectations:
    """Outstanding creations and deletions per owner key, by uid."""

    def __init__(self, informer: Informer, clock: Clock, *, gone: Callable[[Obj], bool] = is_deleting) -> None:
        """`gone` says when a child that is still there counts as having left."""
        self._owner_of: dict[str, Key] = {}
        self._created: dict[Key, dict[str, float]] = {}
        self._deleted: dict[Key, dict[str, float]] = {}
        self._clock = clock
        self._informer = informer
        self._gone = gone
        informer.on_change(self._observe)

    def made(self, key: Key, child: Obj) -> None:
        """`child` was created; wait until it is seen."""
        if not self._informer.shows(child):
            self._created.setdefault(key, {})[uid_of(child)] = self._clock.monotonic()
            self._owner_of[uid_of(child)] = key

    def removing(self, key: Key, child: Obj) -> None:
        """`child` is about to be deleted; wait until it is seen leaving."""
        self._deleted.setdefault(key, {})[uid_of(child)] = self._clock.monotonic()
        self._owner_of[uid_of(child)] = key

    def give_up(self, key: Key, child: Obj) -> None:
        """The deletion of `child` did not happen."""
        self._settle(self._deleted, uid_of(child))

    def met(self, key: Key) -> bool:
        """Whether the cache shows all that was done; expectations too old to be believed are dropped."""
        limit = self._clock.monotonic() - STALE_AFTER_S
        for book in (self._created, self._deleted):
            for uid in [uid for uid, since in book.get(key, {}).items() if since < limit]:
                self._settle(book, uid)
        return key not in self._created and key not in self._deleted

    def forget(self, key: Key) -> None:
        """The owner is gone."""
        for book in (self._created, self._deleted):
            for uid in book.pop(key, {}):
                self._owner_of.pop(uid, None)

    def _observe(self, old: Obj | None, new: Obj | None) -> None:
        if not self._owner_of:
            return
        if new is not None:
            self._settle(self._created, uid_of(new))
            if self._gone(new):
                self._settle(self._deleted, uid_of(new))
        if old is not None and (new is None or uid_of(new) != uid_of(old)):
            self._settle(self._created, uid_of(old))
            self._settle(self._deleted, uid_of(old))

    def _settle(self, book: dict[Key, dict[str, float]], uid: str) -> None:
        key = self._owner_of.get(uid)
        if key is None or uid not in book.get(key, {}):
            return
        del book[key][uid]
        if not book[key]:
            del book[key]
        other = self._deleted if book is self._created else self._created
        if uid not in other.get(key, {}):
            self._owner_of.pop(uid, None)
