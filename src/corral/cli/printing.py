"""Tables on the terminal, in kubectl's look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from corral.core.meta import Obj, metadata_of
from corral.core.timestamps import parse_time
from corral.kinds.machinery.tables import human_duration

GAP = 3


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their content; nothing for an empty table but its header."""
    cells = [[str(cell) if cell not in (None, "") else "" for cell in row] for row in rows]
    widths = [max([len(header), *(len(row[index]) for row in cells)]) for index, header in enumerate(headers)]
    for line in (list(headers), *cells):
        padded = [text.ljust(width + GAP) for text, width in zip(line, widths, strict=True)]
        click.echo("".join(padded).rstrip())


def age(obj: Obj, now: float) -> str:
    """How old an object is, as kubectl prints it."""
    created = metadata_of(obj).get("creationTimestamp")
    return human_duration(now - parse_time(created)) if created else "<unknown>"
