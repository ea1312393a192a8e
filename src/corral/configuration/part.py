"""Reading a document field by field, so that no field can be accepted and ignored.

A parser asks a Part for the fields it knows; the Part remembers which. What the document says and nobody asked for has no
effect, and `unread` names it. The fields there are, in an error's text, are the ones that were asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from corral.core.meta import Obj
from corral.core.timestamps import parse_duration


class ConfigurationError(ValueError):
    """The document cannot be used; the text says where and why."""


class Part:
    """A mapping inside a document. An absent one has no fields, and null is as good as absent."""

    def __init__(self, value: Any = None, path: str = "") -> None:
        if value is not None and not isinstance(value, dict):
            raise ConfigurationError(f"{path}: expected a mapping, got {value!r}")
        self._values: Obj = value or {}
        self._path = path
        self._read: dict[str, Part | None] = {}

    @classmethod
    def of(cls, document: Obj | Self) -> Part:
        """The whole document as a part; one that several parsers share collects what all of them read."""
        return document if isinstance(document, Part) else cls(document)

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self._path}.{name}" if self._path else name

    def __contains__(self, name: str) -> bool:
        self._read.setdefault(name, None)
        return self._values.get(name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """A field as it is."""
        return self._values[name] if name in self else default

    def part(self, name: str) -> Part:
        """A field that is a mapping, whose own fields are read one by one."""
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = Part(self._values.get(name), self.at(name))
        return found

    def text(self, name: str, default: str = "") -> str:
        """A field that is a text; an empty one is as good as absent."""
        return str(self.get(name) or default)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise ConfigurationError(f"{self.at(name)}: expected true or false, got {value!r}")
        return value

    def number(self, name: str, default: int) -> int:
        value = self.get(name, default)
        try:
            return int(value)
        except (ValueError, TypeError):
            raise ConfigurationError(f"{self.at(name)}: expected a whole number, got {value!r}") from None

    def amount(self, name: str, default: float, least: float) -> float:
        """A number, whole or not, that is not below `least`."""
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
            raise ConfigurationError(f"{self.at(name)}: expected a number of at least {least:g}, got {value!r}")
        return float(value)

    def seconds(self, name: str, default: float) -> float:
        """A duration such as `5m`."""
        found = self.optional_seconds(name)
        return default if found is None else found

    def optional_seconds(self, name: str) -> float | None:
        """A duration that need not be set."""
        value = self.get(name)
        try:
            return None if value is None else float(parse_duration(str(value)))
        except ValueError as error:
            raise ConfigurationError(f"{self.at(name)}: {error}") from error

    def within(self, path: str) -> Part:
        """The part at a path of this one."""
        found = self
        for name in path.split("."):
            found = found.part(name)
        return found

    def known(self) -> list[str]:
        """The fields that parsers know, in order."""
        return sorted(self._read)

    def unread(self) -> Iterator[str]:
        """Paths of fields that no parser knows."""
        for name in self._values:
            known = self._read.get(name)
            if name not in self._read:
                yield self.at(str(name))
            elif known is not None:
                yield from known.unread()
