"""Whole objects out of a recording: its first state of an object is whole, the later ones only say what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from multikueue.facts import Obj, State

Identity = tuple[str, str, str, str]
"""Cluster, kind, namespace and name."""


def identity(state: State) -> Identity:
    metadata = state.object.get("metadata") or {}
    return state.cluster, state.kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def whole(states: Iterable[State], set_up: Iterable[State] = ()) -> Iterator[State]:
    """The same states with whole objects; states of what was `set_up` before say what changed since."""
    known: dict[Identity, Obj] = {identity(state): state.object for state in set_up}
    states = list(states)
    first = {identity(state): state.event for state in reversed(states) if state.event != "EVENT" and state.t >= 0}
    settling = {key: obj for key, obj in known.items() if first.get(key) == "ADDED"}
    for state in states:
        if state.event == "EVENT":
            yield state
            continue
        key = identity(state)
        if state.event == "DELETED":
            known.pop(key, None)
            yield state
            continue
        if key in settling:
            if not _is_settled(state.object, settling[key]):
                continue
            del settling[key]
        before = {} if state.event in ("ADDED", "EXISTS") else known.get(key, {})
        known[key] = now = _changed(before, state.object)
        if state.kind == "Pod":  # always shown with the finalizers and gates it has
            now["metadata"].update(finalizers=(state.object.get("metadata") or {}).get("finalizers"))
            now["schedulingGates"] = state.object.get("schedulingGates")
        yield state._replace(object=now)


def _is_settled(now: Obj, set_up: Obj) -> bool:
    """Whether an object that was still being set up when the recording began has come to rest."""
    return _told(now) == _told(set_up)


def _told(obj: Obj) -> dict[str, str]:
    return {entry["type"]: entry["status"] for entry in (obj.get("status") or {}).get("conditions") or []}


def _changed(before: Obj, change: Obj) -> Obj:
    """Metadata and status change field by field, a spec wherever it does, everything else as a whole."""
    merged = {**before, **change}
    for part in ("metadata", "status"):
        if part in change:
            merged[part] = _without_none({**(before.get(part) or {}), **(change[part] or {})})
    if "spec" in change:
        merged["spec"] = _merged(before.get("spec") or {}, change["spec"])
    return merged


def _without_none(value: Obj) -> Obj:
    return {name: item for name, item in value.items() if item is not None}


def _merged(before: Any, change: Any) -> Any:
    if not isinstance(before, dict) or not isinstance(change, dict):
        return change
    merged = dict(before)
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(before.get(name), value)
    return merged
