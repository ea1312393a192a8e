"""Comparing two histories, knowing what may differ: see `docs/differences.md` for why each deliberate one is there."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from multikueue.corrected import MANAGER, Expectation
from multikueue.facts import ABSENT, ORDER, Aspect, History

POOL = "a worker"
"""What every worker is called where they are not told apart."""

# Kinds and aspects that the recordings show but that say nothing about dispatching.
_IGNORED_KINDS = ("LocalQueue", "ClusterQueue")
_IGNORED_EVENTS = ("SuccessfulDelete", "Killing", "Scheduled", "Pulled", "Created", "TaintManagerEviction")
_OWN_EVENTS = (
    "WaitingForWorker", "UpdatedAdmissionCheck", "NotDispatched", "RefusedByWorker", "ChangeRefused", "HandedBack",
    "EvictedOnWorker",
)  # fmt: skip
"""What Corral says in addition to upstream."""


_SET_UP_KINDS = ("MultiKueueCluster", "MultiKueueConfig", "AdmissionCheck")
"""Objects that exist before the first step; whether they are written once more then is chance."""


_NAME = r"(a worker|[-a-z0-9.]+)"
_REASON = re.compile(rf": {_NAME}(, {_NAME})*: |cannot be reached|already exists|waits for the first")
"""A reason for waiting, by worker."""
STOPPING = "kueue.x-k8s.io/stopping"


@dataclass(frozen=True)
class Difference:
    """The first aspect whose values differ. `rank` counts the aspects that agreed before it."""

    aspect: Aspect
    expected: list[str] | None
    actual: list[str] | None
    rank: int

    def __str__(self) -> str:
        where = f"{self.aspect.cluster} {self.aspect.kind} {self.aspect.name} {self.aspect.what}"
        return f"{where}: recorded {self.expected}, here {self.actual}"


def differences(wanted: Expectation, expected: History, actual: History) -> list[Difference]:
    """Every recorded aspect that went otherwise here, or that only exists here, in the order of the recording."""
    found: list[Difference] = []
    rank = 0
    expected, actual = _let_go(expected), _let_go(actual)
    for aspect, values in expected.items():
        if _is_ignored(aspect):
            continue
        if _same(wanted, aspect, values, actual.get(aspect)):
            rank += 1
        else:
            found.append(Difference(aspect, values, actual.get(aspect), rank))
    for aspect, values in actual.items():
        if aspect not in expected and not _is_ignored(aspect) and not _may_be_new(wanted, aspect, values, actual):
            found.append(Difference(aspect, None, values, rank))
    return found


def _let_go(history: History) -> History:
    """The history without what was taken off objects that are gone: whether that shows as a state of its own is chance."""
    return {aspect: _kept_to_the_end(history, aspect, values) for aspect, values in history.items()}


def _kept_to_the_end(history: History, aspect: Aspect, values: list[str]) -> list[str]:
    is_passing = aspect.what.startswith("finalizer ") or aspect.what == f"annotation {STOPPING}"
    if not is_passing or "gone" not in history.get(aspect._replace(what="exists"), ()):
        return values
    return [value for value in values if value != ABSENT]


def _same(wanted: Expectation, aspect: Aspect, expected: list[str], actual: list[str] | None) -> bool:
    if aspect.name in wanted.run_twice and aspect.what.startswith("status."):
        return True
    if _is_stateful(wanted, aspect):
        return True
    expected = normal(wanted, aspect, expected)
    if aspect.what == "reclaimablePods":
        # Each side samples its own job, so which of the growing counts it sees is chance.
        seen = set(actual or ())
        return seen <= set(expected) or set(expected) <= seen
    if actual is None and aspect.what.startswith("status."):
        return _ends(expected) == ABSENT
    if actual is None:
        return not expected
    actual = normal(wanted, aspect, actual)
    if _is_mirrored(aspect):
        expected, actual = _caught(expected), _caught(actual)
        if _goes_on(wanted, aspect):
            return not expected or expected[-1] in actual
        return expected[-1:] == actual[-1:] and (_within(expected, actual) or _within(actual, expected))
    if _goes_on(wanted, aspect):
        return not Counter(expected) - Counter(actual)
    if aspect.what.startswith("status."):
        # Counts pass by; how many of them somebody caught is chance.
        return expected == actual if _is_pooled(aspect) else _ends(expected) == _ends(actual)
    if aspect.what == "condition PodsReady" and aspect.cluster == MANAGER:
        return _sampled(expected) == _sampled(actual)
    return expected == actual


def _is_stateful(wanted: Expectation, aspect: Aspect) -> bool:
    """What a StatefulSet's status shows on the manager, the finalizer its Workload has for a moment, its end."""
    if aspect.kind == "Event" and aspect.what == "Stopped":
        return aspect.name.split("/")[-1].rpartition("-")[0] in wanted.stateful
    if aspect.cluster != MANAGER or aspect.name not in wanted.stateful:
        return False
    what = "finalizer " if aspect.kind == "Workload" else "status."
    return aspect.what.startswith(what) or (aspect.what == ORDER and aspect.kind == "StatefulSet")


def _goes_on(wanted: Expectation, aspect: Aspect) -> bool:
    return aspect.cluster in wanted.goes_on or (_is_pooled(aspect) and bool(wanted.goes_on - {MANAGER}))


def _is_mirrored(aspect: Aspect) -> bool:
    """A condition the manager copies from a worker: which of the passing ones it catches is chance."""
    own = ("Workload", "Event", *_SET_UP_KINDS, *_IGNORED_KINDS)
    told = aspect.what == ORDER or aspect.what.startswith("condition ")
    return aspect.cluster == MANAGER and aspect.kind not in own and told


def _caught(values: list[str]) -> list[str]:
    """What was caught of a mirrored condition; between two runs of a job there is none."""
    return _distinct([value for value in values if value != ABSENT])


def _ends(values: list[str]) -> str:
    """The last value; a count of nothing and no count are one."""
    return values[-1] if values and values[-1] not in ("0", "{}", "[]") else ABSENT


def _within(part: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(value in rest for value in part)


def _is_pooled(aspect: Aspect) -> bool:
    return aspect.cluster == POOL


def _may_be_new(wanted: Expectation, aspect: Aspect, values: list[str], actual: History) -> bool:
    """Whether something nobody recorded is fine here."""
    if aspect.kind == "Event" and aspect.what in _OWN_EVENTS:
        return True
    if _goes_on(wanted, aspect) or _is_stateful(wanted, aspect):
        return True
    if aspect.cluster in wanted.lost_kind:
        # The worker is still asked for the kinds it has, and cleaned up when another one wins.
        about = aspect._replace(what="exists")
        return aspect.kind == "Event" or actual.get(about, ["gone"])[-1] == "gone"
    if aspect.what == "condition Dispatched" or " corral.dev/" in aspect.what:
        return True  # Corral's own
    if aspect.what.startswith("status.") and _ends(values) == ABSENT:
        return True
    if aspect.what == "reclaimablePods" and aspect.cluster == MANAGER:
        return True  # each side samples the remote job, so whether it sees a count that grows is chance
    if aspect.name.startswith("trainjob-") and values == ["OnFailure"]:
        return True  # runtimes have the defaults of JobSets here already
    if aspect.what == "condition Created" and aspect.cluster == MANAGER:
        return True  # upstream's operator says so only if it was the job's manager from the beginning
    return aspect.what.startswith("condition ") and not normal(wanted, aspect, values)


def normal(wanted: Expectation, aspect: Aspect, values: list[str]) -> list[str]:
    """The values of an aspect without what is chance and without what Corral says beyond upstream."""
    if aspect.what.startswith("check "):
        return _distinct(_said(values))
    if aspect.what in ("condition Finished", ORDER):
        # How a Workload ended. Whether one that goes with its owner is marked first is chance.
        values = [value for value in values if not re.match(r"(Finished=)?True/OwnerNotFound", value)]
        return _distinct(
            [re.sub(r"^(Suspended=True)/(MultiKueueAdapter|JobSuspended)$", r"\1", value) for value in values]
        )
    if aspect.what == "condition Suspended":
        # Said by the adapter until the worker's own word arrives.
        if aspect.cluster == MANAGER:
            values = [re.sub(r"^True/(MultiKueueAdapter|JobSuspended): .*", "True", value) for value in values]
        values = _distinct(values)
        return list(dict.fromkeys(values)) if aspect.name in wanted.run_twice else values
    if aspect.what == "nominatedClusterNames" and aspect.name in wanted.served:
        return []
    if aspect.what == "nominatedClusterNames" and wanted.lost_kind:
        return _distinct([_without_names(value, wanted.lost_kind) for value in values])
    if aspect.what == "UpdatedAdmissionCheck":
        values = [value for value in values if not _REASON.search(value)]
    if aspect.kind == "Event":
        # How often the same is said, and on how many of equal workers, is chance.
        return sorted(set(values)) if _is_pooled(aspect) else list(dict.fromkeys(values))
    return values


def _distinct(values: list[str]) -> list[str]:
    """Values without repeats in a row."""
    return [value for index, value in enumerate(values) if index == 0 or values[index - 1] != value]


def _said(values: list[str]) -> list[str]:
    """Check states without the reasons for waiting, which only Corral gives."""
    kept: list[str] = []
    for value in values:
        if not _REASON.search(value) or not value.startswith("Pending"):
            kept.append(value)
        elif not kept or not kept[-1].startswith("Pending"):
            kept.append("Pending: ")
    return kept


def _sampled(values: list[str]) -> list[str]:
    """Readiness as the manager saw it: it sees samples of the remote job, so a brief dip and a late start are chance."""
    kept = _distinct([value for value in values if "WaitForRecovery" not in value and "Recovered" not in value])
    return kept[:-1] if kept and kept[-1].startswith("True/Started") else kept


def _without_names(value: str, names: frozenset[str]) -> str:
    listed = json.loads(value) if value != ABSENT else None
    return value if listed is None else json.dumps([name for name in listed if name not in names])


def _is_ignored(aspect: Aspect) -> bool:
    if aspect.kind != "Event":
        return False
    # Which pod of a group the end of all is told about is chance.
    return aspect.what in _IGNORED_EVENTS or (aspect.name.startswith("Pod/") and aspect.what == "FinishedWorkload")


def renamed(history: History, names: Mapping[str, str]) -> History:
    """The same history with workers called otherwise."""
    if not names:
        return history
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])")

    def other(text: str) -> str:
        return _ordered(pattern.sub(lambda match: names[match[1]], text))

    return {
        aspect._replace(cluster=names.get(aspect.cluster, aspect.cluster)): list(map(other, values))
        for aspect, values in history.items()
    }


def _ordered(text: str) -> str:
    """A list of names in order again."""
    return json.dumps(sorted(json.loads(text))) if re.fullmatch(r'\["[^"]*"(, "[^"]*")*\]', text) else text


def anonymous(history: History, workers: Iterable[str]) -> History:
    """The same history with workers alike: which of two equal workers wins each round is chance."""
    pooled: dict[Aspect, list[list[str]]] = {}
    for aspect, values in _each(history, workers):
        if aspect.what.startswith("status."):
            values = [value for value in values[-1:] if _ends([value]) != ABSENT]
        pooled.setdefault(aspect, []).append(values)
    return {aspect: _pooled(aspect, found) for aspect, found in pooled.items()}


def _each(history: History, workers: Iterable[str]) -> Iterator[tuple[Aspect, list[str]]]:
    """Every aspect of every worker by itself, all workers called the same."""
    alike = dict.fromkeys(workers, POOL)
    for aspect, values in history.items():
        ((renamed_aspect, renamed_values),) = renamed({aspect: values}, alike).items()
        yield renamed_aspect, renamed_values


def _pooled(aspect: Aspect, found: list[list[str]]) -> list[str]:
    if not _is_pooled(aspect):
        return found[0]
    together = sorted(value for values in found for value in values)
    return sorted(set(together)) if aspect.what.startswith("status.") else together
