"""What somebody who waits for jobs is told meanwhile, each thing once: troubles of pods, and what waiting does not cure.

The times are the caller's: those of whatever clock he waits by.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from corral.client.sync import SyncClient
from corral.core.errors import ApiError
from corral.core.meta import Obj, name_of, namespace_of, owner_references_of
from corral.core.resource import Resource
from corral.inspect.evidence import collect_evidence
from corral.inspect.explain import explain
from corral.inspect.placed_pods import WorkerSilent, cluster_of
from corral.inspect.trouble_evidence import UNTOLD, advice_about, pods_there, reached, shown_by_events
from corral.inspect.troubles import Sort, Trouble, has_ended, troubles_of
from corral.kinds.kueue import WORKLOADS
from corral.workload import workload as wl

LASTS_S: Final = 1.0
"""How long a trouble is there before it is told: some are gone at the next moment."""
LOOK_S: Final = 2.0
"""How long a job waits before anybody is asked why, and how often."""
FIRST_LOOK_S: Final = 1.0
SLOWER: Final = 1.5
LAST_LOOK_S: Final = 30.0


class _Open(NamedTuple):
    """A trouble that is there, or was when its pod ended."""

    trouble: Trouble
    since: float
    pods: frozenset[str]
    """Who was there when it was first seen: somebody new means that its job goes on."""


class Concerns:
    """The troubles of one job, or of several that are waited for together, as they come and go."""

    def __init__(self) -> None:
        self._open: dict[Sort, _Open] = {}
        self._said: set[Sort | str] = set()
        self._from_events: list[Trouble] = []
        self._advice = ""
        self._since: float | None = None
        self._looked_at: float | None = None
        self.position: int | None = None
        """How many were before a job in its queue when that was last looked at."""

    def of_pods(self, pods: Collection[Obj], now: float) -> list[str]:
        """What has been wrong for a while and was not told yet. That a pod has failed is told only if others go on without it."""
        found = [*troubles_of(pods), *self._from_events]
        here = frozenset(map(name_of, pods))
        present = {trouble.sort: trouble for trouble in reversed(found)}
        kept = {sort: one for sort, one in self._open.items() if sort in present or one.trouble.is_over}
        self._open = {sort: _Open(trouble, now, here) for sort, trouble in present.items()} | kept
        some_run = any(not has_ended(pod) for pod in pods)
        news = []
        for sort, (trouble, since, before) in self._open.items():
            is_news = not trouble.is_over or some_run or not here <= before
            if is_news and sort not in self._said and now - since >= LASTS_S:
                self._said.add(sort)
                others = len({one.about for one in found if one.sort == sort}) - 1
                news.append(f"{trouble} (and {others} more like it)" if others > 0 else str(trouble))
        return news

    def of_job(
        self, client: SyncClient, resource: Resource, job: Obj, workload: Obj | None, pods: Sequence[Obj], now: float
    ) -> list[str]:
        """What is new about one job: why it waits, where waiting is in vain, or what its pods suffer from."""
        is_due, has_lasted = self._is_due(now)
        if workload is not None and not wl.is_admitted(workload):
            if is_due:
                self._advice, self.position = _waiting(client, workload)
            return self._once(self._advice if has_lasted else "")
        self.position = None
        if is_due and has_lasted:
            self._from_events = shown_by_events(
                client, resource, namespace_of(job), name_of(job), cluster_of(workload), pods
            )
        news = self.of_pods(pods, now)
        return news + self._once(
            _as_advice(advice_about(client, workload, pods)) if news and workload is not None else ""
        )

    def of_jobs(
        self, client: SyncClient, resource: Resource, namespace: str, wanted: Collection[str], now: float
    ) -> list[str]:
        """The same of several jobs of a kind, by name: everything is listed once, however many they are."""
        workloads = _workloads_of(client, resource, namespace, wanted)
        waiting = {name: found for name, found in workloads.items() if not wl.is_admitted(found)}
        news = [
            f"{name}: {sentence}"
            for name, found in sorted(waiting.items())[:1]
            for sentence in self._once(_waiting(client, found)[0])
        ]
        sent: dict[str, list[str]] = defaultdict(list)
        for name in sorted(wanted):
            if name not in waiting:
                sent[cluster_of(workloads.get(name))].append(name)
        pods: list[Obj] = []
        self._from_events = []
        for cluster, names in sorted(sent.items()):
            try:
                with reached(client, cluster) as where:
                    there = pods_there(where, resource, namespace, names)
            except WorkerSilent as error:
                news += self._once(str(error))
                continue
            except UNTOLD:
                continue
            pods += there
            self._from_events += shown_by_events(client, resource, namespace, names[0], cluster, there)
        return news + self.of_pods(pods, now)

    def _is_due(self, now: float) -> tuple[bool, bool]:
        """Whether it is time to look again, and whether it was watched for long enough to ask why nothing happens."""
        if self._since is None or self._looked_at is None:
            self._since = self._looked_at = now
            return True, False
        is_due = now - self._looked_at >= LOOK_S
        if is_due:
            self._looked_at = now
        return is_due, now - self._since >= LOOK_S

    def _once(self, sentence: str) -> list[str]:
        if not sentence or sentence in self._said:
            return []
        self._said.add(sentence)
        return [sentence]


def _waiting(client: SyncClient, workload: Obj) -> tuple[str, int | None]:
    """What to do where waiting is in vain, and how many are before it."""
    try:
        evidence = collect_evidence(client, workload, namespace_of(workload), with_others=False)
        return _as_advice(explain(workload, evidence).advice), evidence.position
    except ApiError:
        return "", None  # the next look may be answered


def _as_advice(text: str) -> str:
    return f"-> {text}" if text else ""


class Attention:
    """Jobs that somebody waits for and does not watch: looked at less and less often."""

    def __init__(self, jobs: Iterable[tuple[Resource, str, str]], now: float) -> None:
        self._open: dict[tuple[Resource, str], set[str]] = defaultdict(set)
        self._concerns: dict[tuple[Resource, str], Concerns] = defaultdict(Concerns)
        self.pause = FIRST_LOOK_S
        self._looked_at = now
        for resource, namespace, name in jobs:
            self._open[resource, namespace].add(name)

    def drop(self, resource: Resource, namespace: str, name: str) -> None:
        """One that is waited for no more."""
        self._open[resource, namespace].discard(name)

    def look(self, client: SyncClient, now: float) -> list[str]:
        """What is new, each with the name of its job, if it is time to look again."""
        if now - self._looked_at < self.pause:
            return []
        news = [
            sentence
            for (resource, namespace), names in self._open.items()
            if names
            for sentence in self._concerns[resource, namespace].of_jobs(
                client, resource, namespace, frozenset(names), now
            )
        ]
        self._looked_at, self.pause = now, min(self.pause * SLOWER, LAST_LOOK_S)
        return news


def _workloads_of(client: SyncClient, resource: Resource, namespace: str, wanted: Collection[str]) -> dict[str, Obj]:
    """The Workload of each of some jobs that is not finished."""
    found = {}
    try:
        workloads = client.list(WORKLOADS, namespace)["items"]
    except ApiError:
        return {}
    for workload in workloads:
        for owner in owner_references_of(workload):
            if owner["kind"] == resource.kind and owner["name"] in wanted and not wl.is_finished(workload):
                found[str(owner["name"])] = workload
    return found
