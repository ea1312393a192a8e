"""What a check has to say: that something is well, worth knowing, or wrong and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    part: str
    """machine, installation, fleet, kubeconfig or cluster"""
    level: Level
    text: str
    mend: str = ""
    """What to do; every finding that is wrong has it."""


def ok(part: str, text: str) -> Finding:
    return Finding(part, Level.OK, text)


def note(part: str, text: str, mend: str = "") -> Finding:
    return Finding(part, Level.NOTE, text, mend)


def wrong(part: str, text: str, mend: str) -> Finding:
    return Finding(part, Level.WRONG, text, mend)
