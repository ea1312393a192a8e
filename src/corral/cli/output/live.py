"""The line that says how far something is: redrawn in place on a terminal, elsewhere printed whenever it changes."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from contextlib import nullcontext
from typing import Final

import click

from corral.cli.output.terminal import CLEAR, writing_for_a_program

LONG_S: Final = 2
"""What has lasted so long is shown with its seconds: nobody has to wonder whether anything still goes on."""


class LiveLine:
    """One line on standard error, which steps aside for what is printed meanwhile. Threads may print at the same time."""

    def __init__(self, *, is_terminal: bool | None = None) -> None:
        self._is_terminal = sys.stderr.isatty() and sys.stdout.isatty() if is_terminal is None else is_terminal
        self._lock = threading.Lock()
        self._text = ""
        self._shown = ""
        self._since = 0.0
        self._seconds = 0

    def say(self, text: str) -> None:
        """What is true now; the same again is not repeated, only how long it is true already."""
        with self._lock:
            if text == self._text:
                self._tick()
                return
            self._text, self._since, self._seconds = text, time.monotonic(), 0
            if self._is_terminal:
                self._draw()
            else:
                click.echo(f"# {text}", err=True)

    def finish(self, text: str) -> None:
        """The last word, which stays; it stands alone in its line, also where somebody has typed Ctrl-C into that."""
        with self._lock:
            self._clear()
            if self._is_terminal:
                click.echo(CLEAR, nl=False, err=True)
            if text != self._text or self._is_terminal:
                click.echo(f"# {text}", err=True)
            self._text = text

    def echo(self, text: str, *, err: bool = False, of_program: bool = False) -> None:
        """Print a line of something else, such as of a program."""
        with self._lock:
            self._clear()
            with writing_for_a_program() if of_program else nullcontext():
                click.echo(text, nl=not text.endswith("\n"), err=err)
            if self._is_terminal:
                self._draw()

    def rest(self) -> None:
        """Leave the terminal as it was found."""
        with self._lock:
            self._clear()

    def _tick(self) -> None:
        seconds = int(time.monotonic() - self._since)
        if self._is_terminal and self._shown and seconds > max(self._seconds, LONG_S - 1):
            self._seconds = seconds
            self._draw()

    def _draw(self) -> None:
        lasted = f" ({self._seconds}s)" if self._seconds else ""
        width = max(20, shutil.get_terminal_size().columns) - len(lasted)
        self._clear()
        text = self._text if len(self._text) < width - 2 else f"{self._text[: width - 3]}…"
        self._shown = text + lasted
        click.echo(f"# {self._shown}", nl=False, err=True)

    def _clear(self) -> None:
        if self._shown:
            click.echo(CLEAR, nl=False, err=True)
            self._shown = ""
