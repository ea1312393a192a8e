"""Reading container logs: the part a user asks for, and what is added while they watch.

Files are in the container runtimes' line format (`process/logfile.py`). They are read in slices, no further than what is
asked for, and others get a turn between two slices: how much a pod has to say is its own affair. Following ends when the run
has ended and all of it has been read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from corral.core.streams import LogOptions
from corral.core.timestamps import format_micro
from corral.runtime.clock import Clock

FOLLOW_PAUSE_S = 0.1
CHUNK = 64 * 1024
_ROWS = 1000
_ROW = re.compile(rb"^(\S+) (stdout|stderr) ([FP]) (.*)$", re.DOTALL)


async def read_log(run: Path, options: LogOptions, clock: Clock, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log of the run in folder `run`."""
    left = options.limit_bytes
    show = Shown(options)
    async for rows in _rows(run / "log", options, clock, is_over):
        text = b"".join(show(row) for row in rows)
        if left is not None:
            text = text[:left]
            left -= len(text)
        if text:
            yield text
        if left == 0:
            return
        await give_a_turn()


async def give_a_turn() -> None:
    """Let everybody else go on for a moment."""
    await asyncio.sleep(0)


class Shown:
    """How rows look to the user; remembers whether a line is still open."""

    def __init__(self, options: LogOptions) -> None:
        self._timestamps = options.timestamps
        self._since = _since(options)
        self._open = False

    def __call__(self, row: bytes) -> bytes:
        match = _ROW.match(row)
        if match is None or match[1] < self._since:
            return b""
        time, _, kind, text = match.groups()
        head = time + b" " if self._timestamps and not self._open else b""
        self._open = kind == b"P"
        return head + text + (b"" if self._open else b"\n")


async def _rows(
    path: Path, options: LogOptions, clock: Clock, is_over: Callable[[], bool]
) -> AsyncIterator[list[bytes]]:
    older = path.with_name(path.name + ".1")
    if options.tail_lines is not None:
        rows, position = last_rows(path, options.tail_lines)
        for start in range(0, len(rows), _ROWS):
            yield rows[start : start + _ROWS]
    else:
        for rows in _chunks(older, _since(options)):
            yield rows
        position = _begin(path, _since(options))
    rest = b""
    while True:
        was_over = is_over()  # asked before reading: what was written until the end is then surely read
        if path.exists():
            if path.stat().st_size < position:
                position, rest = 0, b""  # it was set aside and began anew
            with path.open("rb") as file:
                file.seek(position)
                while data := file.read(CHUNK):
                    position += len(data)
                    *rows, rest = (rest + data).split(b"\n")
                    yield rows
        if not options.follow or was_over:
            return
        await clock.sleep(FOLLOW_PAUSE_S)


def _since(options: LogOptions) -> bytes:
    """The time before which rows do not count, as rows write it."""
    return format_micro(options.since)[:-1].encode() if options.since is not None else b""


def _chunks(path: Path, since: bytes) -> Iterator[list[bytes]]:
    if not path.exists():
        return
    rest = b""
    with path.open("rb") as file:
        file.seek(_begin(path, since))
        while data := file.read(CHUNK):
            *rows, rest = (rest + data).split(b"\n")
            yield rows
    yield [rest]


def _begin(path: Path, since: bytes) -> int:
    """A row's start in the file, with no row before it that is as new as `since`; rows are in the order of their times."""
    if not since or not path.exists():
        return 0
    with path.open("rb") as file:
        low, high = 0, file.seek(0, 2)
        while high - low > CHUNK:
            middle = (low + high) // 2
            file.seek(middle)
            file.readline()  # the rest of a row
            row = file.readline()
            if not row or row.partition(b" ")[0] >= since:
                high = middle
            else:
                low = middle
        file.seek(low)
        if low:
            file.readline()
        return file.tell()


def last_rows(path: Path, count: int) -> tuple[list[bytes], int]:
    """The last `count` complete rows of a file, and the position after them."""
    if not path.exists():
        return [], 0
    pieces: list[bytes] = []
    with path.open("rb") as file:
        end = start = file.seek(0, 2)
        seen = 0
        while start > 0 and seen <= count:
            step = min(CHUNK, start)
            start -= step
            file.seek(start)
            pieces.append(file.read(step))
            seen += pieces[-1].count(b"\n")
    *rows, rest = b"".join(reversed(pieces)).split(b"\n")
    if start > 0:
        rows = rows[1:]  # its beginning was not read
    return (rows[-count:] if count > 0 else []), end - len(rest)
