"""The copy of a Workload on a worker: what it carries over, whose it is, and the gate that orders preemption.

With orchestrated preemption, of the workers that could take a Workload only by preempting one at a time may. Copies carry a
closed gate, so no worker preempts by itself; one that would have to says so. The one that has waited longest is opened, the
next not before that one has had its time. A worker that has room needs no gate and wins meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from corral.core import conditions
from corral.core.meta import (
    Obj,
    annotations_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    with_spec,
    with_status,
)
from corral.core.timestamps import parse_time
from corral.kinds.kueue import names

GATE: Final = names.MULTIKUEUE_CONTROLLER
SETTLE_S: Final = 2.0
"""How long a worker has to be blocked before it may preempt: one that has room, or is getting some, comes first."""
ALONE_S: Final = 300.0
"""How long one worker may preempt before the next is let."""


def remote_workload(workload: Obj, origin: str) -> Obj:
    """The object to create on a worker: same name, labels, annotations and spec, marked with where it came from."""
    labels = {name: value for name, value in labels_of(workload).items() if name != names.JOB_UID}
    metadata: Obj = {
        "name": name_of(workload),
        "namespace": namespace_of(workload),
        "labels": {**labels, names.MULTIKUEUE_ORIGIN: origin},
    }
    annotations = {k: v for k, v in annotations_of(workload).items() if not k.startswith("corral.dev/")}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "metadata": metadata,
        "spec": spec_of(workload),
    }


def has_origin(obj: Obj, origin: str) -> bool:
    """Whether an object on a worker was made by this manager; nothing else on a worker is ever touched."""
    return labels_of(obj).get(names.MULTIKUEUE_ORIGIN) == origin


class Opening(NamedTuple):
    """The worker whose gate is to be opened, if any, and when to look again."""

    cluster: str = ""
    again_after: float | None = None


def gated(copy: Obj) -> Obj:
    """A copy that may not preempt by itself; gates of the manager's own stay on the manager."""
    return with_spec(copy, {**spec_of(copy), "preemptionGates": [{"name": GATE}]})


def next_opening(copies: Mapping[str, Obj], now: float) -> Opening:
    """Which of the blocked copies may preempt now."""
    blocked = [
        (_since(entry), cluster)
        for cluster, copy in copies.items()
        if not _is_open(copy) and (entry := conditions.find(copy, names.BLOCKED_ON_PREEMPTION_GATES)) is not None
        if entry.get("status") == "True"
    ]
    if not blocked:
        return Opening()
    left = max((_since(_gate(copy)) + ALONE_S - now for copy in copies.values() if _is_open(copy)), default=0.0)
    if left <= 0 and len(copies) > 1:
        left = min(blocked)[0] + SETTLE_S - now
    return Opening(again_after=left) if left > 0 else Opening(min(blocked)[1], ALONE_S)


def opened(copy: Obj, now: str) -> Obj:
    """The copy with our gate open."""
    mine = {"name": GATE, "position": "Open", "lastTransitionTime": now}
    others = [gate for gate in status_of(copy).get("preemptionGates") or () if gate.get("name") != GATE]
    return with_status(copy, {**status_of(copy), "preemptionGates": [*others, mine]})


def _gate(copy: Obj) -> Obj:
    gates = status_of(copy).get("preemptionGates") or ()
    return next((gate for gate in gates if gate.get("name") == GATE), {})


def _is_open(copy: Obj) -> bool:
    return _gate(copy).get("position") == "Open"


def _since(entry: Obj) -> float:
    time = entry.get("lastTransitionTime")
    return parse_time(str(time)) if time else 0.0
