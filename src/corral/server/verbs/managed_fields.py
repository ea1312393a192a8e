"""Who owns which field: keeping metadata.managedFields true across writes.

Ownership is settled after an object was read and before admission sees it, so what plug-ins and the system add belongs
to nobody. An apply has settled it already when it merged the configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from corral.core.meta import Obj
from corral.core.patch.apply import track_update, with_managed_fields

if TYPE_CHECKING:
    from corral.server.verbs.intake import Writing


class Management(Protocol):
    """How one write changes field ownership. Both methods return the object to go on with."""

    def create(self, writing: Writing, obj: Obj, now: str) -> Obj: ...

    def update(self, writing: Writing, obj: Obj, old: Obj, now: str) -> Obj: ...


class Tracked:
    """An ordinary write: what it changed now belongs to its manager."""

    def create(self, writing: Writing, obj: Obj, now: str) -> Obj:
        return self._track(writing, obj, writing.shape.empty, now, creating=True)

    def update(self, writing: Writing, obj: Obj, old: Obj, now: str) -> Obj:
        return self._track(writing, obj, old, now, creating=False)

    def _track(self, writing: Writing, obj: Obj, old: Obj, now: str, *, creating: bool) -> Obj:
        return track_update(
            old,
            obj,
            writing.shape.schema.root,
            manager=writing.options.manager,
            now=now,
            subresource=writing.subresource,
            creating=creating,
        )


class Settled:
    """An apply: ownership was settled when the configuration was merged, and only has to be written down."""

    def __init__(self, entries: list[Obj]) -> None:
        self._entries = entries

    def create(self, writing: Writing, obj: Obj, now: str) -> Obj:
        return with_managed_fields(obj, self._entries)

    def update(self, writing: Writing, obj: Obj, old: Obj, now: str) -> Obj:
        return with_managed_fields(obj, self._entries)


class Untracked:
    """A write that leaves ownership as it is."""

    def create(self, writing: Writing, obj: Obj, now: str) -> Obj:
        return obj

    def update(self, writing: Writing, obj: Obj, old: Obj, now: str) -> Obj:
        return obj


TRACKED: Management = Tracked()
UNTRACKED: Management = Untracked()
