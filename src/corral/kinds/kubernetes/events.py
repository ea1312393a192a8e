"""events.k8s.io/v1: the newer view of core/v1 events; both are one store."""

from __future__ import annotations

from dataclasses import replace

from corral.core.meta import Obj
from corral.kinds.kubernetes.core import columns as core_printing
from corral.kinds.kubernetes.core.events import check_new_event, check_new_event_update
from corral.kinds.kubernetes.core.kinds import EVENT_FIELDS
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Column

_TO_CORE = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE = {core: new for new, core in _TO_CORE.items()}
_OPTIONAL = ("reportingComponent", "reportingInstance")  # always there in core/v1


def to_core(event: Obj) -> Obj:
    """The same event as core/v1 spells it."""
    return {**{_TO_CORE.get(key, key): value for key, value in event.items()}, "apiVersion": "v1"}


def from_core(event: Obj) -> Obj:
    """A core/v1 event as events.k8s.io/v1 spells it."""
    shown = {_FROM_CORE.get(key, key): value for key, value in event.items() if value != "" or key not in _OPTIONAL}
    return {**shown, "apiVersion": "events.k8s.io/v1"}


def _as_in_core(column: Column) -> Column:
    """A column of core/v1 for events in this version."""
    cell = column.cell
    assert cell is not None
    return replace(column, cell=lambda event, now: cell(to_core(event), now))


def _convert(event: Obj, version: str) -> Obj:
    return from_core(event) if event.get("apiVersion") == "v1" else event


EVENT = kind(
    "events.v1.Event",
    "events",
    group="events.k8s.io",
    short_names=("ev",),
    columns=tuple(_as_in_core(column) for column in core_printing.EVENT),
    allow_create_on_update=True,
    convert=_convert,
    validate=check_new_event,
    validate_update=check_new_event_update,
    fields={path.replace("involvedObject", "regarding"): read for path, read in EVENT_FIELDS.items()},
)

KINDS = (EVENT,)

EVENTS = EVENT.resource()
