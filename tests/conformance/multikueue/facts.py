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
    """One state of one object. In a recording only the first one is whole, the others say what changed."""

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

ABSENT = "absent"
ORDER = "order of conditions"
_HASH = re.compile(r"<h\d+>")
_WORKLOAD = re.compile(
    r"\b((?:pod|(?:[a-z]+)?job|jobset|statefulset|raycluster|rayservice|appwrapper|leaderworkerset)-[a-z0-9.-]+?)-[0-9a-f]{5}\b"
)
_POD_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_REPLICA_SET = re.compile(r"-(?=[a-z]*\d)[bcdfghjklmnpqrstvwxz2456789]{8,10}\b")
_WAIT = re.compile(r"was \d+s")
_ADDED = re.compile(r"Added \d+ owner reference")
_UID = re.compile(r"<uid-\d+>|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"T[+-]\d+s|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UNREACHABLE = re.compile(r"ClientConnectionFailed: .*")
"""How a connection failed is told in the words of the client's language."""

_ELSEWHERE = re.compile(
    r"\.serviceAccount(Name)?$|kube-api-access|\.runtimePatches\[\w+\]\.time$|replicaStatuses\.\w+\.selector$"
)
"""What depends on how the recorded servers ran: without service accounts, without Trainer on the manager; and a selector
that upstream's training operator forgets with its last write."""
_OTHERS_LABELS = ("jobset.sigs.k8s.io/priority",)
"""Put on pods by webhooks that are not there."""
_TOLD = ("conditions", "admissionChecks", "clusterName", "nominatedClusterNames", "reclaimablePods")
"""Parts of a status that have aspects of their own."""
_LAST_OF_WORKLOAD = ("QuotaReserved", "Evicted", "Admitted", "Preempted", "Requeued", "DeactivationTarget", "Finished")
"""The conditions of a Workload that one writer sets after another; readiness is told by somebody else meanwhile."""


def masked(text: str) -> str:
    """`text` without what differs from run to run."""
    text = _HASH.sub("<h>", text)
    text = _WORKLOAD.sub(r"\1-<h>", text)
    text = _REPLICA_SET.sub("-<h>", text)
    text = _POD_SUFFIX.sub("-<h>", text)
    text = _UID.sub("<uid>", text)
    text = _TIME.sub("<time>", text)
    text = _ADDED.sub("Added <n> owner reference", _WAIT.sub("was <n>s", text))
    return _UNREACHABLE.sub("ClientConnectionFailed", text)


def histories(states: Iterable[State], before: Iterable[State] = ()) -> History:
    """Every aspect's values in order, repeats within one object's life left out.

    The states are whole objects, or all that is known of one. What holds `before` is not told.
    """
    found: History = {}
    last: dict[tuple[str, str, str], dict[str, str]] = {}
    for state in before:
        if state.event not in ("DELETED", "EVENT"):
            last[_place(state)] = dict(_facts(state))
    for state in states:
        place = _place(state)
        seen = last.setdefault(place, {})
        name = masked(place[2])
        if state.event == "EVENT":
            ((what, value),) = _facts(state)
            _tell(found, Aspect(state.cluster, "Event", name, what), seen, value)
            continue
        now = dict(_facts(state))
        gone = (what for what in seen if what not in now and state.event != "DELETED" and _is_followed(state, what))
        for what in (*now, *gone):
            _tell(found, Aspect(state.cluster, state.kind, name, what), seen, now.get(what, ABSENT))
        if state.event == "DELETED":
            seen.clear()
            seen["exists"] = "gone"
    return found


def _is_followed(state: State, what: str) -> bool:
    """Labels, annotations and owners of a pod are recorded once."""
    return state.kind != "Pod" or what.split()[0] not in ("label", "annotation", "owner")


def _place(state: State) -> tuple[str, str, str]:
    name = (state.object.get("metadata") or {}).get("name") or state.object.get("object")
    return state.cluster, state.kind, str(name)


def _tell(found: History, aspect: Aspect, seen: dict[str, str], value: str) -> None:
    if seen.get(aspect.what, ABSENT) != value:
        values = found.setdefault(aspect, [])
        values.append(value)
        if aspect.what.startswith("condition ") and value != ABSENT and _is_ordered(aspect):
            brief = value.partition(":")[0]
            found.setdefault(aspect._replace(what=ORDER), []).append(f"{aspect.what.split()[1]}={brief}")
    seen[aspect.what] = value


def _is_ordered(aspect: Aspect) -> bool:
    """Readiness is told meanwhile; what a Deployment says first comes with one write or with two."""
    if aspect.kind == "Deployment":
        return False
    return aspect.kind != "Workload" or aspect.what.split()[1] in _LAST_OF_WORKLOAD


def _facts(state: State) -> Iterator[tuple[str, str]]:
    if state.event == "EVENT":
        about = state.object
        text = f"{about.get('type')} {about.get('reason')}: {masked(str(about.get('message')))}"
        yield str(about.get("reason")), f"{text} (by {about.get('reportingController')})"
        return
    if state.event == "DELETED":
        yield "exists", "gone"
        return
    yield "exists", "yes"
    metadata = state.object.get("metadata") or {}
    if state.kind == "Pod":
        yield from _metadata_facts(metadata if state.event == "ADDED" else {"finalizers": metadata.get("finalizers")})
        yield from _pod_facts(state.object)
        return
    yield from _metadata_facts(metadata)
    yield from _leaves("spec", state.object.get("spec") or {})
    yield from _status_facts(state.kind, state.object.get("status") or {})


def _metadata_facts(metadata: Obj) -> Iterator[tuple[str, str]]:
    for part in ("labels", "annotations"):
        for name, value in (metadata.get(part) or {}).items():
            if name in _OTHERS_LABELS:
                continue
            is_hash = name in ("pod-template-hash", "controller-revision-hash")
            yield f"{part.removesuffix('s')} {name}", "<hash>" if is_hash else masked(str(value))
    for name in sorted(metadata.get("finalizers") or ()):
        yield f"finalizer {name}", "yes"
    for owner in metadata.get("ownerReferences") or ():
        yield (
            f"owner {owner.get('kind')}/{masked(str(owner.get('name')))}",
            _text({name: value for name, value in owner.items() if name not in ("uid", "kind", "name")}),
        )


def _pod_facts(pod: Obj) -> Iterator[tuple[str, str]]:
    """Pods are recorded in brief; what the player of pods writes besides the phase is not the point."""
    yield "phase", str(pod.get("phase") or (pod.get("status") or {}).get("phase"))
    for gate in pod.get("schedulingGates") or (pod.get("spec") or {}).get("schedulingGates") or ():
        yield f"gate {gate.get('name') if isinstance(gate, dict) else gate}", "yes"


def _status_facts(kind: str, status: Obj) -> Iterator[tuple[str, str]]:
    entries = status.get("conditions") or []
    for entry in entries:
        text = masked(f"{entry.get('status')}/{entry.get('reason')}: {entry.get('message')}")
        yield f"condition {entry.get('type')}", text
    for entry in status.get("admissionChecks") or []:
        count = f" (retry {entry['retryCount']})" if entry.get("retryCount") else ""
        yield f"check {entry.get('name')}", f"{entry.get('state')}: {masked(str(entry.get('message')))}{count}"
    for field in ("clusterName", "nominatedClusterNames", "reclaimablePods"):
        if field in status:
            yield field, _text(status[field]) if status[field] else ABSENT
    yield from _leaves("status", {name: value for name, value in status.items() if name not in _TOLD})


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every value inside, with the path to it."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(f"{path}.{name}", item)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _leaves(f"{path}[{_element(item, position)}]", item)
    elif _ELSEWHERE.search(path):
        return
    elif path == "status.accumulatedPastExecutionTimeSeconds":
        yield path, "<seconds>"
    elif value is not None:
        yield path, masked(value) if isinstance(value, str) else json.dumps(value)


def _element(item: Any, position: int) -> str:
    """How an element of a list is called: by its name where it has one."""
    return str(item["name"]) if isinstance(item, dict) and isinstance(item.get("name"), str) else str(position)


def _text(value: Any) -> str:
    """A value in one form: keys sorted, and names too, since nobody promises their order."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = sorted(value)
    return json.dumps(value, sort_keys=True)
