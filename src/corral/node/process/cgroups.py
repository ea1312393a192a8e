"""Limits the kernel enforces, where it lets us: a control group per container for memory and CPU time.

Both generations of control groups are known. Nothing is reconfigured: a group is made in the closest place that hands the
controllers on and that we may write to. Where there is none, `home` says so and memory is watched from outside instead.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CPU_PERIOD_US = 100_000
_OOM_KILLS = re.compile(r"^oom_kill (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Group:
    """The control groups of one container."""

    memory: Path | None
    cpu: Path | None

    def out_of_memory(self) -> bool:
        """Whether the kernel killed something here for lack of memory."""
        if self.memory is None:
            return False
        for name in ("memory.events", "memory.oom_control"):
            try:
                kills = _OOM_KILLS.search((self.memory / name).read_text())
            except OSError:
                continue
            return kills is not None and int(kills[1]) > 0
        return False

    def remove(self) -> None:
        for folder in (self.memory, self.cpu):
            try:
                if folder is not None and folder.exists():
                    folder.rmdir()
            except OSError:
                pass  # something in it is still ending; an empty group costs nothing


class Cgroups:
    """Makes groups for containers."""

    def __init__(self, root: Path = ROOT, own: str | None = None) -> None:
        lines = (own if own is not None else _own()).splitlines()
        paths = {controller: path for line in lines for controller, path in _membership(line)}
        self._is_v2 = {"memory": "memory" not in paths, "cpu": "cpu" not in paths}
        self._homes = {name: self._home(root, name, paths) for name in ("memory", "cpu")}

    def _home(self, root: Path, controller: str, paths: dict[str, str]) -> Path | None:
        if not self._is_v2[controller]:
            home = root / controller / paths[controller].strip("/")
            return home if os.access(home, os.W_OK) else None
        current = root / paths.get("", "").strip("/")
        while current != root.parent:
            try:
                handed_on = (current / "cgroup.subtree_control").read_text().split()
            except OSError:
                return None
            if controller in handed_on and os.access(current, os.W_OK):
                return current
            current = current.parent
        return None

    def confine(self, name: str, pid: int, memory: int | None, cpu_milli: int | None) -> Group:
        """Put process `pid` under these limits; those that cannot be set are left out."""
        return Group(
            self._enter("memory", name, pid, memory) if memory else None,
            self._enter("cpu", name, pid, cpu_milli) if cpu_milli else None,
        )

    def _enter(self, controller: str, name: str, pid: int, amount: int) -> Path | None:
        home = self._homes[controller]
        if home is None:
            return None
        folder = home / f"corral-{name}"
        try:
            folder.mkdir(exist_ok=True)
            for file, text in self._settings(controller, amount):
                (folder / file).write_text(text)
            (folder / "cgroup.procs").write_text(str(pid))
        except OSError:
            self._homes[controller] = None  # not allowed after all; the rest goes without
            return None
        return folder

    def _settings(self, controller: str, amount: int) -> list[tuple[str, str]]:
        if controller == "memory":
            return [("memory.max" if self._is_v2["memory"] else "memory.limit_in_bytes", str(amount))]
        quota = max(amount * CPU_PERIOD_US // 1000, 1000)
        if self._is_v2["cpu"]:
            return [("cpu.max", f"{quota} {CPU_PERIOD_US}")]
        return [("cpu.cfs_period_us", str(CPU_PERIOD_US)), ("cpu.cfs_quota_us", str(quota))]


def _own() -> str:
    try:
        return Path("/proc/self/cgroup").read_text()
    except OSError:
        return ""


def _membership(line: str) -> list[tuple[str, str]]:
    _, controllers, path = line.split(":", 2)
    return [(controller, path) for controller in controllers.split(",")]
