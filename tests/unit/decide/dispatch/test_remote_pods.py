"""The part of a kept log that a reader asks for."""

from __future__ import annotations

import pytest

from corral.core.streams import LogOptions
from corral.core.timestamps import parse_time
from corral.decide.dispatch.remote_pods import part_of, tail

LOG = b"".join(b"2026-11-16T10:00:0%d.5Z line %d\n" % (number, number) for number in range(4))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LogOptions(), b"line 0\nline 1\nline 2\nline 3\n"),
        (LogOptions(tail_lines=2), b"line 2\nline 3\n"),
        (LogOptions(tail_lines=0), b""),
        (LogOptions(timestamps=True, tail_lines=1), b"2026-11-16T10:00:03.5Z line 3\n"),
        (LogOptions(since=parse_time("2026-11-16T10:00:02Z")), b"line 2\nline 3\n"),
        (LogOptions(limit_bytes=9), b"line 0\nli"),
        (LogOptions(follow=True, tail_lines=1), b"line 3\n"),
    ],
)
def test_the_part_a_reader_asks_for(options: LogOptions, expected: bytes) -> None:
    assert part_of(LOG, options) == expected


def test_lines_without_a_time_are_left_as_they_are() -> None:
    assert part_of(b"no time here\n", LogOptions()) == b"no time here\n"


def test_a_long_log_keeps_its_last_whole_lines() -> None:
    assert tail(b"first\nsecond\nthird\n", 14) == b"second\nthird\n"
    assert tail(b"short\n", 14) == b"short\n"
    assert len(tail(b"x" * 100, 14)) == 14, "a line that has no end is cut"
