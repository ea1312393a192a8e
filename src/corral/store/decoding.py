"""Decoding what is stored, so that parts which many objects have alike become one value in memory.

Jobs of one kind come by the thousand with equal specs, and whoever writes them owns the same fields. Decoded objects are never
mutated, so equal parts may be one; that is three quarters of the memory of a decoded Workload, and half of the time. A part is
remembered when its bytes are seen for the second time: what is there once costs a number, not a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw
from msgspec.json import Decoder

from corral.core.meta import Obj

MOST_REMEMBERED = 4096
"""Parts, of which most are some hundred bytes long."""
MOST_SEEN = 16 * MOST_REMEMBERED

_fields = Decoder(dict[str, Raw]).decode
_entries = Decoder(list[dict[str, Raw]]).decode
_value = Decoder().decode


class Decoding:
    """Remembers the parts that were seen more than once; bounded, and forgotten all at once."""

    __slots__ = ("_known", "_seen")

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}
        self._seen: set[int] = set()

    def decode(self, raw: bytes) -> Obj:
        """The object written in `raw`; parts of it may be those of others."""
        obj: Obj = _fields(raw)
        for name, part in obj.items():
            obj[name] = self._metadata(part) if name == "metadata" else self._part(part)
        return obj

    def _metadata(self, raw: Raw) -> Obj:
        metadata: Obj = _fields(raw)
        for name, part in metadata.items():
            metadata[name] = self._part(part, self._ownership) if name == "managedFields" else _value(part)
        return metadata

    def _ownership(self, raw: bytes) -> list[Obj]:
        """Of what is written in one second all is often equal, of the rest all but the time."""
        entries: list[Obj] = [*_entries(raw)]
        for entry in entries:
            for name, part in entry.items():
                entry[name] = self._part(part)
        return entries

    def _part(self, raw: Raw, read: Callable[[bytes], Any] = _value) -> Any:
        content = bytes(raw)
        known = self._known.get(content)
        if known is not None:
            return known
        value = read(content)
        if self._is_met_again(hash(content)):
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[content] = value
        return value

    def _is_met_again(self, content: int) -> bool:
        seen = self._seen
        if content in seen:
            return True
        if len(seen) >= MOST_SEEN:
            seen.clear()
        seen.add(content)
        return False
