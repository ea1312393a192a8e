"""How a program in a container ended, as servers tell it at the end of its session."""

from __future__ import annotations

import json

import pytest

from corral.client.sessions import Outcome, outcome_of


def failed(message: str, *causes: tuple[str, str]) -> bytes:
    details = {"causes": [{"reason": reason, "message": text} for reason, text in causes]}
    return json.dumps({"status": "Failure", "message": message, "details": details}).encode()


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        (b'{"status":"Success"}', Outcome(0)),
        (failed("command terminated", ("ExitCode", "7")), Outcome(7, "command terminated")),
        (failed("no such file"), Outcome(None, "no such file")),
        (failed("odd", ("ExitCode", "many")), Outcome(None, "odd")),
        (b"plain words\n", Outcome(None, "plain words")),
    ],
)
def test_the_error_channel_tells_how_it_ended(told: bytes, outcome: Outcome) -> None:
    assert outcome_of(told) == outcome
