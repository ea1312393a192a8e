"""What a store refuses, and why. The API turns these into the Status objects clients know."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corral.store.stored import ObjectKey, Stored


class StoreError(Exception):
    """The journal could not keep a write; nothing of it is visible."""


class Stale(StoreError):
    """The object is not at the revision the writer expected. `current` is what is there, None when there is nothing."""

    def __init__(self, key: ObjectKey, expected: int, current: Stored | None):
        super().__init__(f"{key} is at revision {current.revision if current else 0}, not {expected}")
        self.key = key
        self.expected = expected
        self.current = current


class Homeless(StoreError):
    """What an object was to be created in is gone."""


class TooLarge(StoreError):
    """An object has more bytes than the store takes."""


class Compacted(StoreError):
    """The history after `revision` is no longer kept; the oldest revision that can be continued from is `oldest`."""

    def __init__(self, revision: int, oldest: int):
        super().__init__(f"revision {revision} is older than the retained history, which starts at {oldest}")
        self.revision = revision
        self.oldest = oldest
