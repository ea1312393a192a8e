"""CPUs and memory of the machine, within the limits of control groups of either version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.node.machine.size import Size, find_size

GIB = 1 << 30


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    write(tmp_path, "proc/meminfo", f"MemTotal:       {64 * GIB // 1024} kB\nMemFree: 1 kB\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_limits_everything_is_ours(root: Path) -> None:
    assert find_size(root) == Size(16_000, 64 * GIB)


def test_the_tightest_group_around_us_counts(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/user/me\n")
    write(root, "sys/fs/cgroup/user/memory.max", f"{8 * GIB}\n")
    write(root, "sys/fs/cgroup/user/cpu.max", "250000 100000\n")
    write(root, "sys/fs/cgroup/user/me/memory.max", "max\n")
    write(root, "sys/fs/cgroup/user/me/cpu.max", "max 100000\n")
    assert find_size(root) == Size(2_500, 8 * GIB)


def test_in_a_container_the_group_is_what_is_mounted(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/docker/abc\n")
    write(root, "sys/fs/cgroup/memory.max", f"{4 * GIB}\n")
    write(root, "sys/fs/cgroup/cpu.max", "400000 100000\n")
    assert find_size(root) == Size(4_000, 4 * GIB)


def test_groups_of_the_first_version_count_too(root: Path) -> None:
    write(root, "proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a\n")
    write(root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", f"{2 * GIB}\n")
    write(root, "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n")
    write(root, "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n")
    assert find_size(root) == Size(1_500, 2 * GIB)


def test_no_limit_of_the_first_version_is_none(root: Path) -> None:
    write(root, "proc/self/cgroup", "3:cpu,cpuacct:/\n")
    write(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
    write(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert find_size(root).cpu_milli == 16_000


def test_this_machine_has_something() -> None:
    found = find_size()
    assert found.cpu_milli > 0
    assert found.memory > 0
