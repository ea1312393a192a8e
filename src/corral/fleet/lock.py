"""One fleet per folder: a lock that is held from before the first process of a fleet is started until the last has ended.

Whoever starts a fleet takes it; the processes forked from there share it. It ends with them, however they end, so it never has to be
cleaned up. The file holds the process to ask: the one that starts, then the supervisor.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final, Self

NAME: Final = "fleet.lock"
TRIES: Final = 25
PAUSE_S: Final = 0.02


class Held(Exception):
    """Another process has the lock."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"held by process {pid}")
        self.pid = pid


class FolderLock:
    """The lock of the folder `root`. Raises Held where another has it."""

    def __init__(self, root: Path) -> None:
        self._descriptor = os.open(root / NAME, os.O_RDWR | os.O_CREAT, 0o600)
        for left in reversed(range(TRIES)):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # Somebody who only looks has it for a moment; somebody who runs a fleet has it for long.
                if not left:
                    pid = _read(self._descriptor)
                    os.close(self._descriptor)
                    raise Held(pid) from None
                time.sleep(PAUSE_S)
        self.name_this_process()

    def name_this_process(self) -> None:
        """Say that the calling process, which shares the lock, is the one to ask from now on."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let go; others that share the lock go on holding it."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def holder(root: Path) -> int | None:
    """The process to ask about the fleet that runs in `root`; None when none does, 0 when it has not said yet."""
    try:
        descriptor = os.open(root / NAME, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0)
    return int(text) if text.isdigit() else 0
