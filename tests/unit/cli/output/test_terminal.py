"""Nothing that others have written makes a terminal do anything."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import pytest

from corral.cli.output.terminal import CLEAR, of_program, plain

HOSTILE = {
    "a title": "\x1b]0;title\x07",
    "the clipboard": "\x1b]52;c;ZWNobw==\x07",
    "a report that is typed": "\x1b[6n",
    "a device that answers": "\x1b[c",
    "a string for the device": "\x1bP$q\x1b\\",
    "hidden text": "\x1b[8m",
    "in eight bits": "\x9b6n",
    "a new screen": "\x1b[2J\x1b[H",
    "another screen": "\x1b[?1049h",
    "a reset": "\x1bc",
    "text from right to left": "\u202egnp.exe",
    "a line of its own": "\u2028",
    "a bell": "\x07",
    "nothing": "\x00",
    "deleted": "\x7f",
}
OF_PROGRAMS = "\rstep 1 \x1b[32mok\x1b[0m\x1b[K\x1b[1A\x1b[38;5;7mx\b\ttab ä 漢 \U0001f40e\n"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_sequences_are_shown(name: str) -> None:
    text = f"a{HOSTILE[name]}b"
    assert plain(text).isprintable()
    assert of_program(text).isprintable() or name == "hidden text"  # a colour is a program's own business


def test_what_is_ours_and_what_programs_do_to_their_lines_stays() -> None:
    assert of_program(OF_PROGRAMS) == OF_PROGRAMS
    assert (
        plain("a\tb\n\x1b[1mNAME\x1b[0m \x1b[32mready\x1b[0m ä\n")
        == "a\tb\n\x1b[1mNAME\x1b[0m \x1b[32mready\x1b[0m ä\n"
    )
    assert plain(CLEAR) == CLEAR


def test_in_a_message_no_line_is_rewritten() -> None:
    assert plain("it failed\r\x1b[Kall is well") == "it failed^M^[[Kall is well"
    assert plain("up\x1b[1Aover") == "up^[[1Aover"


SHOW = """
import sys
from corral.cli.output.live import LiveLine
from corral.cli.output.terminal import guard
guard()
live = LiveLine()
live.say("waits: \\x1b]0;evil\\x07")
live.echo("says \\x1b[6n\\r")
live.echo("50%\\r\\x1b[32m100%\\x1b[0m\\x1b]0;evil\\x07\\n", of_program=True)
live.finish("over")
print("done\\x1b[c", file=sys.stderr)
"""


def test_on_a_terminal_all_that_is_printed_goes_through_it(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, "-c", SHOW])
    written = b""
    try:
        while data := os.read(terminal, 65536):
            written += data
    except OSError:  # how a terminal ends
        pass
    assert os.waitpid(pid, 0)[1] == 0
    assert b"\x1b]" not in written
    assert b"\x1b[6n" not in written
    assert b"\x1b[c" not in written
    assert b"50%\r\x1b[32m100%\x1b[0m^[]0;evil^G" in written
    assert b"done^[[c" in written
