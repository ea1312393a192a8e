"""Situations in which Corral ships with a better answer than upstream: found in a recording by what happened, never by name.

From such a moment on the recording tells another story about the objects concerned, so nothing more is compared of them:
the job, what applied it, and what reports on it. Each situation is a row of `docs/differences.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from fleet_replay.facts import Aspect, State, name_of, recorded

HUB = "hub"
SPACE = "fleet-member-"
RUN_AGAIN = "A placed Job finished and its TTL removed it"
SUSPENDED_AGAIN = "The queue started a job that is placed with `whenToApply: Always`"
FIRST_REPORT = "The Azure property provider"
RUN_AFTER_EDIT = "An update run is made right after an edit"
COUNTED_AS_USED = "Jobs placed between two heartbeats"
JUST_INSTALLED = "An object of a kind that was installed a moment ago"
_COLLECTS = re.compile(r"restart the agent of (\S+) with .*--enable-namespace-collection-in-property-provider=true")
_QUEUE = "kueue.x-k8s.io/queue-name"
_PARENT = "kubernetes-fleet.io/parent-CRP"
_NOT_YET_SNAPSHOT = "kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time"
_AFTER_EDIT_S = 5.0
_NOTED_LATE_S = 1.0
"""How long after it was made the recorder may have noted an object."""
_COUNTED_S = 60.0
"""A reservation ends with the second heartbeat at the latest."""
ACCEPTED = {
    "A selector names a version that is served but not preferred": "the resource is not found in schema",
    "A property of a resource with its own domain, `resources.kubernetes-fleet.io/available-nvidia.com/gpu`": (
        "property name resources.kubernetes-fleet.io/"
    ),
}
"""What upstream refuses and Corral accepts: rows of `docs/differences.md`, and words of the refusal."""


class OtherStory(NamedTuple):
    """From `since` on a recording is about something that does not happen here. The texts are regular expressions."""

    row: str
    since: float
    cluster: str
    kind: str
    name: str
    what: str = ".*"
    until: float = float("inf")

    def covers(self, aspect: Aspect, t: float) -> bool:
        patterns = (self.cluster, self.kind, self.name, self.what)
        return self.since <= t < self.until and all(map(_matches, patterns, aspect))


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def other_stories(recording: dict[str, Any], *, upstream: bool) -> list[OtherStory]:
    """What of a recording is not compared, and why."""
    states = list(recorded(recording["log"]))
    found = [*_selected_too_late(recording), *_first_reports(recording, states)]
    if not upstream:
        found += [story for job, since in _run_again(states) for story in _about(RUN_AGAIN, job, since)]
        found += [story for job, since in _suspended_again(states) for story in _about(SUSPENDED_AGAIN, job, since)]
        found += [*_run_after_edit(states), *_counted_as_used(states)]
    return found


# Jobs that upstream runs again, or stops again


def _jobs(states: list[State]) -> Iterator[list[State]]:
    """The states of each Job on a member."""
    found: dict[tuple[str, str, str], list[State]] = {}
    for state in states:
        if state.kind == "Job" and state.cluster != HUB:
            found.setdefault((state.cluster, state.namespace, state.name), []).append(state)
    yield from found.values()


def _run_again(states: list[State]) -> Iterator[tuple[State, float]]:
    """Jobs that had finished, were removed, and came back; and when they had finished."""
    for job in _jobs(states):
        finished: float | None = None
        gone = False
        for state in job:
            if state.obj is None:
                gone = finished is not None
            elif gone and finished is not None:
                yield state, finished
                break
            elif finished is None and _is_finished(state.obj):
                finished = state.t


def _is_finished(obj: dict[str, Any]) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") in ("Complete", "Failed") and one.get("status") == "True" for one in conditions)


def _suspended_again(states: list[State]) -> Iterator[tuple[State, float]]:
    """Queued Jobs that ran and were suspended again; and when the queue had started them."""
    for job in _jobs(states):
        started: float | None = None
        for state in job:
            if state.obj is None or not _is_queued(state.obj):
                continue
            suspended = bool((state.obj.get("spec") or {}).get("suspend"))
            if not suspended and started is None:
                started = state.t
            elif suspended and started is not None:
                yield state, started
                break


def _is_queued(obj: dict[str, Any]) -> bool:
    metadata = obj["metadata"]
    return _QUEUE in (metadata.get("labels") or {}) or _QUEUE in (metadata.get("annotations") or {})


def _about(row: str, job: State, since: float) -> Iterator[OtherStory]:
    """The Job, its Work and AppliedWork, and the binding and placement that sum them up."""
    assert job.obj is not None
    yield OtherStory(row, since, re.escape(job.cluster), "Job|Event", re.escape(name_of(job.namespace, job.name)))
    for owner in job.obj["metadata"].get("ownerReferences") or ():
        if owner.get("kind") != "AppliedWork":
            continue
        work = str(owner["name"])
        namespace, _, placement = work.removesuffix("-work").rpartition(".")
        yield OtherStory(row, since, re.escape(job.cluster), "AppliedWork", re.escape(work))
        yield OtherStory(row, since, HUB, "Work", re.escape(f"{SPACE}{job.cluster}/{work}"))
        binding = re.escape(name_of(namespace, f"{placement}-{job.cluster}")) + "-<rand>"
        yield OtherStory(row, since, HUB, "(Cluster)?ResourceBinding", binding)
        subject = re.escape(name_of(namespace, placement))
        yield OtherStory(row, since, HUB, "(Cluster)?ResourcePlacement(Status)?|Event", subject)


# Update runs that upstream begins with what was selected before an edit


def _run_after_edit(states: list[State]) -> Iterator[OtherStory]:
    """An update run for whose sake the latest snapshot was looked at again, and was kept as too young to be replaced."""
    runs: dict[tuple[str, str], dict[str, float]] = {}
    for state in states:
        if state.obj is None or state.kind == "Event":
            continue
        if state.kind.endswith("StagedUpdateRun"):
            placement = str((state.obj.get("spec") or {}).get("placementName"))
            runs.setdefault((state.namespace, placement), {}).setdefault(state.name, state.t)
        noted = _NOT_YET_SNAPSHOT in (state.obj["metadata"].get("annotations") or {})
        if noted and state.kind.endswith("ResourceSnapshot"):
            placement = _parent(state)
            for run, since in runs.get((state.namespace, placement), {}).items():
                if since <= state.t < since + _AFTER_EDIT_S:
                    yield from _about_run(state, placement, run, since - _NOTED_LATE_S)


def _about_run(snapshot: State, placement: str, run: str, since: float) -> Iterator[OtherStory]:
    """The run, its placement with all that is made for it, and what that puts on members."""
    assert snapshot.obj is not None
    yield OtherStory(RUN_AFTER_EDIT, since, HUB, ".*", re.escape(name_of(snapshot.namespace, run)))
    yield OtherStory(RUN_AFTER_EDIT, since, ".*", ".*", rf"(.*[/.])?{re.escape(placement)}(-.*)?")
    for one in (snapshot.obj.get("spec") or {}).get("selectedResources") or ():
        name = name_of(str(one["metadata"].get("namespace") or ""), str(one["metadata"]["name"]))
        yield OtherStory(RUN_AFTER_EDIT, since, "(?!hub).*", re.escape(str(one["kind"])), re.escape(name))


def _parent(state: State) -> str:
    assert state.obj is not None
    return str((state.obj["metadata"].get("labels") or {}).get(_PARENT) or "")


# Scores that show what was placed a moment ago


def _counted_as_used(states: list[State]) -> Iterator[OtherStory]:
    """Decisions by what clusters have free, soon after Jobs were placed. Who was picked is compared: bindings say it."""
    with_jobs: set[tuple[str, str]] = set()
    placed: dict[tuple[str, str], float] = {}
    told: set[tuple[str, str]] = set()
    for state in states:
        if state.obj is None or state.kind == "Event":
            continue
        spec = state.obj.get("spec") or {}
        subject = (state.namespace, _parent(state))
        if state.kind.endswith("ResourceSnapshot"):
            if any(one.get("kind") == "Job" for one in spec.get("selectedResources") or ()):
                with_jobs.add(subject)
        elif state.kind.endswith("ResourceBinding"):
            placed.setdefault(subject, state.t)
        elif state.kind.endswith("SchedulingPolicySnapshot") and _by_what_is_free(spec):
            soon = (one in with_jobs and state.t < t + _COUNTED_S for one, t in placed.items() if one != subject)
            decided = (state.obj.get("status") or {}).get("targetClusters")
            if decided and subject not in told and any(soon):
                told.add(subject)
                about = re.escape(name_of(state.namespace, state.name))
                what = r"status\.targetClusters"
                yield OtherStory(COUNTED_AS_USED, 0.0, HUB, "(Cluster)?SchedulingPolicySnapshot", about, what)


def _by_what_is_free(spec: dict[str, Any]) -> bool:
    affinity = ((spec.get("policy") or {}).get("affinity") or {}).get("clusterAffinity") or {}
    return "/available-" in str(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or "")


# Kinds that upstream discovers too late


def _selected_too_late(recording: dict[str, Any]) -> Iterator[OtherStory]:
    """Placements that select objects of a kind which the scenario itself installs, and all that is made for them."""
    manifests = [manifest for entry in recording["setup"] for manifest in entry["manifests"]]
    manifests += [step["body"] for step in recording["steps"] if isinstance(step.get("body"), dict)]
    installed = {
        (str(one["spec"].get("group")), str((one["spec"].get("names") or {}).get("kind")))
        for one in manifests
        if one.get("kind") == "CustomResourceDefinition"
    }
    homes = {
        str(one["metadata"].get("namespace"))
        for one in manifests
        if (str(one.get("apiVersion")).rpartition("/")[0], str(one.get("kind"))) in installed
    }
    for one in manifests:
        selectors = (one.get("spec") or {}).get("resourceSelectors") or ()
        direct = any((str(by.get("group", "")), str(by.get("kind"))) in installed for by in selectors)
        whole = any(by.get("kind") == "Namespace" and by.get("name") in homes for by in selectors)
        if direct or whole:
            name = re.escape(str(one["metadata"]["name"]))
            yield OtherStory(JUST_INSTALLED, 0.0, ".*", ".*", rf"(.*[/.])?{name}([-. /].*)?")


# What a provider reports at first


def _first_reports(recording: dict[str, Any], states: list[State]) -> Iterator[OtherStory]:
    """From the start of a provider that collects namespaces to the first report that has any, as recorded."""
    for step in recording["steps"]:
        member = _COLLECTS.match(str(step.get("do", "")))
        if member is None:
            continue
        told = (
            state.t
            for state in states
            if state.kind == "InternalMemberCluster" and state.name == member[1] and state.t > step["t"]
            if ((state.obj or {}).get("status") or {}).get("namespaces")
        )
        until = next(told, float("inf"))
        about = rf"(.*/)?{re.escape(member[1])}"
        yield OtherStory(FIRST_REPORT, step["t"], HUB, "(Internal)?MemberCluster", about, r"status\.namespaces", until)
        policy = "(Cluster)?SchedulingPolicySnapshot"
        yield OtherStory(FIRST_REPORT, step["t"], HUB, policy, ".*", r"status\.targetClusters", until)
