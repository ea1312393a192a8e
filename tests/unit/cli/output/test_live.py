"""The line that says how far something is."""

from __future__ import annotations

import pytest

from corral.cli.output.live import CLEAR, LiveLine


def test_on_a_terminal_it_steps_aside_for_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    live = LiveLine(is_terminal=True)
    live.say("queued")
    live.say("queued")
    live.echo("a line of the job\n")
    live.finish("succeeded")
    told = capsys.readouterr()
    assert told.out == "a line of the job\n"
    # click keeps escape sequences from streams that are no terminals, as this one is.
    assert told.err.replace(CLEAR, "").replace("\r", "") == "# queued# queued# succeeded\n"


def test_what_lasts_is_shown_with_its_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("corral.cli.output.live.time.monotonic", lambda: now[0])
    on, off = LiveLine(is_terminal=True), LiveLine(is_terminal=False)
    for seconds in (100.0, 101.5, 102.0, 102.4, 103.1):
        now[0] = seconds
        on.say("queued")
        off.say("queued")
    off.finish("")
    told = capsys.readouterr().err.replace(CLEAR, "").replace("\r", "")
    assert told == "# queued# queued\n# queued (2s)# queued (3s)# \n"


def test_elsewhere_it_is_a_line_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    live = LiveLine(is_terminal=False)
    for text in ("queued", "queued", "running"):
        live.say(text)
    live.echo("output\n")
    live.finish("succeeded")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("output\n", "# queued\n# running\n# succeeded\n")
