"""Why a job waits, where it runs, or how it ended: one Workload and its surroundings into sentences.

The answer starts with the one thing that matters; what follows is the evidence, most recent first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.core import conditions
from corral.core.budget import SET_ASIDE
from corral.core.meta import Key, Obj, name_of, namespace_of, spec_of, status_of
from corral.decide.dispatch.reasons import WorkerAnswer
from corral.decide.queueing.explanation import Explanation as Known
from corral.inspect import advice
from corral.kinds.kueue import names
from corral.workload import workload as wl
from corral.workload.waiting_reasons import Obstacle, is_stopped, problem_of_queues

NOT_MANAGED = "The owner is not managed by Kueue"
NO_ADAPTER = "No multikueue adapter found"
REACTIVATE = "`corral workload resume {name}` queues it again."
BY_SOMEBODY = "The workload is deactivated"
"""What the eviction says when nothing but a user did it."""
RESUBMIT = (
    "Delete the job and create it again with the managedBy named above. An embedded manager sets it by itself when a job "
    "is created in a queue that dispatches; with `corral controllers run` the manifest has to."
)

LOST = "Nothing to do yet: it is dispatched anew if the worker stays away (multiKueue.workerLostTimeout, 15 minutes by default)."
NOT_DISPATCHABLE = "This kind cannot be dispatched: create it on a worker, or name a queue without the check."

MAX_EVENTS = 5
MAX_NAMES = 5


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
    is missing. `worker` is the MultiKueueCluster that runs it. `jobs` names jobs by the uids of their Workloads, `owners` by
    their keys. `known` is what the scheduler says, where it can be asked; without it there are the conditions and events.
    `missing` are names that the ClusterQueue refers to in vain, by kind; `checks` are its AdmissionChecks that are there.
    """

    local_queue: Obj | None = None
    cluster_queue: Obj | None = None
    position: int | None = None
    events: Sequence[Obj] = field(default_factory=tuple)
    queues: Sequence[Obj] = field(default_factory=tuple)
    worker: Obj | None = None
    jobs: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[Key, str] = field(default_factory=dict)
    known: Known | None = None
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    checks: Sequence[Obj] = field(default_factory=tuple)

    @property
    def workers(self) -> tuple[WorkerAnswer, ...]:
        return self.known.workers if self.known is not None else ()


def explain(workload: Obj, evidence: Evidence) -> Explanation:
    """The state of a Workload in words; evidence that would only repeat what was said is left out."""
    found = _state(workload, evidence)
    found = replace(found, facts=(*found.facts, *set_aside(workload)))
    said = "\n".join((found.headline, *found.facts))
    facts = (*found.facts, *_checks(workload, said), *_events(evidence.events, said))
    return replace(
        found,
        headline=named(found.headline, evidence.jobs),
        facts=tuple(named(fact, evidence.jobs) for fact in facts),
    )


def set_aside(obj: Obj) -> tuple[str, ...]:
    """Why a controller leaves an object alone for a while, if one does."""
    found = conditions.find(obj, SET_ASIDE)
    return (f"set aside: {found.get('message')}",) if found is not None and found.get("status") == "True" else ()


UID = re.compile(r"\(UID: (?P<uid>[^,)]+)(?:, JobUID: [^)]*)?\)")


def named(text: str, jobs: Mapping[str, str]) -> str:
    """A text with the names of jobs where it has the uids of their Workloads."""
    return UID.sub(lambda found: f"({jobs[found['uid']]})" if found["uid"] in jobs else found[0], text)


def _state(workload: Obj, evidence: Evidence) -> Explanation:
    finished = conditions.find(workload, names.FINISHED)
    if finished and wl.is_finished(workload):
        return Explanation(f"Finished ({finished.get('reason')}): {finished.get('message') or 'no message'}")
    if not wl.is_active(workload):
        why = _message(workload, names.EVICTED)
        if why in ("", BY_SOMEBODY):
            why = "somebody cancelled or stopped it"
        return Explanation(f"Deactivated: {why}", advice=_remedy(why, workload))
    if wl.is_admitted(workload):
        return _running(workload, evidence.worker)
    if wl.has_quota(workload):
        return _reserved(workload, evidence.workers)
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
    admission = wl.admission_of(workload)
    state = "running" if conditions.is_true(workload, names.PODS_READY) else "admitted, pods are starting"
    facts = [_assigned(entry) for entry in admission.get("podSetAssignments") or []]
    since = (conditions.find(workload, names.ADMITTED) or {}).get("lastTransitionTime")
    if since:
        facts.append(f"admitted since {since}")
    headline = f"{state.capitalize()} {where} with quota of {admission.get('clusterQueue')}."
    lacking = conditions.find(workload, names.DEPENDENCIES) or {}
    if cluster and lacking.get("status") == "False":
        facts.insert(0, str(lacking.get("message")))
    lost = conditions.find(worker, names.ACTIVE) if worker else None
    if lost is None or lost.get("status") == "True":
        return Explanation(headline, tuple(facts))
    away = f"cluster {cluster} cannot be reached since {lost.get('lastTransitionTime')}: {lost.get('message')}"
    return Explanation(headline, (away, *facts), LOST)


def _assigned(entry: Obj) -> str:
    """What one pod set was given: how many pods, and how much of which flavor."""
    count, usage = entry.get("count"), entry.get("resourceUsage") or {}
    pods = "" if count is None else f", {count} pod{'s' if count != 1 else ''}"
    amounts = [
        " ".join(filter(None, (resource, str(usage.get(resource, "")), "from", flavor)))
        for resource, flavor in (entry.get("flavors") or {}).items()
    ]
    return f"pod set {entry.get('name')}{pods}: {', '.join(amounts)}"


def _reserved(workload: Obj, answers: Sequence[WorkerAnswer]) -> Explanation:
    queue = wl.cluster_queue_of(workload)
    pending = [state for state in wl.check_states_of(workload) if state.get("state") not in (names.READY, None)]
    asked = status_of(workload).get("nominatedClusterNames") or []
    if not pending:
        return Explanation(f"Quota is reserved in {queue}; admission is being completed.")
    check, message = pending[0].get("name"), str(pending[0].get("message") or "")
    text = f"Quota is reserved in {queue}; waiting for admission check {check}"
    said = [answer for answer in answers if answer.why]
    if not any(answer.worker for answer in said):
        whom = (f"asked clusters: {', '.join(asked)}",) if asked else ()
        return Explanation(text + (f": {message}" if message else "."), whom)
    silent = [name for name in asked if name not in {answer.worker for answer in said}]
    facts = grouped(said)
    if silent:
        facts.append(f"{', '.join(silent)}: asked, no answer yet")
    advised = "" if silent else advice.for_answers(said)
    return Explanation(f"{text}: no worker takes it yet.", tuple(facts), advised)


def grouped(answers: Sequence[WorkerAnswer]) -> list[str]:
    """A line for each answer, of all the workers that gave it."""
    workers: dict[str, list[str]] = {}
    for answer in answers:
        if answer.why:
            workers.setdefault(answer.why, []).append(answer.worker)
    return [f"{', '.join(who)}: {why}" if any(who) else why for why, who in workers.items()]


def _waiting(workload: Obj, evidence: Evidence) -> Explanation:
    queue = wl.queue_of(workload)
    if not queue:
        return Explanation("Not queued: it names no queue.", advice=f"Set the label {names.QUEUE_NAME}.")
    problem = problem_of_queues(workload, evidence.local_queue, evidence.cluster_queue)
    if problem is None:
        return _queued(workload, evidence)
    if problem.obstacle is Obstacle.NO_LOCAL_QUEUE or evidence.local_queue is None:
        return _no_such_queue(workload, queue, evidence.queues)
    if problem.obstacle is Obstacle.LOCAL_QUEUE_STOPPED:
        lifted = f"`corral queue resume localqueue {_argument(evidence.local_queue)}` lets it admit again."
        return Explanation(f"Waiting: LocalQueue {queue} is stopped.", advice=lifted)
    target = spec_of(evidence.local_queue).get("clusterQueue")
    if problem.obstacle is Obstacle.NO_CLUSTER_QUEUE or evidence.cluster_queue is None:
        return Explanation(f"Waiting: ClusterQueue {target} does not exist.", advice=f"Create ClusterQueue {target}.")
    return _inactive(evidence.cluster_queue, str(target), evidence)


def _inactive(queue: Obj, name: str, evidence: Evidence) -> Explanation:
    """A ClusterQueue that admits nobody, and what is wrong with the checks it names."""
    why = _message(queue, names.ACTIVE) or "it is stopped"
    headline = f"Waiting: ClusterQueue {name} is not active: {why}"
    if is_stopped(queue):
        return Explanation(headline, advice=f"`corral queue resume clusterqueue {name}` lets it admit again.")
    inactive = [check for check in evidence.checks if not conditions.is_true(check, names.ACTIVE)]
    facts = [
        f"AdmissionCheck {name_of(check)} is not active: {_message(check, names.ACTIVE) or 'nothing speaks for it yet'}"
        for check in inactive
    ]
    return Explanation(
        headline, tuple(facts), advice.for_inactive_queue(evidence.missing, [name_of(check) for check in inactive])
    )


def _queued(workload: Obj, evidence: Evidence) -> Explanation:
    """It stands in an open queue: for what, behind whom, and who has what it waits for."""
    held = conditions.find(workload, names.QUOTA_RESERVED) or {}
    unseen = "others are before it" if evidence.position else "it has not been looked at yet"
    why = str(held.get("message") or "") or unseen
    if advice.is_too_large_for_all(evidence.workers):
        why = f"no worker can ever take it; {why}"
    facts = [*_place(evidence), *_holders(evidence), *grouped(evidence.workers)]
    evicted = _message(workload, names.EVICTED)
    if evicted and evicted not in why:
        facts.append(f"evicted before: {evicted}")
    advised = advice.for_waiting(evidence.known, str(held.get("reason") or ""))
    return Explanation(f"Waiting in {wl.queue_of(workload)}: {why}", tuple(facts), advised)


def _place(evidence: Evidence) -> list[str]:
    if evidence.position is None:
        return []
    queue = spec_of(evidence.local_queue or {}).get("clusterQueue")
    if not evidence.position:
        return [f"it is the next in ClusterQueue {queue}"]
    count = f"{evidence.position} {'workload is' if evidence.position == 1 else 'workloads are'}"
    ahead = evidence.known.ahead if evidence.known is not None else ()
    listed = ", ".join(_name(key, evidence.owners) for key in ahead[-MAX_NAMES:])
    named = f": {'… ' if len(ahead[-MAX_NAMES:]) < evidence.position else ''}{listed}" if listed else ""
    return [f"{count} before it in ClusterQueue {queue}{named}"]


def _holders(evidence: Evidence) -> list[str]:
    """Who has the quota it waits for, flavor by flavor."""
    return [
        f"{short.resource} of {short.flavor}: it asks for {short.requested}, {short.available} of {short.maximum} is free; "
        f"{', '.join(f'{_name(holder.key, evidence.owners)} has {holder.amount}' for holder in short.held_by)}"
        for short in (evidence.known.shortages if evidence.known is not None else ())
        if short.held_by
    ]


def _name(key: Key, owners: Mapping[Key, str]) -> str:
    return owners.get(key, f"Workload {key}")


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
    create = f"Create the job again with one of them in the label {names.QUEUE_NAME}, or create" if here else "Create"
    return Explanation(headline, tuple(facts) if namespace else (), f"{create} LocalQueue {name}.")


def _message(obj: Obj, kind: str) -> str:
    return str((conditions.find(obj, kind) or {}).get("message") or "")


def _checks(workload: Obj, said: str) -> list[str]:
    found = []
    for state in wl.check_states_of(workload):
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
