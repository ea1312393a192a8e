"""How many CPUs and how much memory there are for us: what the machine has, within the limits of our control groups."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TOTAL = re.compile(r"^MemTotal:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Size:
    """Thousandths of a CPU, and bytes."""

    cpu_milli: int
    memory: int


def find_size(root: Path = Path("/")) -> Size:
    """What programs of this process could use. `root` is where /proc and /sys are."""
    cpu = len(os.sched_getaffinity(0)) * 1000
    found = _TOTAL.search(_read(root / "proc/meminfo"))
    memory = int(found[1]) * 1024 if found else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for folder in _groups(root):
        cpu = min([cpu, *_cpu_limit(folder)])
        memory = min([memory, *_numbers(folder / "memory.max"), *_numbers(folder / "memory.limit_in_bytes")])
    return Size(max(cpu, 1), memory)


def _groups(root: Path) -> Iterator[Path]:
    """The control groups of this process and those around them, of either version."""
    top = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        mounted = [top] if not controllers else [top / name for name in (controllers, *controllers.split(","))]
        for base in mounted:
            folder = base / path.lstrip("/")
            # In a container the path may be the host's; what is mounted at the top is then the group itself.
            yield from (one for one in (folder, *folder.parents) if one.is_relative_to(base) and one.is_dir())


def _cpu_limit(folder: Path) -> Iterator[int]:
    quota = _read(folder / "cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit():
        yield int(quota[0]) * 1000 // int(quota[1])
    old, period = _numbers(folder / "cpu.cfs_quota_us"), _numbers(folder / "cpu.cfs_period_us")
    if old and period:
        yield old[0] * 1000 // period[0]


def _numbers(file: Path) -> list[int]:
    """The number in a file; none where there is no limit."""
    text = _read(file).strip()
    return [int(text)] if text.isdigit() and int(text) > 0 else []


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
