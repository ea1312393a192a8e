"""Tables: what `kubectl get` prints, made on the server from a kind's columns.

Also the words shared by printing functions: ages, selectors, container lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from corral.core.meta import Obj, name_of
from corral.core.selectors import from_label_selector
from corral.core.timestamps import parse_time
from corral.kinds.machinery import jsonpath
from corral.kinds.machinery.definition import Cell, Column, KindDef, VersionDef, age_column

NAME = Column("Name", format="name", cell=lambda obj, now: name_of(obj))
UNKNOWN = "<unknown>"
NONE = "<none>"


def human_duration(seconds: float) -> str:
    """A length of time in at most two units, as kubectl prints ages."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def since(timestamp: str | None, now: float) -> str:
    """The age of a timestamp at `now`; a table shows one that cannot be read, kept from earlier, as unknown."""
    try:
        return human_duration(now - parse_time(timestamp)) if timestamp else UNKNOWN
    except ValueError:
        return UNKNOWN


def age(obj: Obj, now: float) -> Cell:
    return since((obj.get("metadata") or {}).get("creationTimestamp"), now)


AGE = Column("Age", cell=age)
CREATED_AT = Column(
    "Created At", type="date", cell=lambda obj, now: (obj.get("metadata") or {}).get("creationTimestamp")
)
DEFAULT_COLUMNS: tuple[Column, ...] = (NAME, CREATED_AT)
"""What the server shows of kinds nobody wrote columns for."""


def container_names(spec: Obj) -> str:
    return ",".join(container.get("name", "") for container in spec.get("containers") or ())


def container_images(spec: Obj) -> str:
    return ",".join(container.get("image", "") for container in spec.get("containers") or ())


def format_labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def format_selector(selector: Obj | None) -> str:
    """A LabelSelector in one line; `<none>` when it selects nothing or everything."""
    return str(from_label_selector(selector)) or NONE if selector else NONE


def limited(items: Sequence[str], total: int, limit: int = 3, *, empty: str = "<unset>") -> str:
    """The first few items, and how many there are more."""
    if not items:
        return empty
    shown = ",".join(items[:limit])
    return f"{shown} + {total - limit} more..." if total > limit else shown


def text(path: str, default: str = "") -> Any:
    """A printing function: the value at `path`, or `default` when it is missing or empty."""

    def cell(obj: Obj, now: float) -> Cell:
        found = jsonpath.first(path, obj)
        return default if found is None or found == "" else found

    return cell


def number(path: str) -> Any:
    """A printing function: the integer at `path`, 0 when missing."""
    return lambda obj, now: jsonpath.first(path, obj) or 0


def count(path: str) -> Any:
    """A printing function: how many things are at `path`."""
    return lambda obj, now: len(jsonpath.first(path, obj) or ())


def columns_of(kind: KindDef, version: VersionDef) -> Sequence[Column]:
    """All columns of a kind's table. Custom kinds begin with the name and show at least an age."""
    if kind.builtin and version.columns:
        return version.columns
    return (NAME, *(version.columns or (age_column(),)))


def column_definitions(kind: KindDef, version: VersionDef) -> list[Obj]:
    """The `columnDefinitions` of a Table."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns_of(kind, version)
    ]


def cells(kind: KindDef, version: VersionDef, obj: Obj, now: float) -> list[Cell]:
    """One row of a Table."""
    return [cell_of(column, obj, now) for column in columns_of(kind, version)]


def cell_of(column: Column, obj: Obj, now: float) -> Cell:
    """The value of one column: its function's, or what its JSON path finds, in the column's type."""
    if column.cell is not None:
        return column.cell(obj, now)
    value = jsonpath.first(column.path, obj)
    if value is None:
        return None
    return _TYPED.get(column.type, _as_text)(value, now)


def _as_text(value: Any, now: float) -> Cell:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _as_integer(value: Any, now: float) -> Cell:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as_number(value: Any, now: float) -> Cell:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as_boolean(value: Any, now: float) -> Cell:
    return value if isinstance(value, bool) else None


def _as_date(value: Any, now: float) -> Cell:
    try:
        return since(value, now)
    except (TypeError, ValueError):
        return "<invalid>" if isinstance(value, str) else None


_TYPED = {"integer": _as_integer, "number": _as_number, "boolean": _as_boolean, "date": _as_date}


def row_conditions(kind: KindDef, obj: Obj) -> list[Obj]:
    """Row conditions of a Table: finished pods are marked as completed."""
    phase = (obj.get("status") or {}).get("phase") if kind.kind == "Pod" and not kind.group else None
    if phase == "Succeeded":
        return [
            {"type": "Completed", "status": "True", "reason": phase, "message": "The pod has completed successfully."}
        ]
    if phase == "Failed":
        return [{"type": "Completed", "status": "True", "reason": phase, "message": "The pod failed."}]
    return []
