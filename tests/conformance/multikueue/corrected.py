"""A recording as it should have gone: what is known to be an upstream defect is taken out, class by class.

Each rule looks for a situation, never for a scenario, and is a row of `docs/differences.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from multikueue.facts import Obj, State, masked
from multikueue.words import losing

MANAGER = "manager"
MANAGED_BY = "kueue.x-k8s.io/multikueue"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
PARENT = "kueue.x-k8s.io/pod-suspending-parent"
LATE_EVENT_MS = 1500
BRIEF_MS = 2500
_NO_KIND = re.compile(r"no matches for kind")


@dataclass
class Expectation:
    """What to compare a run with, and where the run may tell more than the recording."""

    states: list[State]
    goes_on: frozenset[str] = frozenset()
    """Clusters on which upstream came to a halt that is a defect, while Corral goes on."""
    lost_kind: frozenset[str] = frozenset()
    """Workers upstream gave up as a whole because one kind was missing there."""
    run_twice: frozenset[str] = frozenset()
    """Jobs on the manager that upstream's own operator ran there too, although somebody else manages them."""
    stateful: frozenset[str] = frozenset()
    """StatefulSets, whose status comes back here, and their Workloads, which upstream takes a finalizer off at once."""
    served: frozenset[str] = frozenset()
    """Workloads of Deployments' pods, which are asked for one after the other here, to stay together."""
    ends: tuple[State, ...] = ()
    """The last states of objects whose story is told otherwise here, but ends alike."""


def expectation(recorded: list[State], steps: list[Obj]) -> Expectation:
    """The recording without upstream's defects."""
    states = _without_early_copies(recorded)
    states = _with_the_live_run(states)
    states, run_twice = _without_local_children(states)
    lost_kind = frozenset(_clusters_without_kind(states)) | frozenset(_clusters_losing_kind(steps))
    return Expectation(
        _without_lost_kinds(states, lost_kind),
        _halted(recorded),
        lost_kind,
        run_twice,
        served=frozenset(_served(states)),
        stateful=frozenset(_stateful(states)),
        ends=tuple(_ends_of_lost_kinds(states, lost_kind)),
    )


# Following objects through a log


@dataclass
class _Life:
    """One object from its creation to its deletion."""

    cluster: str
    kind: str
    name: str
    begin: float
    end: float = float("inf")
    states: list[int] = field(default_factory=list)
    conditions: dict[str, str] = field(default_factory=dict)
    was_false: bool = False
    annotations: Obj = field(default_factory=dict)
    owners: list[str] = field(default_factory=list)
    spec: Obj = field(default_factory=dict)
    status: Obj = field(default_factory=dict)
    deleting: bool = False


def _name(state: State) -> str:
    return str((state.object.get("metadata") or {}).get("name", ""))


def _lives(states: list[State]) -> list[_Life]:
    found: list[_Life] = []
    open_: dict[tuple[str, str, str], _Life] = {}
    for index, state in enumerate(states):
        if state.event == "EVENT":
            continue
        identity = (state.cluster, state.kind, _name(state))
        life = open_.get(identity)
        if life is None:
            life = open_[identity] = _Life(*identity, begin=state.t)
            found.append(life)
        life.states.append(index)
        if state.event == "DELETED":
            life.end = state.t
            del open_[identity]
        else:
            _follow(life, state)
    return found


def _follow(life: _Life, state: State) -> None:
    metadata = state.object.get("metadata") or {}
    life.annotations = {**life.annotations, **(metadata.get("annotations") or {})}
    life.owners = [str(owner.get("name")) for owner in metadata.get("ownerReferences") or []] or life.owners
    life.spec = state.object.get("spec") or {}
    life.status = state.object.get("status") or {}
    life.deleting = life.deleting or bool(metadata.get("deletionTimestamp"))
    for entry in (state.object.get("status") or {}).get("conditions") or []:
        life.conditions[entry["type"]] = entry["status"]
        life.was_false |= entry["status"] == "False" and entry["type"] == "QuotaReserved"


def _managed_workloads(states: list[State]) -> Iterator[tuple[State, dict[str, _Life]]]:
    """Every state, with the manager's Workloads as they are before it."""
    workloads: dict[str, _Life] = {}
    for state in states:
        yield state, workloads
        if state.cluster == MANAGER and state.kind == "Workload" and state.event != "EVENT":
            name = _name(state)
            if state.event == "DELETED":
                workloads.pop(name, None)
            else:
                _follow(workloads.setdefault(name, _Life(MANAGER, "Workload", name, state.t)), state)


def without_lives(states: list[State], dropped: Callable[[_Life], bool]) -> list[State]:
    """The log without some objects from their creation to their deletion."""
    gone = {index for life in _lives(states) if dropped(life) for index in life.states}
    return [state for index, state in enumerate(states) if index not in gone]


# No copies are made before an eviction is over


def _without_early_copies(states: list[State]) -> list[State]:
    early: set[tuple[str, str, float]] = set()
    for state, workloads in _managed_workloads(states):
        if state.cluster == MANAGER or state.kind != "Workload" or state.event != "ADDED":
            continue
        local = workloads.get(_name(state))
        if local and local.conditions.get("Evicted") == "True" and local.conditions.get("QuotaReserved") == "True":
            early.add((state.cluster, _name(state), state.t))
    dropped = [life for life in _lives(states) if (life.cluster, life.name, life.begin) in early]
    for copy in dropped:
        states = _untouched_by(states, copy)
    return _without_lives(states, dropped) if dropped else states


def _untouched_by(states: list[State], copy: _Life) -> list[State]:
    """The log as if `copy` had not been there for a job that was there before it."""
    specs: dict[str, Obj] = {}
    result = []
    for state in states:
        metadata = state.object.get("metadata") or {}
        is_job = state.cluster == copy.cluster and (metadata.get("annotations") or {}).get(PREBUILT) == copy.name
        if is_job and state.t <= copy.begin:
            specs[_name(state)] = state.object.get("spec") or {}
        elif is_job and state.t <= copy.end and _name(state) in specs:
            state = state._replace(object={**state.object, "spec": specs[_name(state)]})
        result.append(state)
    return result


def _without_lives(states: list[State], copies: list[_Life]) -> list[State]:
    """The log without these copies, the jobs and pods that ran under them, and the events about them."""
    gone: set[int] = set()
    lives = _lives(states)
    for copy in copies:
        during = [
            life
            for life in lives
            if life.cluster == copy.cluster and life.kind != "Workload" and copy.begin <= life.begin <= copy.end
        ]
        jobs = [life for life in during if life.annotations.get(PREBUILT) == copy.name]
        pods = [life for life in during if any(owner == job.name for job in jobs for owner in life.owners)]
        for life in (copy, *jobs, *pods):
            gone.update(life.states)
        about = {copy.name, *(life.name for life in (*jobs, *pods))}
        gone.update(_events(states, copy, about))
    return [state for index, state in enumerate(states) if index not in gone]


def _events(states: list[State], copy: _Life, about: set[str]) -> Iterator[int]:
    for index, state in enumerate(states):
        if state.event != "EVENT" or state.cluster != copy.cluster:
            continue
        if (
            copy.begin <= state.t <= copy.end + LATE_EVENT_MS
            and str(state.object.get("object")).split("/")[-1] in about
        ):
            yield index


# A stale copy on a returning worker never beats the live run


def _with_the_live_run(states: list[State]) -> list[State]:
    for position, (state, workloads) in enumerate(_managed_workloads(states)):
        if state.kind != "Workload" or state.event != "DELETED" or state.cluster == MANAGER:
            continue
        local = workloads.get(_name(state))
        if local is None or local.status.get("clusterName") != state.cluster or local.deleting:
            continue
        if local.conditions.get("Evicted") == "True" or local.conditions.get("Finished") == "True":
            continue
        stale = _copies_elsewhere(states[:position], state)
        if stale:
            return _as_if_kept(states, position, state, stale)
    return states


def _copies_elsewhere(before: list[State], live: State) -> list[_Life]:
    lives = [
        life for life in _lives(before) if life.end == float("inf") and life.cluster not in (MANAGER, live.cluster)
    ]
    copies = [life for life in lives if life.kind == "Workload" and life.name == _name(live)]
    jobs = [life for life in lives if life.annotations.get(PREBUILT) == _name(live)]
    pods = [life for life in lives if life.kind == "Pod" and any(job.name in life.owners for job in jobs)]
    return [*copies, *jobs, *pods] if copies else []


def _as_if_kept(states: list[State], position: int, live: State, stale: list[_Life]) -> list[State]:
    """The live run stays as it was before upstream began to take it away; the stale copy goes instead."""
    begun = live.t - LATE_EVENT_MS
    kept = [
        state
        for state in states
        if state.t < begun or (state.cluster == MANAGER and state.kind in ("MultiKueueCluster", "AdmissionCheck"))
    ]
    gone = [State(life.cluster, "DELETED", life.kind, {"metadata": {"name": life.name}}, live.t) for life in stale]
    return [*kept, *gone]


# Nobody runs a job on the manager that somebody else manages


def _without_local_children(states: list[State]) -> tuple[list[State], frozenset[str]]:
    lives = _lives(states)
    managed = {life.name for life in lives if life.cluster == MANAGER and life.spec.get("managedBy") == MANAGED_BY}
    parents, children = set(managed), set()
    for _ in range(4):
        for life in lives:
            if life.cluster == MANAGER and life.kind not in ("Workload",) and set(life.owners) & parents:
                children.add((life.kind, life.name))
                parents.add(life.name)
    if not children:
        return states, frozenset()
    twice = {
        owner
        for life in lives
        if (life.kind, life.name) in children and life.cluster == MANAGER
        for owner in life.owners
    }
    kept = [state for state in states if state.cluster != MANAGER or not _is_about(state, children)]
    return kept, frozenset(twice & managed)


def _is_about(state: State, objects: set[tuple[str, str]]) -> bool:
    if state.event != "EVENT":
        return (state.kind, _name(state)) in objects
    kind, _, name = str(state.object.get("object")).partition("/")
    return (kind, name.split("/")[-1]) in objects


# A worker that lacks one kind loses that kind only


def _clusters_without_kind(states: list[State]) -> Iterator[str]:
    for state in states:
        if state.kind == "MultiKueueCluster":
            for entry in (state.object.get("status") or {}).get("conditions") or []:
                if _NO_KIND.search(str(entry.get("message"))):
                    yield _name(state)


def _clusters_losing_kind(steps: list[Obj]) -> Iterator[str]:
    for step in steps:
        if lost := losing(step):
            yield lost


def _without_lost_kinds(states: list[State], clusters: frozenset[str]) -> list[State]:
    return [state for state in states if not _tells_of_lost_kinds(state, clusters)]


def _tells_of_lost_kinds(state: State, clusters: frozenset[str]) -> bool:
    return bool(clusters) and (
        (state.kind == "MultiKueueCluster" and _name(state) in clusters) or state.kind == "AdmissionCheck"
    )


def _ends_of_lost_kinds(states: list[State], clusters: frozenset[str]) -> Iterator[State]:
    """What is said of a worker once it has every kind: then upstream has it back."""
    last = {(state.kind, _name(state)): state for state in states if _tells_of_lost_kinds(state, clusters)}
    told = [entry for state in last.values() for entry in (state.object.get("status") or {}).get("conditions") or []]
    if all(entry["status"] == "True" and entry["reason"] == "Active" for entry in told):
        yield from last.values()


# Pods of a Deployment stay together


def _served(states: list[State]) -> Iterator[str]:
    lives = [life for life in _lives(states) if life.cluster == MANAGER]
    pods = {life.name for life in lives if life.kind == "Pod" and life.annotations.get(PARENT) == "deployment"}
    for life in lives:
        if life.kind == "Workload" and pods & set(life.owners):
            yield masked(life.name)


def _stateful(states: list[State]) -> Iterator[str]:
    for life in _lives(states):
        if life.kind == "StatefulSet":
            yield life.name
        elif life.kind == "Workload" and any("StatefulSet" in value for value in map(str, life.annotations.values())):
            yield masked(life.name)


# Where upstream halts


def _halted(states: list[State]) -> frozenset[str]:
    """The clusters whose histories may go on here: an eviction or deletion that never ends, a winner never accepted."""
    lives = _lives(states)
    everywhere = frozenset({life.cluster for life in lives})
    local = [life for life in lives if life.cluster == MANAGER and life.kind == "Workload"]
    for life in local:
        evicted = life.conditions.get("Evicted") == "True" and life.conditions.get("QuotaReserved") == "True"
        if life.end == float("inf") and (life.deleting or evicted):
            return everywhere
    away = {
        life.name for life in lives if life.kind == "MultiKueueCluster" and life.conditions.get("Active") == "False"
    }
    for life in local:
        ran = any(
            job.annotations.get(PREBUILT) == life.name and job.spec.get("suspend") is False and job.cluster not in away
            for job in lives
            if job.cluster != MANAGER
        )
        if ran and not life.status.get("clusterName") and life.status.get("nominatedClusterNames"):
            return frozenset({MANAGER})
    return frozenset()


# Chance


def without_brief_losers(states: list[State], *, even_refused: bool = False) -> list[State]:
    """The log without copies that lost before anything came of them: whether they are made, and admitted, is chance.

    So is, `even_refused`, whether the worker had the time to say that it has no room.
    """
    lives = _lives(states)
    jobs = [life for life in lives if PREBUILT in life.annotations]
    brief = [
        life
        for life in lives
        if life.kind == "Workload"
        and life.cluster != MANAGER
        and life.end - life.begin < BRIEF_MS
        and (even_refused or not life.was_false)
        and "Evicted" not in life.conditions
        and not any(_under(job, life) for job in jobs)
    ]
    return _without_lives(states, brief) if brief else states


def _under(job: _Life, copy: _Life) -> bool:
    return (
        job.cluster == copy.cluster
        and job.annotations[PREBUILT] == copy.name
        and job.begin <= copy.end
        and job.end >= copy.begin
    )
