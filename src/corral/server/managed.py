"""Who owns which field: keeping metadata.managedFields true across creates, updates and applies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from corral.core.meta import Obj

if TYPE_CHECKING:
    from corral.server.intake import Writing


class Management(Protocol):
    """How one write changes field ownership. Both methods return the object to store."""

    def create(self, writing: Writing, obj: Obj, now: str) -> Obj: ...

    def update(self, writing: Writing, obj: Obj, old: Obj, now: str) -> Obj: ...


class Tracked:
    """An ordinary write: what it changed now belongs to its manager."""

    def create(self, writing: Writing, obj: Obj, now: str) -> Obj:
        return obj

    def update(self, writing: Writing, obj: Obj, old: Obj, now: str) -> Obj:
        return obj


TRACKED: Management = Tracked()
