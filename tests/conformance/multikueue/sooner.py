"""What comes sooner with the settings that ship: the manager acts on news from workers at once, upstream after a second.

So what passed by on a worker in that second need not show here, and who changed a job before the manager had heard of it
comes too late. Both are found by what happened, never by name; `docs/differences.md` has them under "News from a worker".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from multikueue.answers import Answer
from multikueue.compare import Difference
from multikueue.corrected import MANAGER, without_lives
from multikueue.facts import Obj, State, masked

PASSING_MS = 1500
"""The second, and what a recorder and a busy machine add to it."""


def lasting(states: list[State]) -> list[State]:
    """The states without those of objects that were on a worker for a moment only."""
    return without_lives(states, lambda life: life.cluster != MANAGER and life.end - life.begin < PASSING_MS)


def is_passing(difference: Difference) -> bool:
    """Whether one side only saw more of what went by on a worker; what an object was when it was removed went by, too."""
    if difference.aspect.cluster == MANAGER or difference.aspect.kind == "Event" or difference.expected is None:
        return False
    expected, actual = Counter(difference.expected), Counter(difference.actual or ())
    return not expected - actual or not actual - expected


class Overtaken:
    """Jobs that a recorded step spoke of before upstream's manager had heard of any worker."""

    def __init__(self, recording: Obj) -> None:
        self._steps: set[str] = set()
        self._jobs: set[str] = set()
        made = {_made(step): float(step["t"]) for step in recording["steps"] if _made(step)}
        chosen = dict(_chosen(recording))
        for step in [step for step in recording["steps"] if step.get("cluster", MANAGER) == MANAGER]:
            for name, begin in made.items():
                early = step["t"] - begin < PASSING_MS and step["t"] < chosen.get(name, float("inf"))
                if early and not _made(step) and _speaks_of(step["do"], name):
                    self._steps.add(f"step {step['do']!r}")
                    self._jobs |= {name} if "patch" in step else set()

    @property
    def is_any(self) -> bool:
        return bool(self._steps)

    def excuses(self, answer: Answer) -> bool:
        return any(answer.text.startswith(step) for step in self._steps)

    def covers(self, difference: Difference) -> bool:
        """Whether it is about such a job, or about queues, which count it."""
        if self._jobs and difference.aspect.kind in ("ClusterQueue", "LocalQueue"):
            return True
        return self.is_told_of(difference.aspect.name)

    def is_told_of(self, words: str) -> bool:
        return any(_speaks_of(words, job) for job in self._jobs)


def _made(step: Obj) -> str:
    """The job a step makes on the manager; empty when it makes none."""
    if step.get("cluster", MANAGER) != MANAGER or not str(step["do"]).startswith("create "):
        return ""
    return str(((step.get("manifest") or {}).get("metadata") or {}).get("name") or "")


def _chosen(recording: Obj) -> Iterator[tuple[str, float]]:
    """The owners of the manager's Workloads, and when a worker was chosen for each."""
    owners: dict[str, list[str]] = {}
    for entry in recording["log"]:
        if (entry["cluster"], entry["kind"]) != (MANAGER, "Workload") or entry["event"] == "EVENT":
            continue
        metadata = entry["object"]["metadata"]
        found = [str(owner.get("name")) for owner in metadata.get("ownerReferences") or ()]
        named = owners.setdefault(metadata["name"], found)
        if (entry["object"].get("status") or {}).get("clusterName"):
            yield from ((name, float(entry["t"])) for name in named)


def _speaks_of(words: str, name: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){re.escape(masked(name))}(?![a-z0-9])", words) is not None
