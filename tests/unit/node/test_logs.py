"""Log files: written in lines, read in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.core.streams import LogOptions
from corral.core.timestamps import parse_time
from corral.node.logs import last_rows, read_log
from corral.node.process.logfile import MAX_LINE, LogFile


class StillClock:
    """Time does not pass by itself; sleeping does what the test wants."""

    def __init__(self, on_sleep: Any = None) -> None:
        self._on_sleep = on_sleep

    async def sleep(self, seconds: float) -> None:
        if self._on_sleep is not None:
            self._on_sleep()


def rows(folder: Path, *lines: str) -> None:
    with (folder / "log").open("a") as file:
        file.writelines(f"2026-01-01T00:00:0{number}.000000000Z stdout F {line}\n" for number, line in enumerate(lines))


async def text(folder: Path, clock: Any = None, is_over: Any = lambda: True, **options: Any) -> str:
    parts = [part async for part in read_log(folder, LogOptions(**options), clock or StillClock(), is_over)]
    return b"".join(parts).decode()


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, "a\nb\nc\n"),
        ({"tail_lines": 2}, "b\nc\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 9}, "a\nb\nc\n"),
        ({"since": parse_time("2026-01-01T00:00:01Z")}, "b\nc\n"),
        ({"timestamps": True, "tail_lines": 1}, "2026-01-01T00:00:02.000000000Z c\n"),
        ({"limit_bytes": 3}, "a\nb"),
    ],
)
async def test_parts_of_a_log(tmp_path: Path, options: dict[str, Any], want: str) -> None:
    rows(tmp_path, "a", "b", "c")
    assert await text(tmp_path, **options) == want


async def test_following_reads_until_the_end(tmp_path: Path) -> None:
    rows(tmp_path, "a")
    left = ["b", "c"]

    def add() -> None:
        rows(tmp_path, left.pop(0))

    assert await text(tmp_path, StillClock(add), is_over=lambda: not left, follow=True, tail_lines=1) == "a\nb\nc\n"


async def test_log_without_file_is_empty(tmp_path: Path) -> None:
    assert await text(tmp_path) == ""


async def test_written_log_reads_back(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    log.write("stdout", b"one\ntw")
    log.write("stdout", b"o\n\nlast")
    log.close()
    assert await text(tmp_path) == "one\ntwo\n\nlast"


async def test_long_lines_are_parts_of_one(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    log.write("stderr", b"x" * (MAX_LINE + 10) + b"\nshort\n")
    log.close()
    assert len((tmp_path / "log").read_bytes().splitlines()) == 3
    assert await text(tmp_path) == "x" * (MAX_LINE + 10) + "\nshort\n"


async def test_a_log_that_grew_too_large_is_set_aside(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", max_bytes=300)
    for number in range(8):
        log.write("stdout", f"line {number}\n".encode())
    log.close()
    assert (tmp_path / "log").stat().st_size <= 300
    assert (await text(tmp_path)).splitlines()[-1] == "line 7"
    assert (await text(tmp_path)).count("line") > 5


def test_last_rows_of_a_large_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(100_000)))
    found, position = last_rows(path, 3)
    assert (found, position) == ([b"99997", b"99998", b"99999"], path.stat().st_size)
