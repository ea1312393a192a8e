"""Reading container logs: the part a user asks for, and what is added while they watch.

Files are in the container runtimes' line format (`process/logfile.py`). Following ends when the run has ended and all of
it has been read.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from corral.core.streams import LogOptions
from corral.core.timestamps import format_micro
from corral.runtime.clock import Clock

FOLLOW_PAUSE_S = 0.1
CHUNK = 256 * 1024
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


class Shown:
    """How rows look to the user; remembers whether a line is still open."""

    def __init__(self, options: LogOptions) -> None:
        self._timestamps = options.timestamps
        self._since = format_micro(options.since)[:-1].encode() if options.since is not None else b""
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
        yield rows
    else:
        for rows in _chunks(older):
            yield rows
        position = 0
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


def _chunks(path: Path) -> Iterator[list[bytes]]:
    if path.exists():
        yield path.read_bytes().split(b"\n")


def last_rows(path: Path, count: int) -> tuple[list[bytes], int]:
    """The last `count` complete rows of a file, and the position after them."""
    if not path.exists():
        return [], 0
    with path.open("rb") as file:
        end = file.seek(0, 2)
        start, data = end, b""
        while start > 0 and data.count(b"\n") <= count:
            step = min(CHUNK, start)
            start -= step
            file.seek(start)
            data = file.read(step) + data
    *rows, rest = data.split(b"\n")
    if start > 0:
        rows = rows[1:]  # its beginning was not read
    return (rows[-count:] if count > 0 else []), end - len(rest)
