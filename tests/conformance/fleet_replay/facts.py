"""What states say: per object and aspect, the values it kept for a while, in order. The same for a recording and a run.

Times, uids and random names are masked. A value that lasts less than `BRIEF_S` is a step on the way: which of those show
depends on how fast the machine was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Obj = dict[str, Any]

BRIEF_S = 4.0
UID = re.compile(r"<uid-\d+>|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
RANDOM = re.compile(r"-(<rand-\d+>|<rand>|[0-9a-f]{8})$")
ENVELOPE = re.compile(r"-envelope-\S+")
MINUTES = re.compile(r"\d+\.\d\d minutes ago")
POINTER = re.compile(r"BlockOwnerDeletion:(?!<nil>)[^} ]+")
"""Upstream prints the address of a boolean."""
STAMP = re.compile(r"<t\+\d+>|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Aspect(NamedTuple):
    cluster: str
    kind: str
    name: str
    what: str


class History(NamedTuple):
    """All values of an aspect in order, and those among them that lasted."""

    all: list[str]
    lasting: list[str]


Histories = dict[Aspect, History]


def masked(text: str) -> str:
    text = STAMP.sub("<t>", UID.sub("<uid>", text))
    text = POINTER.sub("BlockOwnerDeletion:<ptr>", text)
    return ENVELOPE.sub("-envelope-<id>", MINUTES.sub("<n> minutes ago", text))


def name_of(namespace: str, name: str) -> str:
    return masked(RANDOM.sub("-<rand>", f"{namespace}/{name}" if namespace else name))


def merge(old: Any, new: Any) -> Any:
    """A recorded difference put on top of the state before it."""
    if new == "=":
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        gone = new.get("<removed>", [])
        result = {key: value for key, value in old.items() if key not in gone}
        result.update({key: merge(old.get(key), value) for key, value in new.items() if key != "<removed>"})
        return result
    if isinstance(old, list) and isinstance(new, list) and new and all(isinstance(one, dict) for one in new):
        key = next((word for word in ("type", "clusterName") if all(word in one for one in new)), None)
        if key is None:
            return new
        known = {one.get(key): one for one in old if isinstance(one, dict)}
        return [known[one[key]] if one.get("=") is True else merge(known.get(one[key]), one) for one in new]
    return new


class State(NamedTuple):
    t: float
    cluster: str
    kind: str
    namespace: str
    name: str
    obj: Obj | None


def recorded(log: Iterable[Obj]) -> Iterator[State]:
    """The states of a recording, complete."""
    current: dict[tuple[str, ...], Obj] = {}
    for entry in log:
        obj = entry["object"]
        if obj["kind"] == "Event":
            subject = obj.get("involvedObject") or {}
            event = {**obj, "source": {"component": obj.get("source")}}
            yield State(entry["t"], entry["cluster"], "Event", subject.get("namespace", ""), subject["name"], event)
            continue
        metadata = obj["metadata"]
        key = (entry["cluster"], obj["kind"], metadata.get("namespace", ""), metadata["name"])
        if entry["event"] == "DELETED":
            current.pop(key, None)
            yield State(entry["t"], *key, None)
            continue
        current[key] = merge(current[key], obj) if key in current else obj
        yield State(entry["t"], *key, current[key])


def histories(states: Iterable[State], end: float) -> Histories:
    """The values of every aspect up to `end`."""
    timed: dict[Aspect, list[tuple[float, str]]] = {}
    for state in states:
        if state.kind != "Event" and state.obj is not None and state.obj["metadata"].get("deletionTimestamp"):
            continue  # how long something takes to go is not compared, only that it goes
        aspects = dict(_facts(state))
        subject = (state.cluster, state.kind, name_of(state.namespace, state.name))
        if state.kind != "Event":
            for aspect in [one for one in timed if one[:3] == subject and one.what not in aspects]:
                _put(timed, aspect, state.t, "-")
        for what, value in aspects.items():
            _put(timed, Aspect(*subject, what), state.t, value)
    return {aspect: History([value for _, value in values], lasting(values, end)) for aspect, values in timed.items()}


def _put(timed: dict[Aspect, list[tuple[float, str]]], aspect: Aspect, t: float, value: str) -> None:
    held = timed.setdefault(aspect, [])
    if not held or held[-1][1] != value:
        held.append((t, value))


def lasting(values: list[tuple[float, str]], end: float) -> list[str]:
    """Values that stayed for a while; gaps between two values are none."""
    result: list[str] = []
    for (t, value), (until, _) in zip(values, [*values[1:], (end, "")], strict=True):
        is_gap = value in ("-", "[]") and until < end
        if until - t >= BRIEF_S and not is_gap and (not result or result[-1] != value):
            result.append(value)
    return result


def _facts(state: State) -> Iterator[tuple[str, str]]:
    obj = state.obj
    if obj is None:
        yield "exists", "no"
        return
    if state.kind == "Event":
        component = (obj.get("source") or {}).get("component")
        yield f"event {obj['reason']}", masked(f"{obj['type']} {obj['message']} ({component})")
        return
    yield "exists", "yes"
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    yield from _conditions("", status.get("conditions") or [])
    match state.kind:
        case "ClusterResourcePlacement" | "ResourcePlacement":
            yield from _placement(status)
        case "ClusterResourceBinding" | "ResourceBinding":
            for field in ("state", "resourceSnapshotName", "clusterResourceOverrideSnapshots"):
                yield field, _text(spec.get(field) or None)
            yield "decision", _text(spec.get("clusterDecision"))
        case "ClusterSchedulingPolicySnapshot" | "SchedulingPolicySnapshot":
            yield "decisions", _text(status.get("targetClusters") or [])
        case "Work":
            yield "manifests", _text((spec.get("workload") or {}).get("manifests") or [])
            yield "strategy", _text(spec.get("applyStrategy"))
        case "ConfigMap" | "Secret":
            yield "data", _text(obj.get("data") or {})
        case "ClusterStagedUpdateRun":
            yield from _run(status)


def _conditions(prefix: str, entries: list[Obj]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        yield (
            f"{prefix}condition {entry['type']}",
            masked(f"{entry['status']}/{entry.get('reason')}: {entry.get('message', '')}"),
        )


def _placement(status: Obj) -> Iterator[tuple[str, str]]:
    yield "selected", _text(status.get("selectedResources") or [])
    yield "index", str(status.get("observedResourceIndex") or "")
    entries = status.get("placementStatuses") or []
    yield "clusters", _text([one.get("clusterName") for one in entries])
    for one in entries:
        name = one.get("clusterName") or "(none)"
        yield from _conditions(f"{name} ", one.get("conditions") or [])
        for field in ("failedPlacements", "driftedPlacements", "diffedPlacements"):
            if one.get(field):
                yield f"{name} {field}", _text([_without_times(entry) for entry in one[field]])


def _without_times(entry: Obj) -> Obj:
    return {name: value for name, value in entry.items() if not name.endswith("Time")}


def _run(status: Obj) -> Iterator[tuple[str, str]]:
    for stage in [*(status.get("stagesStatus") or []), status.get("deletionStageStatus") or {}]:
        yield from _conditions(f"{stage.get('stageName')} ", stage.get("conditions") or [])
        for cluster in stage.get("clusters") or []:
            yield from _conditions(
                f"{stage.get('stageName')} {cluster['clusterName']} ", cluster.get("conditions") or []
            )


def _text(value: Any) -> str:
    return masked(json.dumps(value, sort_keys=True))
