"""Colours: on terminals only, and never where NO_COLOR is set. What a word means decides its colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

import click

GOOD: Final = frozenset(
    {"active", "admitted", "available", "complete", "completed", "finished", "ready", "running", "succeeded", "true"}
)
BAD: Final = frozenset(
    {
        "crashloopbackoff",
        "deactivated",
        "errimagepull",
        "error",
        "evicted",
        "failed",
        "imagepullbackoff",
        "notready",
        "oomkilled",
        "warning",
    }
)
WAITING: Final = frozenset(
    {"containercreating", "pending", "quotareserved", "restarting", "starting", "suspended", "terminating", "unknown"}
)
STATES: Final = frozenset({"ACTIVE", "ADMITTED", "PHASE", "READY", "STATE", "STATUS", "TYPE"})
"""Columns whose words are states; names of objects are never coloured, whatever they are called."""


def is_colourful(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether what is printed now may have colours."""
    return sys.stdout.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def colour_of(word: str) -> str | None:
    """The colour of a state."""
    known = word.strip().lower().replace(" ", "").partition(":")[0]
    if known in GOOD:
        return "green"
    if known in BAD or known.startswith(("notanswering", "notready")):
        return "red"
    return "yellow" if known in WAITING else None


def styled_header(text: str) -> str:
    return click.style(text, bold=True)


def styled_cell(header: str, text: str) -> str:
    """A padded cell; padding is not coloured, so that widths stay what they are."""
    colour = colour_of(text) if header.strip() in STATES else None
    word = text.rstrip()
    return click.style(word, fg=colour) + text[len(word) :] if colour else text
