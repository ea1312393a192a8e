"""Colours mean states, and are for terminals."""

from __future__ import annotations

import sys

import pytest

from corral.cli.output import style
from corral.cli.output.tables import print_table


@pytest.mark.parametrize(
    ("environment", "is_colourful"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colours_can_be_declined(
    environment: dict[str, str], is_colourful: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert style.is_colourful(environment) is is_colourful
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert not style.is_colourful(environment)


@pytest.mark.parametrize(
    ("word", "colour"),
    [("Running", "green"), ("FAILED", "red"), ("Pending", "yellow"), ("not answering: x", "red"), ("team-a", None)],
)
def test_a_state_has_a_colour(word: str, colour: str | None) -> None:
    assert style.colour_of(word) == colour


def test_only_states_are_coloured_and_widths_stay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("failed", "Failed", "x"), ("b", "Running", "y")]
    print_table(("NAME", "STATUS", "NOTE"), rows)
    plain = capsys.readouterr().out
    assert "\x1b" not in plain
    assert style.styled_cell("NAME", "failed   ") == "failed   "
    assert style.styled_cell("STATUS", "Failed   ") == "\x1b[31mFailed\x1b[0m   "
