"""The image catalog: which local program stands for an image.

A small TOML file, the one that ships plus the user's own in front of it. An image that has a command needs no entry: the
command runs on this machine. One that has neither cannot be pulled, for there is nothing to run; only a catalog that says
`unknown = "simulate"` lets it pretend, and then its status, its logs and an Event say so.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from corral.core.text_files import read_text
from corral.kinds.kubernetes.pods.simulated import SIMULATE_ANNOTATION

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
    """Why nothing really runs, for an Event; empty when it does."""


class UnknownImageError(Exception):
    """There is nothing to run for an image, or the catalog wants an entry for each."""


COMMAND, SIMULATE, FAIL = "command", "simulate", "fail"
"""What is done with an image that has no entry: its container's command is run, it may pretend, it cannot be pulled."""
UNKNOWN = (COMMAND, SIMULATE, FAIL)
NOTHING_TO_RUN = (
    'failed to pull image "{image}": containers are programs of this machine here, and nothing says which one this image is: give '
    "the container a command, or the image an entry in the image catalog (`images` in fleet.yaml); to pretend that it runs, "
    'set the annotation {annotation}: "true" on the pod'
)
NO_ENTRY = 'failed to pull image "{image}": it is not in the image catalog, which wants an entry for every image (unknown = "fail")'


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from error
    for key, fault in _faults(document):
        line = _line_of(text, key)
        raise ValueError(f"{path}{f', line {line}' if line else ''}: {fault}")
    return document


TEXT, NUMBER, TEXTS, TABLE = "a text", "a number", "a list of texts", "a table of texts"
DEFAULTS = {"simulate_seconds": NUMBER, "unknown": TEXT}
ENTRY = {"match": TEXTS, "entrypoint": TEXTS, "cmd": TEXTS, "programs": TABLE, "env": TABLE, "workdir": TEXT}


def _faults(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with a catalog: the key it is about, and the words."""
    yield from _unknown_keys(document, ("defaults", "image"), "the catalog")
    defaults, images = document.get("defaults", {}), document.get("image", [])
    if not isinstance(defaults, dict):
        yield "defaults", "defaults is a table: write [defaults]"
        return
    if not isinstance(images, list) or not all(isinstance(entry, dict) for entry in images):
        yield "image", "image is a list of tables: write [[image]]"
        return
    yield from _table_faults(defaults, DEFAULTS, "[defaults]")
    if (chosen := defaults.get("unknown", COMMAND)) not in UNKNOWN:
        yield "unknown", f"unknown is {chosen!r}; it is one of {', '.join(UNKNOWN)}"
    for entry in images:
        yield from _table_faults(entry, ENTRY, "[[image]]")
        if "match" not in entry:
            yield next(iter(entry), "image"), "an [[image]] needs match: patterns over the image's repository"


def _table_faults(table: Mapping[str, Any], fields: Mapping[str, str], where: str) -> Iterator[tuple[str, str]]:
    yield from _unknown_keys(table, tuple(fields), where)
    for name, kind in fields.items():
        if name in table and not _is(kind, table[name]):
            yield name, f"{name} of {where} is {table[name]!r}; it must be {kind}"


def _is(kind: str, value: Any) -> bool:
    if kind == TEXTS:
        return isinstance(value, list) and all(isinstance(part, str) for part in value)
    if kind == TABLE:
        return isinstance(value, dict) and all(isinstance(part, str) for part in value.values())
    if kind == NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return isinstance(value, str)


def _unknown_keys(table: Mapping[str, Any], known: Sequence[str], where: str) -> Iterator[tuple[str, str]]:
    for key in table:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            instead = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            yield key, f"unknown key {key!r} in {where}; {instead}"


def _line_of(text: str, key: str) -> int:
    """The line that sets a key, or opens a table of that name; 0 where it cannot be told."""
    name = re.compile(rf"""^\s*(\[+\s*)?["']?{re.escape(key)}["']?\s*(=|\]|\.)""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if name.match(line)), 0)


@dataclass(frozen=True, slots=True)
class Catalog:
    """All entries, in order of precedence."""

    images: tuple[Image, ...] = ()
    simulate_s: float = 30.0
    unknown: str = COMMAND

    @classmethod
    def load(cls, *paths: Path) -> Catalog:
        """The user's files, first ones first, then the catalog that ships."""
        shipped = tomllib.loads(Path(__file__).with_name("images.toml").read_text())
        documents = [*map(_read, paths), shipped]
        defaults: dict[str, Any] = {}
        for document in reversed(documents):
            defaults.update(document.get("defaults", {}))
        images = tuple(_image(entry) for document in documents for entry in document.get("image", ()))
        return cls(images, float(defaults.get("simulate_seconds", 30)), str(defaults.get("unknown", COMMAND)))

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
        """The program for a container of `image` with this command and these args. Raises UnknownImageError."""
        entry = self.find(image)
        if entry is None:
            if self.unknown == FAIL:
                raise UnknownImageError(NO_ENTRY.format(image=image))
            entry = Image(())
        if not command and not entry.entrypoint and not entry.cmd:
            if self.unknown != SIMULATE:
                raise UnknownImageError(NOTHING_TO_RUN.format(image=image, annotation=SIMULATE_ANNOTATION))
            why = f'image "{image}" has no command and is not in the image catalog'
            return pretending(self.simulate_s, 0, why)
        argv = (*command, *args) if command else (*entry.entrypoint, *(args or entry.cmd))
        return Program(self._translate(argv, entry), entry.env, entry.workdir)

    @staticmethod
    def _translate(argv: tuple[str, ...], entry: Image) -> tuple[str, ...]:
        first = argv[0]
        first = entry.programs.get(first.rpartition("/")[2], first)
        return (*BUILTIN_PROGRAMS.get(first, (first,)), *argv[1:])


def pretending(seconds: float, code: int, why: str) -> Program:
    """A program that only passes the time and ends with `code`, and says in its log and in a note that it does."""
    lasts = f"for {seconds:g}s" if seconds != math.inf else "until it is stopped"
    amount = f"{seconds:g}" if seconds != math.inf else "infinity"
    said = f"simulated {lasts}: {why}"
    # A shell of its own is the first to get SIGTERM; it must not leave its sleep behind.
    script = (
        f"trap 'kill $! 2>/dev/null; exit 143' TERM; echo {shlex.quote(said)}; sleep {amount} & wait $!; exit {code}"
    )
    return Program(("/bin/sh", "-c", script), note=said[0].upper() + said[1:])


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
