"""What a command has to show, and the one place that shows it: as a table or in another format, sorted, once or as it changes."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import click

from corral.cli.output import formats, templates
from corral.cli.output.formats import Format, format_option
from corral.cli.output.interruptions import INTERRUPTED, heard_at_once
from corral.cli.output.tables import TablePrinter
from corral.core.meta import Obj
from corral.core.quantity import Quantity
from corral.kinds.machinery import jsonpath

INTERVAL_S: Final = 1.0
PASSING: Final = frozenset({"AGE", "EXEC TIME", "LAST SEEN", "DURATION"})
"""Columns that change by themselves: time that passes is no news."""

F = TypeVar("F", bound=Callable[..., Any])
Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects of one kind with the columns a table of them has."""

    headers: Sequence[str]
    rows: Sequence[Row]
    objects: Sequence[Obj]
    """One for each row."""
    wide: frozenset[int] = frozenset()
    """The columns that only `-o wide` shows."""
    empty: str = ""
    """What to say when there are none."""

    def without(self, headers: Iterable[str]) -> Listing:
        """The listing without these columns."""
        gone = set(headers)
        left = [index for index, header in enumerate(self.headers) if header not in gone]
        wide = frozenset(left.index(index) for index in self.wide if index in left)
        rows = [[row[index] for index in left] for row in self.rows]
        return replace(self, headers=[self.headers[index] for index in left], rows=rows, wide=wide)


@dataclass(frozen=True, slots=True)
class Output:
    """How to show it."""

    format: Format = field(default_factory=Format)
    watch: bool = False
    sort_by: str = ""
    headers: bool = True


def output_options(command: F) -> F:
    """-o, --watch, --sort-by and --no-headers, given to the command as one `output`."""

    @functools.wraps(command)
    def with_output(*args: Any, output: Format, watch: bool, sort_by: str, no_headers: bool, **options: Any) -> Any:
        return command(*args, output=Output(output, watch, sort_by, not no_headers), **options)

    for option in (
        click.option("--no-headers", is_flag=True, help="Print no header."),
        click.option("--sort-by", default="", metavar="COLUMN|PATH", help="Sort by a column, or a path such as .metadata.name."),
        click.option("-w", "--watch", is_flag=True, help="Then print what changes, until Ctrl-C."),
        format_option(),
    ):  # fmt: skip
        with_output = option(with_output)
    return with_output  # type: ignore[return-value]  # the same command with another signature


class Shower:
    """Shows listings; those of later calls continue the tables of the first."""

    def __init__(self, output: Output, *, is_single: bool = False) -> None:
        self._output = output
        self._is_single = is_single
        self._printers: dict[int, TablePrinter] = {}

    def show(self, listings: Sequence[Listing]) -> None:
        """Print everything that is in listings."""
        ordered = [in_order(listing, self._output.sort_by) for listing in listings]
        form = self._output.format
        if form.is_table or form.name == "custom-columns":
            self._show_tables(ordered)
        else:
            objects = [obj for listing in ordered for obj in listing.objects]
            formats.print_objects(form, objects, is_single=self._is_single)

    def _show_tables(self, listings: Sequence[Listing]) -> None:
        shown = [(index, listing) for index, listing in enumerate(listings) if listing.rows or listing.objects]
        for index, listing in shown:
            if self._printers and index not in self._printers and self._output.headers:
                click.echo()
            self._table(index, listing)
        if not shown and not self._printers:
            self._say_that_nothing_is_there(listings)

    def _table(self, index: int, listing: Listing) -> None:
        headers, rows = self._columns(listing)
        if index not in self._printers:
            self._printers[index] = TablePrinter(headers, is_headed=self._output.headers)
        self._printers[index].add(rows)

    def _columns(self, listing: Listing) -> tuple[Sequence[str], Sequence[Row]]:
        form = self._output.format
        if form.name == "custom-columns":
            rows = [[templates.cell(path, obj) for _, path in form.columns] for obj in listing.objects]
            return [header for header, _ in form.columns], rows
        if form.name != "wide":
            listing = listing.without(listing.headers[index] for index in listing.wide)
        return listing.headers, listing.rows

    def _say_that_nothing_is_there(self, listings: Sequence[Listing]) -> None:
        for listing in listings:
            if listing.empty:
                click.echo(listing.empty, err=True)


def show(output: Output, source: Callable[[], Sequence[Listing]]) -> None:
    """Show what there is and, where asked to, what becomes of it: asked again every second."""
    shower, now = Shower(output), source()
    shower.show(now)
    if output.watch:
        until_interrupted(shower, _differences(now, source))


def until_interrupted(shower: Shower, changes: Iterator[Sequence[Listing]]) -> None:
    """Show changes as they come. Ctrl-C is how a watch ends, so it is not an error to speak of."""
    try:
        with heard_at_once():
            for changed in changes:
                shower.show(changed)
    except KeyboardInterrupt:
        click.echo(err=True)
        sys.exit(INTERRUPTED)


def _differences(before: Sequence[Listing], source: Callable[[], Sequence[Listing]]) -> Iterator[Sequence[Listing]]:
    while True:
        time.sleep(INTERVAL_S)
        after = source()
        changed = [_changed(old, new) for old, new in zip(before, after, strict=True)]
        before = after
        if any(listing.rows for listing in changed):
            yield changed


def _changed(before: Listing, after: Listing) -> Listing:
    """The rows that are new or not what they were."""

    def lasting(listing: Listing) -> list[tuple[object, ...]]:
        kept = listing.without(PASSING)
        return [(*row, _version(obj)) for row, obj in zip(kept.rows, kept.objects, strict=True)]

    known = set(lasting(before))
    new = [index for index, row in enumerate(lasting(after)) if row not in known]
    return replace(after, rows=[after.rows[i] for i in new], objects=[after.objects[i] for i in new], empty="")


def _version(obj: Obj) -> object:
    return (obj.get("metadata") or {}).get("resourceVersion")


def in_order(listing: Listing, sort_by: str) -> Listing:
    """A listing sorted by a column's header, or by a path into its objects."""
    if not sort_by:
        return listing
    if sort_by.startswith((".", "{", "$")):
        try:
            path = templates.checked_path(sort_by)
        except templates.TemplateError as error:
            raise click.UsageError(f"--sort-by: {error}") from error
        keys = [_sort_key(jsonpath.first(path, obj)) for obj in listing.objects]
    else:
        keys = _column_keys(listing, sort_by)
    order = sorted(range(len(keys)), key=lambda index: keys[index])
    rows = [listing.rows[index] for index in order] if listing.rows else listing.rows
    return replace(listing, rows=rows, objects=[listing.objects[index] for index in order])


def _column_keys(listing: Listing, column: str) -> list[tuple[Any, ...]]:
    wanted = column.upper()
    if wanted == "AGE":  # ages as they are printed do not sort
        keys = [_sort_key((obj.get("metadata") or {}).get("creationTimestamp")) for obj in listing.objects]
        return [(key[0], _Reversed(key[1])) for key in keys]
    if wanted not in listing.headers:
        known = ", ".join(header.lower() for header in listing.headers) or "none: columns are those of tables"
        raise click.UsageError(
            f"--sort-by {column}: there is no such column; there are {known}; a path begins with a dot"
        )
    index = list(listing.headers).index(wanted)
    return [_sort_key(row[index]) for row in listing.rows]


def _sort_key(value: object) -> tuple[int, Any]:
    """Nothing first, then amounts by their size, then words."""
    if value in (None, ""):
        return 0, ""
    try:
        return 1, Quantity.parse(str(value))
    except ValueError:
        return 2, str(value)


@functools.total_ordering
@dataclass(frozen=True, slots=True)
class _Reversed:
    """A key that sorts the other way round: of ages, the youngest has the latest time."""

    value: Any

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)
