"""What a sequence of object states says: per object and aspect, the values it went through, in order.

The same function reads a recording and a run, so both are compared in the same terms. Times, uids, name suffixes and
waiting times are masked; a repeated value is one value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Obj = dict[str, Any]


class State(NamedTuple):
    """One state of one object, in the recording's own form: changes only, except the first."""

    cluster: str
    event: str  # ADDED, MODIFIED, DELETED, EXISTS, EVENT
    kind: str
    object: Obj
    t: float = 0.0  # ms


class Aspect(NamedTuple):
    """Something about an object that has a history."""

    cluster: str
    kind: str
    name: str
    what: str


History = dict[Aspect, list[str]]

_HASH = re.compile(r"<h\d+>")
_WORKLOAD = re.compile(
    r"\b((?:job|pod|jobset|trainjob|pytorchjob|tfjob|statefulset|mpijob)-[a-z0-9.-]+?)-[0-9a-f]{5}\b"
)
_POD_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_REPLICA_SET = re.compile(r"-(?=[a-z]*\d)[bcdfghjklmnpqrstvwxz2456789]{8,10}\b")
_WAIT = re.compile(r"was \d+s")
_ADDED = re.compile(r"Added \d+ owner reference")
_UID = re.compile(r"<uid-\d+>|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UNREACHABLE = re.compile(r"ClientConnectionFailed: .*")
"""How a connection failed is told in the words of the client's language."""


def masked(text: str) -> str:
    """`text` without what differs from run to run."""
    text = _HASH.sub("<h>", text)
    text = _WORKLOAD.sub(r"\1-<h>", text)
    text = _REPLICA_SET.sub("-<h>", text)
    text = _POD_SUFFIX.sub("-<h>", text)
    text = _UID.sub("<uid>", text)
    text = _ADDED.sub("Added <n> owner reference", _WAIT.sub("was <n>s", text))
    return _UNREACHABLE.sub("ClientConnectionFailed", text)


def histories(states: Iterable[State]) -> History:
    """Every aspect's values in order, repeats within one object's life left out."""
    found: History = {}
    last: dict[tuple[str, str, str], dict[str, str]] = {}
    for state in states:
        name = (state.object.get("metadata") or {}).get("name") or state.object.get("object")
        seen = last.setdefault((state.cluster, state.kind, str(name)), {})
        for aspect, value in _facts(state):
            if seen.get(aspect.what) != value:
                found.setdefault(aspect, []).append(value)
            seen[aspect.what] = value
        if state.event == "DELETED":
            seen.clear()
            seen["exists"] = "gone"
    return found


def _facts(state: State) -> Iterator[tuple[Aspect, str]]:
    if state.event == "EVENT":
        subject = masked(str(state.object.get("object", "")))
        text = f"{state.object.get('type')} {state.object.get('reason')}: {masked(str(state.object.get('message')))}"
        yield Aspect(state.cluster, "Event", subject, str(state.object.get("reason"))), text
        return
    metadata = state.object.get("metadata") or {}
    name = masked(str(metadata.get("name", "")))

    def aspect(what: str) -> Aspect:
        return Aspect(state.cluster, state.kind, name, what)

    if state.event == "DELETED":
        yield aspect("exists"), "gone"
        return
    yield aspect("exists"), "yes"
    status = state.object.get("status") or {}
    yield from ((aspect(what), value) for what, value in _status_facts(state.kind, status))
    spec = state.object.get("spec") or {}
    for field, value in _spec_facts(state.kind, spec):
        yield aspect(field), value


def _status_facts(kind: str, status: Obj) -> Iterator[tuple[str, str]]:
    if kind == "Pod":
        return
    for entry in status.get("conditions") or []:
        text = masked(f"{entry.get('status')}/{entry.get('reason')}: {entry.get('message')}")
        yield f"condition {entry.get('type')}", text
    for entry in status.get("admissionChecks") or []:
        yield f"check {entry.get('name')}", f"{entry.get('state')}: {masked(str(entry.get('message')))}"
    for field in ("clusterName", "nominatedClusterNames", "reclaimablePods"):
        if field in status:
            yield field, _text(status[field] or None)


def _text(value: Any) -> str:
    """A value in one form: keys sorted, and names too, since nobody promises their order."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = sorted(value)
    return json.dumps(value, sort_keys=True)


def _spec_facts(kind: str, spec: Obj) -> Iterator[tuple[str, str]]:
    for path in (("suspend",), ("managedBy",), ("runPolicy", "suspend"), ("runPolicy", "managedBy"), ("active",)):
        value: Any = spec
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            yield ".".join(path), str(value)
