"""Lists that show themselves: as text, as a table in a notebook, and as a data frame where pandas is installed."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar, overload

from corral.sdk.errors import CorralError


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A LocalQueue, which is what jobs name."""

    namespace: str
    name: str
    cluster_queue: str
    pending: int
    admitted: int
    active: bool


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A worker cluster of a manager."""

    name: str
    active: bool
    running: int
    message: str


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job that is or was in a queue."""

    namespace: str
    kind: str
    name: str
    queue: str
    status: str
    """pending, quotareserved, admitted, finished or failed"""
    cluster: str
    created: str

    @property
    def target(self) -> str:
        """What commands and `Client.job` call it: `job/train`."""
        return f"{self.kind.lower()}/{self.name}"


Row = TypeVar("Row")


class Table(Sequence[Row], Generic[Row]):
    """Rows of one kind. It is a sequence, prints as aligned columns, and shows itself as a table in notebooks."""

    def __init__(self, kind: type[Row], rows: Iterable[Row]) -> None:
        self._rows = tuple(rows)
        self.columns: tuple[str, ...] = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]
        """The names of the columns, which are the attributes of a row."""

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def records(self) -> Iterator[dict[str, Any]]:
        """Each row as a dictionary."""
        return ({name: getattr(row, name) for name in self.columns} for row in self._rows)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with these columns; needs pandas, which Corral does not install."""
        try:
            import pandas
        except ImportError as error:
            raise CorralError(
                "pandas is not installed here: `pip install pandas`, or use the rows as they are"
            ) from error
        return pandas.DataFrame(list(self.records()), columns=list(self.columns))

    def __repr__(self) -> str:
        lines = [[name.upper() for name in self.columns], *([*map(str, one.values())] for one in self.records())]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def _repr_html_(self) -> str:
        return html_table(self.columns, [list(one.values()) for one in self.records()])


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table for a notebook. Names and messages are other people's text, and stay text."""
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
