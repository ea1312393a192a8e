"""`corral up` and `corral down` as a person types them, and what a test needs around them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import waiting
from tests.waiting import PATIENCE_S

from corral.client.sync import SyncClient
from corral.core.errors import ApiError

ROOT = Path(__file__).parents[2]


def corral(state: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A command on the fleet below `state`."""
    if arguments[0] == "up":
        arguments = (*arguments, *_whatever_the_machine(arguments))
    command = [sys.executable, "-m", "corral.cli.main", arguments[0], "--state", str(state), *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=PATIENCE_S, cwd=ROOT)


def _whatever_the_machine(arguments: tuple[str, ...]) -> list[str]:
    """Options with which nodes are as large as tests expect, however small the machine is that they run on."""
    if not {"--workers", "--fleet", "-f"} & set(arguments) or "--simulated" in arguments:
        return []
    sizes = [] if {"-f", "--cpu"} & set(arguments) else ["--cpu", "8"]
    sizes += [] if {"-f", "--memory"} & set(arguments) else ["--memory", "32Gi"]
    return [*sizes, "--overcommit"]


@contextmanager
def started(state: Path, *arguments: str) -> Iterator[Path]:
    """A fleet that is up, and down again afterwards; its folder."""
    try:
        corral(state, "up", *arguments)
        yield state
    finally:
        corral(state, "down", check=False)


def client(state: Path, context: str = "corral-manager") -> SyncClient:
    return SyncClient.from_kubeconfig(state / "kubeconfig", context)


def eventually(condition: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """The first true answer; fails when there is none in time. A question that cannot be asked yet is asked again."""
    return waiting.eventually(condition, seconds, failing=(ApiError, AssertionError))


def processes(state: Path) -> list[int]:
    """Everything that was started for the fleet: what is forked has the command line of its parent."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(state) in line:
                found.append(int(entry.name))
    return found
