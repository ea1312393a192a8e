"""Limits the kernel enforces, where it lets us: a control group per container for memory, CPU time and number of processes.

The group of processes is also how a container ends as a whole: nothing leaves its group, whatever it does to its session, its
parents or its environment. Both generations of control groups are known. Nothing is reconfigured: a group is made in the closest place that hands the
controllers on and that we may write to. Where there is none, `home` says so and memory is watched from outside instead.
"""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CPU_PERIOD_US = 100_000
KILL_ROUNDS = 500
KILL_PAUSE_S = 0.002
CONTROLLERS = ("memory", "cpu", "pids")
_OOM_KILLS = re.compile(r"^oom_kill (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Group:
    """The control groups of one container."""

    memory: Path | None
    cpu: Path | None
    processes: Path | None = None

    @property
    def folders(self) -> list[Path]:
        """Without repeats: one generation of control groups has a folder per controller, the other one for all of them."""
        return list(dict.fromkeys(folder for folder in (self.memory, self.cpu, self.processes) if folder is not None))

    def add(self, pid: int) -> None:
        """Put one more process under the limits of this container."""
        for folder in self.folders:
            _write(folder / "cgroup.procs", str(pid))

    def kill(self) -> None:
        """End everything in it, however fast it multiplies."""
        if self.processes is None or not self.processes.is_dir() or _write(self.processes / "cgroup.kill", "1"):
            return
        _write(self.processes / "pids.max", "0")  # nothing new from here on, so the rounds come to an end
        for _ in range(KILL_ROUNDS):
            members = _members(self.processes)
            for pid in members:
                _kill(pid)
            if not members:
                return
            time.sleep(KILL_PAUSE_S)

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

    def remove(self) -> bool:
        """Whether it is gone; what is still ending in it keeps it for a moment."""
        for folder in self.folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False
        return True


def _write(path: Path, text: str) -> bool:
    """Whether the kernel took it. Control files are there from the start: none is ever created."""
    try:
        handle = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(handle, text.encode())
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _members(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass  # it has ended


class Cgroups:
    """Makes groups for containers."""

    def __init__(self, root: Path = ROOT, own: str | None = None) -> None:
        lines = (own if own is not None else _own()).splitlines()
        paths = {controller: path for line in lines for controller, path in _membership(line)}
        self._is_v2 = {name: name not in paths for name in CONTROLLERS}
        self._homes = {name: self._home(root, name, paths) for name in CONTROLLERS}

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

    def confine(
        self, name: str, pid: int, memory: int | None, cpu_milli: int | None, processes: int | None = None
    ) -> Group:
        """Put process `pid` under these limits; those that cannot be set are left out."""
        return Group(
            self._enter("memory", name, pid, memory) if memory else None,
            self._enter("cpu", name, pid, cpu_milli) if cpu_milli else None,
            self._enter("pids", name, pid, processes) if processes else None,
        )

    def leftovers(self, beginning: str) -> list[Group]:
        """The groups that are there with names that begin so: those of a supervisor that was killed."""
        homes = dict.fromkeys(home for home in self._homes.values() if home is not None)
        found = [folder for home in homes for folder in sorted(home.glob(f"corral-{beginning}*")) if folder.is_dir()]
        return [Group(None, None, folder) for folder in found]

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
        if controller == "pids":
            return [("pids.max", str(amount))]
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
