"""A pseudo-terminal with a program in it, as a person sees and types it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from contextlib import AbstractContextManager
from pathlib import Path

from tests.waiting import PATIENCE_S

CTRL_C = "\x03"
ROWS, COLUMNS = 40, 140


class Terminal(AbstractContextManager["Terminal"]):
    """Everything the program has shown is in `shown`; it is killed at the end if it has not ended."""

    def __init__(self, command: list[str], *, environment: dict[str, str], folder: Path) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._program = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={"TERM": "xterm", **environment},
            start_new_session=True,
            preexec_fn=_as_a_shell_starts_it,
        )
        os.close(slave)
        self.shown = ""

    def __exit__(self, *_: object) -> None:
        if self._program.poll() is None:
            os.killpg(self._program.pid, signal.SIGKILL)
            self._program.wait()
        if self._master >= 0:
            os.close(self._master)

    @property
    def text(self) -> str:
        """What there is to read now: without colours, and without lines that were cleared."""
        return _plain(re.sub(r"[^\n]*\r\x1b\[K", "", self.shown))

    @property
    def last_line(self) -> str:
        return self.text.rstrip("\n").rpartition("\n")[2]

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, words: str) -> None:
        """Read on until it has shown these words, be it for a moment."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in _plain(self.shown):
            assert self._read(deadline), f"{words!r} was never shown, but: {self.text}"

    def ended(self) -> int:
        """The exit code, once the program has ended and everything is read."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(deadline):
            pass
        return self._program.wait(PATIENCE_S)

    def hang_up(self) -> int:
        """Close the terminal's window."""
        os.close(self._master)
        self._master = -1
        return self._program.wait(PATIENCE_S)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing happens any more after: {self.text}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux's way to say that nobody has the other end any more
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


def _as_a_shell_starts_it() -> None:
    """In front of the terminal, and hearing its keys: who runs tests in the background may have them ignored, which is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", shown)
