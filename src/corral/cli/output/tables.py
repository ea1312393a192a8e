"""Tables on the terminal, in kubectl's look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from corral.cli.output import style
from corral.core.meta import Obj, metadata_of
from corral.core.timestamps import parse_time
from corral.kinds.machinery.tables import human_duration

GAP = 3


class TablePrinter:
    """A table that may grow: columns keep the width they have reached, so that later rows stand below earlier ones."""

    def __init__(self, headers: Sequence[str], *, is_headed: bool = True) -> None:
        self._headers = list(headers)
        self._widths = [len(header) if is_headed else 0 for header in headers]
        self._is_headed = is_headed

    def add(self, rows: Iterable[Sequence[object]]) -> None:
        """Print rows; before the first of them the header."""
        cells = [[_text(cell) for cell in row] for row in rows]
        for row in cells:
            self._widths = [max(width, len(text)) for width, text in zip(self._widths, row, strict=True)]
        colourful = style.is_colourful()
        if self._is_headed:
            self._is_headed = False
            line = "".join(self._padded(self._headers)).rstrip()
            click.echo(style.styled_header(line) if colourful else line)
        for row in cells:
            padded = self._padded(row)
            if colourful:
                padded = [style.styled_cell(header, text) for header, text in zip(self._headers, padded, strict=True)]
            click.echo("".join(padded).rstrip())

    def _padded(self, row: Sequence[str]) -> list[str]:
        return [text.ljust(width + GAP) for text, width in zip(row, self._widths, strict=True)]


def _text(cell: object) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    return " ".join(str(cell).splitlines()) if cell not in (None, "") else ""


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their content; nothing for an empty table but its header."""
    TablePrinter(headers).add(rows)


def age(obj: Obj, now: float) -> str:
    """How old an object is, as kubectl prints it."""
    created = metadata_of(obj).get("creationTimestamp")
    return human_duration(now - parse_time(created)) if created else "<unknown>"
