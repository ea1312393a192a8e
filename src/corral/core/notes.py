"""What a controller remembers of objects between two looks at them.

Notes are found by the object's key and hold for that very object: one that was deleted and made again under its name
starts without any, even when nobody looked in between.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from corral.core.meta import Key, Obj, key_of, uid_of

T = TypeVar("T")


class Notes(Generic[T]):
    """One note per object."""

    def __init__(self) -> None:
        self._held: dict[Key, tuple[str, T]] = {}

    def get(self, obj: Obj) -> T | None:
        uid, note = self._held.get(key_of(obj), ("", None))
        return note if uid == uid_of(obj) else None

    def put(self, obj: Obj, note: T) -> None:
        self._held[key_of(obj)] = (uid_of(obj), note)

    def forget(self, key: Key) -> None:
        self._held.pop(key, None)
