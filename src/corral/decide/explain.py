"""Why a job waits, where it runs, or how it ended: one Workload and its surroundings into sentences.

The answer starts with the one thing that matters; what follows is the evidence, most recent first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from corral.core import conditions
from corral.core.meta import Obj, name_of, spec_of, status_of


@dataclass(frozen=True, slots=True)
class Explanation:
    """A headline and the facts behind it."""

    headline: str
    facts: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known around a Workload. `position` counts from 0 within the ClusterQueue, None when it is not pending."""

    local_queue: Obj | None = None
    cluster_queue: Obj | None = None
    position: int | None = None
    events: Sequence[Obj] = field(default_factory=tuple)


def explain(workload: Obj, around: Surroundings) -> Explanation:
    """The state of a Workload in words."""
    facts = (*_checks(workload), *_events(around.events))
    finished = conditions.find(workload, "Finished")
    if finished and finished.get("status") == "True":
        return Explanation(f"Finished ({finished.get('reason')}): {finished.get('message') or 'no message'}", facts)
    if spec_of(workload).get("active") is False:
        why = _message(workload, "Evicted") or "it was deactivated"
        return Explanation(f"Deactivated: {why}", facts, "Set spec.active to true to queue it again.")
    if conditions.is_true(workload, "Admitted"):
        return _running(workload, facts)
    if conditions.is_true(workload, "QuotaReserved"):
        return _reserved(workload, facts)
    return _waiting(workload, around, facts)


def _running(workload: Obj, facts: tuple[str, ...]) -> Explanation:
    cluster = status_of(workload).get("clusterName")
    where = f"on cluster {cluster}" if cluster else "on this cluster"
    admission = status_of(workload).get("admission") or {}
    ready = conditions.find(workload, "PodsReady")
    state = "running" if ready and ready.get("status") == "True" else "admitted, pods are starting"
    flavors = [
        f"pod set {entry.get('name')}: {', '.join(f'{r} from {f}' for r, f in (entry.get('flavors') or {}).items())}"
        for entry in admission.get("podSetAssignments") or []
    ]
    return Explanation(
        f"{state.capitalize()} {where} with quota of {admission.get('clusterQueue')}.", (*flavors, *facts)
    )


def _reserved(workload: Obj, facts: tuple[str, ...]) -> Explanation:
    queue = (status_of(workload).get("admission") or {}).get("clusterQueue")
    pending = [
        state for state in status_of(workload).get("admissionChecks") or [] if state.get("state") not in ("Ready", None)
    ]
    asked = status_of(workload).get("nominatedClusterNames") or []
    if pending:
        first = pending[0]
        text = f"Quota is reserved in {queue}; waiting for admission check {first.get('name')}"
        text += f": {first.get('message')}" if first.get("message") else "."
        asked_fact = (f"asked clusters: {', '.join(asked)}",) if asked else ()
        return Explanation(text, (*asked_fact, *facts))
    return Explanation(f"Quota is reserved in {queue}; admission is being completed.", facts)


def _waiting(workload: Obj, around: Surroundings, facts: tuple[str, ...]) -> Explanation:
    queue = spec_of(workload).get("queueName") or ""
    if not queue:
        return Explanation("Not queued: it names no queue.", facts, "Set the label kueue.x-k8s.io/queue-name.")
    if around.local_queue is None:
        return Explanation(f"Waiting: LocalQueue {queue} does not exist.", facts, f"Create LocalQueue {queue}.")
    target = spec_of(around.local_queue).get("clusterQueue")
    if around.cluster_queue is None:
        return Explanation(f"Waiting: ClusterQueue {target} does not exist.", facts, f"Create ClusterQueue {target}.")
    active = conditions.find(around.cluster_queue, "Active")
    if active and active.get("status") == "False":
        return Explanation(f"Waiting: ClusterQueue {target} is not active: {active.get('message')}", facts)
    why = _message(workload, "QuotaReserved") or "it has not been looked at yet"
    place = () if around.position is None else (f"position {around.position + 1} in ClusterQueue {target}",)
    evicted = _message(workload, "Evicted")
    before = (f"evicted before: {evicted}",) if evicted else ()
    return Explanation(f"Waiting in {name_of(around.local_queue)}: {why}", (*place, *before, *facts))


def _message(workload: Obj, kind: str) -> str:
    return str((conditions.find(workload, kind) or {}).get("message") or "")


def _checks(workload: Obj) -> list[str]:
    states = status_of(workload).get("admissionChecks") or []
    return [
        f"check {state.get('name')}: {state.get('state')}" + (f" ({state['message']})" if state.get("message") else "")
        for state in states
    ]


def _events(events: Sequence[Obj]) -> list[str]:
    ordered = sorted(
        events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), reverse=True
    )
    return [
        f"{event.get('lastTimestamp') or event.get('eventTime')} {event.get('reason')}: {event.get('message')}"
        for event in ordered[:5]
    ]
