"""What states say: every object taken apart into aspects, each with the values it went through, in order.

The same is done to a recording and to a run of it. Every field of every recorded object is an aspect, but for
statuses that are not the fleet's. Times, uids, digests and random names are masked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Obj = dict[str, Any]

DIGEST = re.compile(r"\b[0-9a-f]{64}\b|\b[A-Za-z0-9+/]{86}==")
UID = re.compile(r"<uid-\d+>|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
RANDOM = re.compile(r'-(<rand-\d+>|<rand>|[0-9a-f]{8})(?=$|[\s",])')
ENVELOPE = re.compile(r'-envelope-[^\s",]+')
MINUTES = re.compile(r"\d+\.\d\d minutes ago")
POD = re.compile(r"((?:Created|Deleted) pod: \S+|Pod \S+)-(?:<rand>|[a-z0-9]{5})(?=$| creation)")
ADDRESS = re.compile(r'"10\.\d+\.\d+\.\d+"|(?<="nodePort": )\d+')
"""Addresses and ports that clusters give to Services as they please."""
VERSION = re.compile(r'"v1\.\d+\.\d+[^"]*"')
"""The version of Kubernetes that a cluster says it is."""
REPLICA_SET = re.compile(r"((?:[Rr]eplica set|ReplicaSet) \"?[-a-z0-9/]+)-[a-z0-9]{8,10}\b")
"""Their names end in a hash of the pod template."""
POINTER = re.compile(r"BlockOwnerDeletion:(?!<nil>)[^} ]+")
"""Upstream prints the address of a boolean."""
STAMP = re.compile(r"<t[+-]\d+>|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[^\"]*|LS0tLS1CRUdJTi[A-Za-z0-9+/=]*|<certificate>")

FLEET = ("placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io", "multicluster.x-k8s.io")
COUNTED_OTHERWISE = ("ClusterResourceBinding", "ResourceBinding", "MemberCluster", "InternalMemberCluster")
"""Kinds whose generations are compared by what conditions say of them, not as numbers: a binding's strategy and release
are one write here and two upstream, and members had a life before a recording began."""
_METADATA = ("labels", "annotations", "finalizers", "ownerReferences", "generation")
_NOTES = ("kubectl.kubernetes.io/last-applied-configuration", "deprecated.daemonset.template.generation")


class Aspect(NamedTuple):
    cluster: str
    kind: str
    name: str
    what: str


class Value(NamedTuple):
    """What an aspect was from `t` on; `going` while its object is being deleted, which takes as long as it takes."""

    t: float
    text: str
    going: bool = False


Histories = dict[Aspect, list[Value]]
ABSENT = "-"


class State(NamedTuple):
    t: float
    cluster: str
    kind: str
    namespace: str
    name: str
    obj: Obj | None


def masked(text: str) -> str:
    text = STAMP.sub("<t>", UID.sub("<uid>", DIGEST.sub("<digest>", text)))
    text = RANDOM.sub("-<rand>", POINTER.sub("BlockOwnerDeletion:<ptr>", text))
    text = VERSION.sub('"<version>"', ADDRESS.sub('"<address>"', text))
    text = REPLICA_SET.sub(r"\1-<hash>", text)
    text = POD.sub(r"\1-<rand>", CERTIFICATE.sub("<certificate>", text))
    return ENVELOPE.sub("-envelope-<id>", MINUTES.sub("<n> minutes ago", text))


def name_of(namespace: str, name: str) -> str:
    return masked(f"{namespace}/{name}" if namespace else name)


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
        # A state with an uid is complete, others are differences.
        if key not in current and "uid" not in metadata:
            raise KeyError(f"{key[1]} {key[3]}")
        current[key] = merge(current[key], obj) if key in current and "uid" not in metadata else obj
        yield State(entry["t"], *key, current[key])


def histories(states: Iterable[State]) -> Histories:
    """The values of every aspect, those of Events being all Events about one object."""
    found: Histories = {}
    counted: dict[tuple[str, ...], int] = {}
    of_object: dict[tuple[str, str, str], list[Aspect]] = {}
    states = list(states)
    names = _envelope_names(states)
    for state in states:
        subject = (state.cluster, state.kind, name_of(state.namespace, names.get(state.name, state.name)))
        if state.kind == "Event":
            _add_event(found, counted, subject, state)
            continue
        aspects = {} if state.obj is None else dict(facts(state.obj))
        aspects["exists"] = "no" if state.obj is None else "yes"
        going = state.obj is None or bool(state.obj["metadata"].get("deletionTimestamp"))
        for aspect in of_object.setdefault(subject, []):
            if aspect.what not in aspects:
                _put(found, aspect, Value(state.t, ABSENT, going))
        for what, value in aspects.items():
            aspect = Aspect(*subject, what)
            if aspect not in found:
                of_object[subject].append(aspect)
            _put(found, aspect, Value(state.t, value, going))
    return found


def _put(found: Histories, aspect: Aspect, value: Value) -> None:
    held = found.setdefault(aspect, [])
    if not held or held[-1].text != value.text:
        held.append(value)


def _envelope_names(states: Iterable[State]) -> dict[str, str]:
    """Works of envelopes by what they were made from: their own names end in something random."""
    found = {}
    for state in states:
        labels = state.obj["metadata"].get("labels") or {} if state.kind == "Work" and state.obj is not None else {}
        envelope = labels.get("kubernetes-fleet.io/envelope-name")
        if envelope:
            kind = labels.get("kubernetes-fleet.io/envelope-work")
            found[state.name] = f"{ENVELOPE.sub('', state.name)} of {kind} {envelope}"
    return found


def _add_event(
    found: Histories, counted: dict[tuple[str, ...], int], subject: tuple[str, str, str], state: State
) -> None:
    event = state.obj
    if event is None:
        return
    component = (event.get("source") or {}).get("component") or event.get("reportingComponent")
    told = masked(f"{event['type']} {event['reason']}: {event.get('message', '')}")
    seen = (*subject, str(component), told)
    count = int(event.get("count") or 1)
    if count > counted.get(seen, 0):
        counted[seen] = count
        found.setdefault(Aspect(*subject, f"events from {component}"), []).append(Value(state.t, told))


# The aspects of one state


def facts(obj: Obj) -> Iterator[tuple[str, str]]:
    metadata = obj["metadata"]
    for name in _METADATA:
        if (value := _metadata(obj, name)) is not None:
            yield name, _text(value)
    yield "deletion", "asked for" if metadata.get("deletionTimestamp") else "not asked for"
    for part, content in obj.items():
        if part in ("metadata", "apiVersion", "kind") or (part == "status" and not is_fleet(obj)):
            continue
        if isinstance(content, dict):
            for name, value in content.items():
                yield from _field(obj, part, name, value)
        else:
            yield part, _text(content)


def is_fleet(obj: Obj) -> bool:
    return str(obj.get("apiVersion", "")).startswith(FLEET)


def _metadata(obj: Obj, name: str) -> Any:
    value = obj["metadata"].get(name)
    if name == "generation" and obj["kind"] in COUNTED_OTHERWISE:
        return None
    if name == "annotations" and isinstance(value, dict):
        value = {note: text for note, text in value.items() if note not in _NOTES}
    return value or None


def _field(obj: Obj, part: str, name: str, value: Any) -> Iterator[tuple[str, str]]:
    match name:
        case "conditions":
            yield from _conditions(obj, "", value)
        case "placementStatuses":
            yield "clusters", _text([one.get("clusterName") for one in value])
            for one in value:
                yield from _cluster(obj, one)
        case "manifestConditions":
            for one in value:
                yield from _manifest(obj, one)
        case "stagesStatus":
            yield "stages", _text([one.get("stageName") for one in value])
            for one in value:
                yield from _stage(obj, one)
        case "deletionStageStatus":
            yield from _stage(obj, value)
        case "agentStatus":
            for one in value:
                yield from _conditions(obj, f"{one.get('type')} ", one.get("conditions") or [])
        case _:
            if value not in ({}, [], None, {"manifests": []}):
                yield f"{part}.{name}", _text(value)


def _conditions(obj: Obj, prefix: str, entries: list[Obj]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        yield (
            f"{prefix}condition {entry['type']}",
            masked(f"{entry['status']}/{entry.get('reason')}: {entry.get('message', '')}{_seen(obj, entry)}"),
        )


def _seen(obj: Obj, entry: Obj) -> str:
    """The generation that a condition is about: a number, or only whether it is the present one."""
    generation = entry.get("observedGeneration")
    if generation is None:
        return ""
    if obj["kind"] in COUNTED_OTHERWISE:
        return "" if generation == obj["metadata"].get("generation") else " (of an older generation)"
    return f" (generation {generation})"


def _cluster(obj: Obj, entry: Obj) -> Iterator[tuple[str, str]]:
    name = entry.get("clusterName") or "(none)"
    for field, value in entry.items():
        if field == "conditions":
            yield from _conditions(obj, f"{name} ", value)
        elif field != "clusterName" and value not in ({}, [], None):
            yield f"{name} {field}", _text(value)


def _manifest(obj: Obj, entry: Obj) -> Iterator[tuple[str, str]]:
    identifier = entry.get("identifier") or {}
    name = f"{identifier.get('kind')} {identifier.get('namespace', '')}/{identifier.get('name')}"
    yield f"{name} identifier", _text(identifier)
    for field, value in entry.items():
        if field == "conditions":
            yield from _conditions(obj, f"{name} ", value)
        elif field != "identifier" and value not in ({}, [], None):
            yield f"{name} {field}", _text(value)


def _stage(obj: Obj, stage: Obj) -> Iterator[tuple[str, str]]:
    name = str(stage.get("stageName"))
    yield from _conditions(obj, f"{name} ", stage.get("conditions") or [])
    yield f"{name} clusters", _text([one["clusterName"] for one in stage.get("clusters") or []])
    for cluster in stage.get("clusters") or []:
        who = f"{name} {cluster['clusterName']} "
        yield from _conditions(obj, who, cluster.get("conditions") or [])
        for field in ("clusterResourceOverrideSnapshots", "resourceOverrideSnapshots"):
            if cluster.get(field):
                yield f"{who}{field}", _text(cluster[field])
    for field in ("beforeStageTaskStatus", "afterStageTaskStatus"):
        for task in stage.get(field) or []:
            yield from _conditions(obj, f"{name} {field} {task.get('type')} ", task.get("conditions") or [])


def _text(value: Any) -> str:
    return masked(json.dumps(_readable(value), sort_keys=True))


def _readable(value: Any) -> Any:
    """What kubectl left in an annotation is compared as the object that it is."""
    if isinstance(value, dict):
        return {name: _readable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_readable(one) for one in value]
    if isinstance(value, str) and value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
