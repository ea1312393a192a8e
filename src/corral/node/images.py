"""The image catalog: which local program stands for an image.

A small TOML file, the one that ships plus the user's own in front of it. An image that has a command needs no entry: the
command runs on this machine. One that has neither is simulated, and the pod's events say so.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from corral.core.text_files import read_text

_AGNHOST = str(Path(__file__).with_name("agnhost.py"))  # by its path: it needs nothing of this package
BUILTIN_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "@python": (sys.executable,),
    "@agnhost": (sys.executable, _AGNHOST),
    "@serve": (sys.executable, _AGNHOST, "serve"),
}


@dataclass(frozen=True, slots=True)
class Image:
    """One entry of the catalog."""

    match: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run for a container."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    note: str = ""
    """Why this is not what the image would do, for an Event; empty when there is nothing to say."""


class UnknownImageError(Exception):
    """The image is not in the catalog, and the catalog says that this is an error."""


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from error


@dataclass(frozen=True, slots=True)
class Catalog:
    """All entries, in order of precedence."""

    images: tuple[Image, ...] = ()
    simulate_s: float = 30.0
    unknown: str = "simulate"

    @classmethod
    def load(cls, *paths: Path) -> Catalog:
        """The user's files, first ones first, then the catalog that ships."""
        shipped = tomllib.loads(Path(__file__).with_name("images.toml").read_text())
        documents = [*map(_read, paths), shipped]
        defaults: dict[str, Any] = {}
        for document in reversed(documents):
            defaults.update(document.get("defaults", {}))
        images = tuple(_image(entry) for document in documents for entry in document.get("image", ()))
        return cls(images, float(defaults.get("simulate_seconds", 30)), str(defaults.get("unknown", "simulate")))

    def find(self, image: str) -> Image | None:
        """The first entry that fits the image's repository."""
        full = _without_tag(image)
        _, _, bare = full.partition("/") if _has_registry(full) else ("", "", full)
        names = (full, bare, bare.removeprefix("library/"))
        for entry in self.images:
            if any(fnmatchcase(name, pattern) for pattern in entry.match for name in names):
                return entry
        return None

    def resolve(self, image: str, command: Sequence[str], args: Sequence[str]) -> Program:
        """The program for a container of `image` with this command and these args."""
        entry = self.find(image)
        if entry is None:
            if self.unknown == "fail":
                raise UnknownImageError(f'image "{image}" is not in the image catalog')
            entry = Image(())
        argv = (*command, *args) if command else (*entry.entrypoint, *(args or entry.cmd))
        if not argv or (not command and not entry.entrypoint and not entry.cmd):
            seconds = f"{self.simulate_s:g}"
            note = f'Image "{image}" has no command and is not in the image catalog: simulating it for {seconds}s'
            return Program(("sleep", seconds), note=note)
        return Program(self._translate(argv, entry), entry.env, entry.workdir)

    @staticmethod
    def _translate(argv: tuple[str, ...], entry: Image) -> tuple[str, ...]:
        first = argv[0]
        first = entry.programs.get(first.rpartition("/")[2], first)
        return (*BUILTIN_PROGRAMS.get(first, (first,)), *argv[1:])


def _image(entry: dict[str, Any]) -> Image:
    return Image(
        tuple(entry["match"]),
        tuple(entry.get("entrypoint", ())),
        tuple(entry.get("cmd", ())),
        dict(entry.get("programs", {})),
        dict(entry.get("env", {})),
        str(entry.get("workdir", "")),
    )


def _without_tag(image: str) -> str:
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    return head + slash + tail.partition(":")[0]


def _has_registry(name: str) -> bool:
    first, slash, _ = name.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")
