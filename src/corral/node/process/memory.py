"""What /proc tells about running programs: their children, their memory, the mark we gave them."""

from __future__ import annotations

import os
import select
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def children_of(pid: int) -> list[int]:
    """The direct children of every thread of `pid`."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    except OSError:
        pass  # it ended while we looked
    return found


def descendants_of(pid: int) -> list[int]:
    """`pid` and every process below it."""
    found = [pid]
    for process in found:
        found += children_of(process)
    return found


def is_alive(pid: int) -> bool:
    """Whether `pid` is there and has not ended: one that nobody has waited for yet still has its number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def tasks_of(pid: int) -> int:
    """How many processes and threads a program has become."""
    return sum(map(_threads, descendants_of(pid)))


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208  # only their number
    except OSError:
        return 0


def sees(pid: int, places: frozenset[tuple[int, int]]) -> bool:
    """Whether `pid` lives in a view in which one of these files (device and number) is at a place of a container."""
    for name in ("container", "etc/hosts"):
        try:
            found = os.stat(f"/proc/{pid}/root/{name}")  # noqa: PTH116  # of a process that may be gone
        except OSError:
            continue
        if (found.st_dev, found.st_ino) in places:
            return True
    return False


def mount_namespace(pid: int) -> int:
    """The number of the mount namespace `pid` is in; 0 when it has ended."""
    try:
        return Path(f"/proc/{pid}/ns/mnt").stat().st_ino
    except OSError:
        return 0


def has_mark(pid: int, mark: bytes) -> bool:
    """Whether the environment of `pid` contains the line `mark`."""
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def has_any_mark(pid: int, beginnings: tuple[bytes, ...]) -> bool:
    """Whether a line of the environment of `pid` begins with one of `beginnings`."""
    try:
        return any(line.startswith(beginnings) for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return False


def exceeds(pid: int, limit: int) -> bool:
    """Whether the program and its children hold more than `limit` bytes.

    Resident sizes are cheap but count shared pages once per process; only when they are over the limit are the
    proportional sizes added up.
    """
    processes = descendants_of(pid)
    return sum(map(_resident, processes)) > limit and sum(map(_proportional, processes)) > limit


def spent(pid: int) -> tuple[float, int]:
    """Seconds of CPU that a program and its children have used, and the bytes they hold now."""
    processes = descendants_of(pid)
    return sum(map(_cpu_seconds, processes)), sum(map(_resident, processes))


def _cpu_seconds(pid: int) -> float:
    try:
        # The name in parentheses may contain blanks; times of children that ended are the third and fourth number.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15]) / TICKS
    except (OSError, IndexError):
        return 0.0


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return _resident(pid)


def has_input(descriptor: int) -> bool:
    """Whether reading `descriptor` would not wait."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
