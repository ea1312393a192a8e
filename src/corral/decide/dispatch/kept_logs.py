"""Logs that are kept of pods which are gone where they ran: how much is kept, and the part a reader asks for."""

from __future__ import annotations

import re

from corral.core.streams import LogOptions
from corral.core.timestamps import format_micro

_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d) ")


def tail(log: bytes, limit: int) -> bytes:
    """The last whole lines of a log that fit."""
    if len(log) <= limit:
        return log
    cut = log[-limit:]
    return cut[cut.find(b"\n") + 1 :]


def part_of(log: bytes, options: LogOptions) -> bytes:
    """What a reader wants of a log whose lines begin with their time."""
    lines = log.splitlines(keepends=True)
    if options.since is not None:
        since = format_micro(options.since)[:-1].encode()
        lines = [line for line in lines if not _TIME.match(line) or line >= since]
    if options.tail_lines is not None:
        lines = lines[-options.tail_lines :] if options.tail_lines > 0 else []
    if not options.timestamps:
        lines = [_TIME.sub(b"", line, count=1) if _TIME.match(line) else line for line in lines]
    return b"".join(lines)[: options.limit_bytes]
