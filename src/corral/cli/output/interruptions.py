"""Ctrl-C and its relatives: put off while something is half done, and never the reason why a job is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final, Self

import click

INTERRUPTED: Final = 130
"""What a command ends with that was interrupted, as shells have it."""
HEARD: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
AGAIN: Final = signal.SIGURG
REPEAT_S: Final = 0.5


def _is_main_thread() -> bool:
    """Signals come to the main thread alone; a command that is run in another one is not the terminal's."""
    return threading.current_thread() is threading.main_thread()


class PutOff:
    """While entered, Ctrl-C only sets `seen`, and says so; a second one is heard at once, in case nobody answers."""

    def __init__(self, sentence: str) -> None:
        self.seen = False
        self._sentence = sentence
        self._before: Any = None

    def __enter__(self) -> Self:
        if _is_main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.seen:
            raise KeyboardInterrupt
        self.seen = True
        click.echo(f"# {self._sentence}", err=True)


def discard_output() -> None:
    """Nobody reads what is printed any more: what comes now goes nowhere, and is no error."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


@contextlib.contextmanager
def hanging_up_interrupts() -> Iterator[None]:
    """A terminal that is closed, or a polite kill, is Ctrl-C to what is done inside: a job its user runs ends with him."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:  # nobody reads any more, and a terminal that is gone refuses to be written to
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
        raise KeyboardInterrupt

    numbers = (signal.SIGHUP, signal.SIGTERM) if _is_main_thread() else ()
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def heard_at_once() -> Iterator[None]:
    """For who waits long and ends by Ctrl-C alone: it is heard whenever it comes.

    One that comes between the interpreter's last look and the moment it begins to wait is only noted until the wait is over, and
    one that is raised while something is thrown away is lost. So a thread that learns of every signal from the system raises it again
    and again, by a signal that means nothing else, until it was heard.
    """
    main = threading.main_thread().ident
    if main is None or not _is_main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    def repeat() -> None:
        while True:
            try:
                numbers = ours.recv(64)
            except TimeoutError:
                signal.pthread_kill(main, AGAIN)
                continue
            if not numbers:
                return
            if HEARD & set(numbers):
                ours.settimeout(REPEAT_S)

    before = signal.signal(AGAIN, _interrupt), signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.signal(AGAIN, before[0])  # ignored, unless somebody wanted it
        signal.set_wakeup_fd(before[1])
        theirs.close()
        thread.join()
        ours.close()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
