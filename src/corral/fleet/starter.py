"""Starting a fleet and waiting until it is ready. Whatever happens meanwhile, afterwards it is up, or down as if never started.

Ctrl-C and SIGTERM are noted instead of raised, so that they never come between starting a process and knowing of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

from corral.fleet.folder import FleetFolder, FleetStatus

START_TIMEOUT_S: Final = 60.0
FULL_BYTES: Final = 64 * 1024
GIVE_UP_AFTER: Final = 2
"""Restarts of a cluster that has never been ready."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class NotStarted(Exception):
    """The fleet is down; why."""


class Interruptions:
    """While entered, SIGINT and SIGTERM only set `seen`."""

    def __init__(self) -> None:
        self.seen = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises NotStarted once interrupted."""
        if self.seen:
            raise NotStarted("interrupted; no fleet was started")

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.seen = True


def spawn(folder: FleetFolder, supervise: Callable[[], None]) -> int:
    """Run `supervise` in a process and a session of its own, so that it outlives this one. It starts with SIGINT and SIGTERM blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return pid
    code = 1
    try:
        os.setsid()
        log = os.open(folder.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        supervise()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def await_ready(folder: FleetFolder, supervisor: int, interruptions: Interruptions) -> FleetStatus:
    """What the supervisor says of the fleet that is ready. Raises NotStarted when it is not going to be, and then nothing of it runs."""
    try:
        return _ready(folder, supervisor, interruptions)
    except OSError as error:  # of the folder: nobody could say what is there
        with contextlib.suppress(OSError):
            _stop(supervisor)
        raise NotStarted(f"the fleet did not start: {error}") from error


def _ready(folder: FleetFolder, supervisor: int, interruptions: Interruptions) -> FleetStatus:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        status = folder.read_status()
        if status is not None and status.supervisor != supervisor:
            status = None
        if status is not None and status.ready:
            return status
        if interruptions.seen:
            _stop(supervisor)
            raise NotStarted("interrupted; what was started is stopped again, no fleet is running")
        failing = [cluster for cluster in status.clusters if cluster.restarts >= GIVE_UP_AFTER] if status else []
        if failing:
            _stop(supervisor)
            name = failing[0].name
            raise NotStarted(
                f"cluster {name} does not start: {_last_line(folder.log(name))}\nIts log is {folder.log(name)}"
            )
        ended, _ = os.waitpid(supervisor, os.WNOHANG)
        if ended:
            raise NotStarted(f"the fleet did not start: {_last_line(folder.supervisor_log) or _wordless(folder)}")
        time.sleep(0.02)
    _stop(supervisor)
    raise NotStarted(f"the fleet was not ready within {START_TIMEOUT_S:.0f} s; see {folder.root / 'logs'}")


def _wordless(folder: FleetFolder) -> str:
    """Why a supervisor ended that could not say so."""
    if shutil.disk_usage(folder.root).free < FULL_BYTES:
        return f"no space is left in {folder.root}"
    if not os.access(folder.root, os.W_OK):
        return f"nothing can be written in {folder.root}"
    return f"see {folder.root / 'logs'}"


def _stop(supervisor: int) -> None:
    os.kill(supervisor, signal.SIGTERM)
    os.waitpid(supervisor, 0)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return re.sub(r"^[\w.]*Error: ", "", last)  # what was raised is the program's business, why is the user's
