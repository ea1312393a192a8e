"""Why a workload is where it is, as values, and as the API objects that carry them from the scheduler to whoever asks.

This module knows nothing of the scheduler's state: `corral explain` reads explanations without loading it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from corral.core.meta import Key, Obj, key_of
from corral.core.resource import Resource
from corral.decide.dispatch.reasons import WorkerAnswer

NAMESPACE_NOT_SELECTED: Final = "NamespaceNotSelected"
"""Detail: the ClusterQueue is not open to the namespace."""

GROUP = "visibility.corral.dev"
VERSION = "v1alpha1"
EXPLANATIONS = Resource(GROUP, VERSION, "workloadexplanations", "WorkloadExplanation")


class Holder(msgspec.Struct, frozen=True):
    """A workload that has some of the quota another one waits for."""

    key: Key
    amount: str


class Shortage(msgspec.Struct, frozen=True):
    """One column of quota a workload waits for."""

    flavor: str
    resource: str
    requested: str
    available: str
    maximum: str
    """The most the queue could ever use."""
    held_by: tuple[Holder, ...] = ()
    """Who has it, in this queue and in those it shares quota with; the largest first, and not all of very many."""


class Explanation(msgspec.Struct, frozen=True):
    """Why a workload is where it is."""

    key: Key
    state: str
    """finished, admitted, quotaReserved, pending, or inadmissible."""
    cluster_queue: str
    position: int | None
    """0-based place in its ClusterQueue while pending."""
    reason: str
    message: str
    blocked_by: tuple[Key, ...] = ()
    """Workloads ahead of it that keep a StrictFIFO queue, or that it preempts and waits for."""
    shortages: tuple[Shortage, ...] = ()
    detail: str = ""
    """The obstacle, or the granular reason of the last verdict: what to do about it depends on this and on no message."""
    ahead: tuple[Key, ...] = ()
    """Those just before it in its ClusterQueue, nearest last."""
    unavailable: tuple[str, ...] = ()
    """Resources it asks for and the queue has no quota of."""
    workers: tuple[WorkerAnswer, ...] = ()
    """On a manager: what its workers say."""


def to_obj(explanation: Explanation, shows: Callable[[Key], bool] = lambda key: True) -> Obj:
    """The object that says it; other workloads are named in it as far as `shows` allows."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": EXPLANATIONS.kind,
        "metadata": {"name": explanation.key.name, "namespace": explanation.key.namespace},
        "state": explanation.state,
        "clusterQueue": explanation.cluster_queue,
        **({} if explanation.position is None else {"position": explanation.position}),
        "reason": explanation.reason,
        "message": explanation.message,
        "detail": explanation.detail,
        "blockedBy": [_ref(key) for key in explanation.blocked_by if shows(key)],
        "ahead": [_ref(key) for key in explanation.ahead if shows(key)],
        "unavailableResources": list(explanation.unavailable),
        "shortages": [_shortage(each, shows) for each in explanation.shortages],
        "workers": workers_to_obj(explanation.workers),
    }


def workers_to_obj(answers: tuple[WorkerAnswer, ...]) -> list[Obj]:
    return [msgspec.to_builtins(answer) for answer in answers]


def _ref(key: Key) -> Obj:
    return {"namespace": key.namespace, "name": key.name}


def _shortage(shortage: Shortage, shows: Callable[[Key], bool]) -> Obj:
    return {
        "flavor": shortage.flavor,
        "resource": shortage.resource,
        "requested": shortage.requested,
        "available": shortage.available,
        "maximum": shortage.maximum,
        "heldBy": [{**_ref(holder.key), "amount": holder.amount} for holder in shortage.held_by if shows(holder.key)],
    }


def from_obj(obj: Obj) -> Explanation:
    """What an object of a server says; fields it does not know yet are empty."""
    return Explanation(
        key=key_of(obj),
        state=str(obj.get("state", "")),
        cluster_queue=str(obj.get("clusterQueue", "")),
        position=obj.get("position"),
        reason=str(obj.get("reason", "")),
        message=str(obj.get("message", "")),
        detail=str(obj.get("detail", "")),
        blocked_by=_keys(obj.get("blockedBy")),
        ahead=_keys(obj.get("ahead")),
        unavailable=tuple(obj.get("unavailableResources") or ()),
        shortages=tuple(_shortage_of(each) for each in obj.get("shortages") or ()),
        workers=msgspec.convert(obj.get("workers") or [], tuple[WorkerAnswer, ...]),
    )


def _keys(refs: list[Obj] | None) -> tuple[Key, ...]:
    return tuple(Key(ref["namespace"], ref["name"]) for ref in refs or ())


def _shortage_of(obj: Obj) -> Shortage:
    held = tuple(Holder(Key(one["namespace"], one["name"]), one["amount"]) for one in obj.get("heldBy") or ())
    return Shortage(obj["flavor"], obj["resource"], obj["requested"], obj["available"], obj["maximum"], held)
