"""What reaches a terminal. Names, messages and logs are written by others, and a terminal obeys what it reads: sequences in them
could rewrite lines above, put words into the clipboard or have the terminal type an answer. So on terminals they are shown, not
obeyed; only what a program may do to its own line passes in what programs write. Where nobody looks on, nothing is changed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

CLEAR: Final = "\r\x1b[K"

_DECEPTIVE = (
    "\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"  # in what direction and on which line text seems to be
)
_OURS = re.compile(rf"(\x1b\[(?:[01]|3[123])m)|[\x00-\x08\x0b-\x1f\x7f-\x9f{_DECEPTIVE}]")
_PROGRAMS = re.compile(rf"(\x1b\[[0-9;:]*[mKABCDEFG]|[\r\b])|[\x00-\x08\x0b-\x1f\x7f-\x9f{_DECEPTIVE}]")


def _shown(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]
    code = ord(found[0])
    return f"^{chr(code ^ 64)}" if code < 128 else ascii(found[0])[1:-1]


def plain(text: str) -> str:
    """A text of ours, in colours of ours, with what is of others in it."""
    return text if text == CLEAR or (text.isascii() and text.isprintable()) else _OURS.sub(_shown, text)


def of_program(text: str) -> str:
    """What a program writes: colours and lines that redraw themselves stay."""
    return text if text.isascii() and text.isprintable() else _PROGRAMS.sub(_shown, text)


class _Guarded:
    """A terminal that is written to by way of `plain`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.filter = plain

    def write(self, text: str) -> int:
        return self._stream.write(self.filter(text) if isinstance(text, str) else text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard() -> None:
    """From now on, terminals only show what is written to them."""
    if sys.stdout.isatty():
        sys.stdout = _Guarded(sys.stdout)
    if sys.stderr.isatty():
        sys.stderr = _Guarded(sys.stderr)


@contextmanager
def writing_for_a_program() -> Iterator[None]:
    """Within, what is written is a program's."""
    guarded = [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, _Guarded)]
    for stream in guarded:
        stream.filter = of_program
    try:
        yield
    finally:
        for stream in guarded:
            stream.filter = plain
