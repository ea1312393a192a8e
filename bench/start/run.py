"""Starts fleets with `corral up` and prints how long that took, what it cost and what an idle fleet costs:

    python bench/start/run.py [--workers N] [--idle SECONDS] [--repeat N]

Each repeat starts from nothing; the second start of a fleet, whose state is there already, is printed beside it. On a
busy machine look at the CPU seconds: they are what a start needs, wall time is what the machine gave it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
CORRAL = [sys.executable, "-m", "corral.cli.main"]


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, user and system, with that of the children it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def memory_mb(pid: int) -> tuple[float, float, float]:
    """Resident memory, its proportional share (shared pages divided among those who share), and what is the process's own."""
    rollup = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    kilobytes = {name: int(value.split()[0]) for name, value in rollup.items()}
    own = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    return kilobytes["Rss"] / 1024, kilobytes["Pss"] / 1024, own / 1024


def processes(state: Path) -> dict[str, int]:
    status = json.loads((state / "status.json").read_text())
    return {"supervisor": status["supervisor"], **{entry["name"]: entry["pid"] for entry in status["clusters"]}}


def start(state: Path, arguments: list[str]) -> dict[str, int]:
    """One `corral up`: prints what it took."""
    before = os.times()
    began = time.monotonic()
    subprocess.run([*CORRAL, "up", "--state", str(state), *arguments], check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - began
    command = os.times()
    spent = command.children_user + command.children_system - before.children_user - before.children_system
    found = processes(state)
    parts = {name: cpu_seconds(pid) for name, pid in found.items()}
    listed = "  ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items())
    print(f"  ready after {wall:.2f} s; CPU seconds {spent + sum(parts.values()):.2f}: command {spent:.2f}  {listed}")
    return found


def stop(state: Path, *arguments: str) -> None:
    subprocess.run([*CORRAL, "down", "--state", str(state), *arguments], check=True, stdout=subprocess.DEVNULL)


def idle(found: dict[str, int], seconds: float) -> None:
    """What the processes use while nobody asks anything of them."""
    time.sleep(3)  # what the start left to do is not idling
    before = {name: cpu_seconds(pid) for name, pid in found.items()}
    time.sleep(seconds)
    for name, pid in found.items():
        share = (cpu_seconds(pid) - before[name]) / seconds
        resident, share_of_all, own = memory_mb(pid)
        print(
            f"  {name:<12} {share:7.2%} of a core   MiB: {resident:5.1f} resident  {share_of_all:5.1f} PSS  {own:5.1f} own"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--idle", type=float, default=20.0)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as compiled:
        as_installed(compiled)
        for _ in range(options.repeat):
            once(options)


def as_installed(folder: str) -> None:
    """Have bytecode, as an installed package has: without it every start compiles all of it for a second."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = folder
    modules = "corral.cli.up, corral.fleet.process, corral.fleet.introduce, corral.fleet.supervisor"
    subprocess.run([sys.executable, "-c", f"import {modules}"], check=True)


def once(options: argparse.Namespace) -> None:
    """A fleet from nothing, again, and idle."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "fleet")
        print(f"{options.workers + 1} clusters, load {os.getloadavg()[0]:.1f}; from nothing:")
        started_and_idle(state, ["--workers", str(options.workers)], options.idle)
        print("again:")
        started_and_idle(state, [], options.idle)


def started_and_idle(state: Path, arguments: list[str], seconds: float) -> None:
    found = start(state, arguments)
    try:
        if seconds:
            idle(found, seconds)
    finally:
        stop(state)


if __name__ == "__main__":
    main()
