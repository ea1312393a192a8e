"""Why a job waits, where it runs, or how it ended: one Workload and its surroundings into sentences.

The answer starts with the one thing that matters; what follows is the evidence, most recent first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from corral.core import conditions
from corral.core.meta import Obj, name_of, spec_of, status_of

NOT_MANAGED = "The owner is not managed by Kueue"
NO_ADAPTER = "No multikueue adapter found"
REACTIVATE = "Set spec.active to true to queue it again."
RESUBMIT = "Delete the job and create it again, now that its queue dispatches: managedBy is set when a job is created."

ELSEWHERE = "This kind cannot be dispatched: create it on a worker, or name a queue without the check."

REMEDIES = (
    (re.compile(r"missing ResourceFlavor\(s\): (?P<what>[^.]+)"), "Create ResourceFlavor {what}."),
    (re.compile(r"missing AdmissionCheck\(s\): (?P<what>[^.]+)"), "Create AdmissionCheck {what}."),
    (
        re.compile(r"> maximum capacity"),
        "It asks for more than there can ever be: ask for less, or raise the quota.",
    ),
    (
        re.compile(r"resource (?P<what>\S+) unavailable in ClusterQueue"),
        "The ClusterQueue has no quota for {what}: add it to a resource group, or do not ask for it.",
    ),
    (
        re.compile(r"specified \w*rainingRuntime must be created"),
        "Create the runtime on every worker that may run the job.",
    ),
)


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
    """The state of a Workload in words; evidence that would only repeat the headline is left out."""
    found = _state(workload, around)
    evidence = (*_checks(workload, found.headline), *_events(around.events, found.headline))
    return replace(found, facts=(*found.facts, *evidence))


def _state(workload: Obj, around: Surroundings) -> Explanation:
    finished = conditions.find(workload, "Finished")
    if finished and finished.get("status") == "True":
        return Explanation(f"Finished ({finished.get('reason')}): {finished.get('message') or 'no message'}")
    if spec_of(workload).get("active") is False:
        why = _message(workload, "Evicted") or "it was deactivated"
        return Explanation(f"Deactivated: {why}", advice=_remedy(why))
    if conditions.is_true(workload, "Admitted"):
        return _running(workload)
    if conditions.is_true(workload, "QuotaReserved"):
        return _reserved(workload)
    return _waiting(workload, around)


def _remedy(why: str) -> str:
    if NOT_MANAGED in why:
        return RESUBMIT
    return ELSEWHERE if NO_ADAPTER in why else REACTIVATE


def _running(workload: Obj) -> Explanation:
    cluster = status_of(workload).get("clusterName")
    where = f"on cluster {cluster}" if cluster else "on this cluster"
    admission = status_of(workload).get("admission") or {}
    ready = conditions.find(workload, "PodsReady")
    state = "running" if ready and ready.get("status") == "True" else "admitted, pods are starting"
    flavors = [
        f"pod set {entry.get('name')}: {', '.join(f'{r} from {f}' for r, f in (entry.get('flavors') or {}).items())}"
        for entry in admission.get("podSetAssignments") or []
    ]
    return Explanation(f"{state.capitalize()} {where} with quota of {admission.get('clusterQueue')}.", tuple(flavors))


def _reserved(workload: Obj) -> Explanation:
    queue = (status_of(workload).get("admission") or {}).get("clusterQueue")
    pending = [
        state for state in status_of(workload).get("admissionChecks") or [] if state.get("state") not in ("Ready", None)
    ]
    asked = status_of(workload).get("nominatedClusterNames") or []
    if pending:
        first = pending[0]
        text = f"Quota is reserved in {queue}; waiting for admission check {first.get('name')}"
        text += f": {first.get('message')}" if first.get("message") else "."
        has_everyone_answered = str(first.get("message") or "").count(";") + 1 >= len(asked)
        advice = _advice(text) if has_everyone_answered else ""
        return Explanation(text, (f"asked clusters: {', '.join(asked)}",) if asked else (), advice)
    return Explanation(f"Quota is reserved in {queue}; admission is being completed.")


def _waiting(workload: Obj, around: Surroundings) -> Explanation:
    queue = spec_of(workload).get("queueName") or ""
    if not queue:
        return Explanation("Not queued: it names no queue.", advice="Set the label kueue.x-k8s.io/queue-name.")
    if around.local_queue is None:
        return Explanation(f"Waiting: LocalQueue {queue} does not exist.", advice=f"Create LocalQueue {queue}.")
    target = spec_of(around.local_queue).get("clusterQueue")
    if around.cluster_queue is None:
        return Explanation(f"Waiting: ClusterQueue {target} does not exist.", advice=f"Create ClusterQueue {target}.")
    active = conditions.find(around.cluster_queue, "Active")
    if active and active.get("status") == "False":
        text = f"Waiting: ClusterQueue {target} is not active: {active.get('message')}"
        return Explanation(text, advice=_advice(text))
    why = _message(workload, "QuotaReserved") or "it has not been looked at yet"
    place = () if around.position is None else (f"position {around.position + 1} in ClusterQueue {target}",)
    evicted = _message(workload, "Evicted")
    before = (f"evicted before: {evicted}",) if evicted and evicted not in why else ()
    return Explanation(f"Waiting in {name_of(around.local_queue)}: {why}", (*place, *before), _advice(why))


def _advice(why: str) -> str:
    """What to do about a reason that does not go away by waiting; where quota may become free there is none."""
    if "insufficient unused quota" in why:
        return ""
    for pattern, remedy in REMEDIES:
        if found := pattern.search(why):
            return remedy.format(**found.groupdict())
    return ""


def _message(workload: Obj, kind: str) -> str:
    return str((conditions.find(workload, kind) or {}).get("message") or "")


def _checks(workload: Obj, said: str) -> list[str]:
    found = []
    for state in status_of(workload).get("admissionChecks") or []:
        message = str(state.get("message") or "")
        detail = f" ({message})" if message and message not in said else ""
        found.append(f"check {state.get('name')}: {state.get('state')}{detail}")
    return found


def _events(events: Sequence[Obj], said: str) -> list[str]:
    news = [event for event in events if str(event.get("message") or "") not in said]
    ordered = sorted(
        news, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), reverse=True
    )
    return [
        f"{event.get('lastTimestamp') or event.get('eventTime')} {event.get('reason')}: {event.get('message')}"
        for event in ordered[:5]
    ]
