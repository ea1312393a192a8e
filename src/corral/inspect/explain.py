"""Why a job waits, where it runs, or how it ended: one Workload and its surroundings into sentences.

The answer starts with the one thing that matters; what follows is the evidence, most recent first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.core import conditions
from corral.core.meta import Obj, name_of, namespace_of, spec_of, status_of

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
NOT_MANAGED = "The owner is not managed by Kueue"
NO_ADAPTER = "No multikueue adapter found"
REACTIVATE = "`corral workload resume {name}` queues it again."
RESUBMIT = "Delete the job and create it again, now that its queue dispatches: managedBy is set when a job is created."

LOST = "Nothing to do yet: it is dispatched anew if the worker stays away (multiKueue.workerLostTimeout, 15 minutes by default)."
NOT_DISPATCHABLE = "This kind cannot be dispatched: create it on a worker, or name a queue without the check."

MAX_EVENTS = 5

REMEDIES = (
    (re.compile(r"missing ResourceFlavor\(s\): (?P<what>[^.]+)"), "Create ResourceFlavor {what}."),
    (re.compile(r"missing AdmissionCheck\(s\): (?P<what>[^.]+)"), "Create AdmissionCheck {what}."),
    (
        re.compile(r"> maximum capacity"),
        "It asks for more than there can ever be: ask for less, or raise the quota.",
    ),
    (
        re.compile(r"namespace doesn't match ClusterQueue selector"),
        "Use a queue that is open to this namespace, or label the namespace as the ClusterQueue's namespaceSelector asks.",
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
class Evidence:
    """What is known around a Workload. `position` counts from 0 within the ClusterQueue, None when it is not pending.

    `queues` are the LocalQueues there are, of the Workload's namespace and of others; they are only needed where its own
    is missing. `worker` is the MultiKueueCluster that runs it. `jobs` names jobs by the uids of their Workloads.
    """

    local_queue: Obj | None = None
    cluster_queue: Obj | None = None
    position: int | None = None
    events: Sequence[Obj] = field(default_factory=tuple)
    queues: Sequence[Obj] = field(default_factory=tuple)
    worker: Obj | None = None
    jobs: Mapping[str, str] = field(default_factory=dict)


def explain(workload: Obj, evidence: Evidence) -> Explanation:
    """The state of a Workload in words; evidence that would only repeat what was said is left out."""
    found = _state(workload, evidence)
    said = "\n".join((found.headline, *found.facts))
    facts = (*found.facts, *_checks(workload, said), *_events(evidence.events, said))
    return replace(
        found,
        headline=_named(found.headline, evidence.jobs),
        facts=tuple(_named(fact, evidence.jobs) for fact in facts),
    )


UID = re.compile(r"\(UID: (?P<uid>[^,)]+)(?:, JobUID: [^)]*)?\)")


def _named(text: str, jobs: Mapping[str, str]) -> str:
    """A text with the names of jobs where it has the uids of their Workloads."""
    return UID.sub(lambda found: f"({jobs[found['uid']]})" if found["uid"] in jobs else found[0], text)


def _state(workload: Obj, evidence: Evidence) -> Explanation:
    finished = conditions.find(workload, "Finished")
    if finished and finished.get("status") == "True":
        return Explanation(f"Finished ({finished.get('reason')}): {finished.get('message') or 'no message'}")
    if spec_of(workload).get("active") is False:
        why = _message(workload, "Evicted") or "it was deactivated"
        return Explanation(f"Deactivated: {why}", advice=_remedy(why, workload))
    if conditions.is_true(workload, "Admitted"):
        return _running(workload, evidence.worker)
    if conditions.is_true(workload, "QuotaReserved"):
        return _reserved(workload)
    return _waiting(workload, evidence)


def _remedy(why: str, workload: Obj) -> str:
    if NOT_MANAGED in why:
        return RESUBMIT
    return NOT_DISPATCHABLE if NO_ADAPTER in why else REACTIVATE.format(name=_argument(workload))


def _argument(obj: Obj) -> str:
    """An object as a command names it."""
    namespace = namespace_of(obj)
    return f"{name_of(obj)} -n {namespace}" if namespace not in ("", "default") else name_of(obj)


def _running(workload: Obj, worker: Obj | None) -> Explanation:
    cluster = status_of(workload).get("clusterName")
    where = f"on cluster {cluster}" if cluster else "on this cluster"
    admission = status_of(workload).get("admission") or {}
    ready = conditions.find(workload, "PodsReady")
    state = "running" if ready and ready.get("status") == "True" else "admitted, pods are starting"
    flavors = [
        f"pod set {entry.get('name')}: {', '.join(f'{r} from {f}' for r, f in (entry.get('flavors') or {}).items())}"
        for entry in admission.get("podSetAssignments") or []
    ]
    headline = f"{state.capitalize()} {where} with quota of {admission.get('clusterQueue')}."
    lost = conditions.find(worker, "Active") if worker else None
    if lost is None or lost.get("status") == "True":
        return Explanation(headline, tuple(flavors))
    away = f"cluster {cluster} cannot be reached since {lost.get('lastTransitionTime')}: {lost.get('message')}"
    return Explanation(headline, (away, *flavors), LOST)


def _reserved(workload: Obj) -> Explanation:
    queue = (status_of(workload).get("admission") or {}).get("clusterQueue")
    pending = [
        state for state in status_of(workload).get("admissionChecks") or [] if state.get("state") not in ("Ready", None)
    ]
    asked = status_of(workload).get("nominatedClusterNames") or []
    if not pending:
        return Explanation(f"Quota is reserved in {queue}; admission is being completed.")
    check, message = pending[0].get("name"), str(pending[0].get("message") or "")
    answers = _answers(message, asked)
    text = f"Quota is reserved in {queue}; waiting for admission check {check}"
    if not answers:
        whom = (f"asked clusters: {', '.join(asked)}",) if asked else ()
        return Explanation(text + (f": {message}" if message else "."), whom, _advice(message))
    answered = {name for names in answers for name in names.split(", ")}
    silent = [name for name in asked if name not in answered]
    facts = [f"{names}: {why}" for names, why in answers.items()]
    if silent:
        facts.append(f"{', '.join(silent)}: asked, no answer yet")
    return Explanation(f"{text}: no worker takes it yet.", tuple(facts), "" if silent else _advice(message))


def _answers(message: str, asked: Sequence[str]) -> dict[str, str]:
    """What the workers said, by their names, where the message of a check is made of that: `w1, w2: why; w3: why`."""
    if not asked:
        return {}
    name = "|".join(re.escape(one) for one in sorted(asked))
    found = re.compile(rf"(?:^|; )(?P<names>(?:{name})(?:, (?:{name}))*): ")
    if not found.match(message):
        return {}
    _, *parts = found.split(message)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _waiting(workload: Obj, evidence: Evidence) -> Explanation:
    queue = spec_of(workload).get("queueName") or ""
    if not queue:
        return Explanation("Not queued: it names no queue.", advice=f"Set the label {QUEUE_LABEL}.")
    if evidence.local_queue is None:
        return _no_such_queue(workload, queue, evidence.queues)
    if _is_stopped(evidence.local_queue):
        advice = f"`corral queue resume localqueue {_argument(evidence.local_queue)}` lets it admit again."
        return Explanation(f"Waiting: LocalQueue {queue} is stopped.", advice=advice)
    target = spec_of(evidence.local_queue).get("clusterQueue")
    if target and evidence.cluster_queue is None:
        return Explanation(f"Waiting: ClusterQueue {target} does not exist.", advice=f"Create ClusterQueue {target}.")
    active = conditions.find(evidence.cluster_queue or {}, "Active")
    if active and active.get("status") == "False":
        text = f"Waiting: ClusterQueue {target} is not active: {active.get('message')}"
        resume = f"`corral queue resume clusterqueue {target}` lets it admit again."
        return Explanation(text, advice=resume if _is_stopped(evidence.cluster_queue or {}) else _advice(text))
    unseen = "others are before it" if evidence.position else "it has not been looked at yet"
    why = _message(workload, "QuotaReserved") or unseen
    place = () if evidence.position is None else (_place(evidence.position, str(target)),)
    evicted = _message(workload, "Evicted")
    before = (f"evicted before: {evicted}",) if evicted and evicted not in why else ()
    return Explanation(f"Waiting in {name_of(evidence.local_queue)}: {why}", (*place, *before), _advice(why))


def _place(position: int, queue: str) -> str:
    if not position:
        return f"it is the next in ClusterQueue {queue}"
    return f"{position} {'workload is' if position == 1 else 'workloads are'} before it in ClusterQueue {queue}"


def _is_stopped(queue: Obj) -> bool:
    return spec_of(queue).get("stopPolicy") in ("Hold", "HoldAndDrain")


def _no_such_queue(workload: Obj, name: str, queues: Sequence[Obj]) -> Explanation:
    namespace = namespace_of(workload)
    headline = f"Waiting: LocalQueue {name} does not exist" + (f" in namespace {namespace}." if namespace else ".")
    here = [name_of(queue) for queue in queues if namespace_of(queue) == namespace]
    other_namespaces = sorted(namespace_of(queue) for queue in queues if name_of(queue) == name)
    facts = [
        f"namespace {namespace} has " + (f"the queue{'s'[: len(here) - 1]} {', '.join(here)}" if here else "no queue")
    ]
    if other_namespaces:
        facts.append(f"a queue of that name is in namespace {', '.join(other_namespaces)}")
    advice = f"Create the job again with one of them in the label {QUEUE_LABEL}, or create" if here else "Create"
    return Explanation(headline, tuple(facts) if namespace else (), f"{advice} LocalQueue {name}.")


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
        if f"admission check {state.get('name')}" in said:
            continue
        detail = f" ({message})" if message and message not in said else ""
        found.append(f"check {state.get('name')}: {state.get('state')}{detail}")
    return found


def _is_said(message: str, said: str) -> bool:
    return all(part in said for part in message.split("; "))


def _events(events: Sequence[Obj], said: str) -> list[str]:
    news = [event for event in events if not _is_said(str(event.get("message") or ""), said)]
    ordered = sorted(news, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    return [
        f"{event.get('lastTimestamp') or event.get('eventTime')} {event.get('reason')}: {event.get('message')}"
        for event in ordered[: -MAX_EVENTS - 1 : -1]
    ]
