"""`corral up` and `corral down` as a person types them, and what a test needs around them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corral.client.sync import SyncClient
from corral.core.errors import ApiError

ROOT = Path(__file__).parents[2]


def corral(state: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A command on the fleet below `state`."""
    command = [sys.executable, "-m", "corral.cli.main", arguments[0], "--state", str(state), *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=120, cwd=ROOT)


@contextmanager
def started(state: Path, *arguments: str) -> Iterator[Path]:
    """A fleet that is up, and down again afterwards; its folder."""
    corral(state, "up", *arguments)
    yield state
    corral(state, "down", check=False)


def client(state: Path, context: str = "corral-manager") -> SyncClient:
    return SyncClient.from_kubeconfig(state / "kubeconfig", context)


def eventually(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true answer; fails when there is none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if answer := condition():
                return answer
        except ApiError:
            pass  # the server may be on its way up
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")
