"""Late binding: choose the one worker that can start a Workload now, or else soonest, knowing every worker's queues.

Filters say which workers could ever run it and why the others cannot; scores rank the rest. Both are small functions in a
table: adding one is adding a line. A bound Workload moves only to a worker that is strictly better, so nothing flaps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from corral.core.meta import Obj, annotations_of, labels_of
from corral.core.selectors import Selector, parse_label_selector
from corral.decide.dispatch.room import (
    Group,
    PodSetDemand,
    demands_of,
    lacking,
    most,
    now,
    own,
    summed,
    total,
    unsuitable,
)

AFFINITY = "corral.dev/cluster-affinity"
ANTI_AFFINITY = "corral.dev/cluster-anti-affinity"
DATA = "corral.dev/data"
TIER_LABEL = "corral.dev/tier"
PRICE_LABEL = "corral.dev/price"
DATA_LABEL_PREFIX = "data.corral.dev/"


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker's side of a queue.

    `promised` is what was bound there and does not show in its usage yet, `waiting` how many workloads queue, `refused` that
    it has looked at this Workload since its usage last changed and did not take it.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    connected: bool = True
    answers: bool = True
    serves_kind: bool = True
    queue_found: bool = True
    queue_active: bool = True
    groups: tuple[Group, ...] = ()
    promised: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    refused: bool = False


class Ranked(NamedTuple):
    """A worker that could run the Workload; smaller scores are better, compared from left to right."""

    name: str
    score: tuple[float, ...]
    starts_now: bool
    why: str


class Choice(NamedTuple):
    """Candidates, best first, and why each other worker is out."""

    ranked: tuple[Ranked, ...]
    rejected: Mapping[str, str]

    @property
    def best(self) -> Ranked | None:
        return self.ranked[0] if self.ranked else None


def choose(workload: Obj, job: Obj | None, workers: Sequence[WorkerView]) -> Choice:
    """Rank the workers for a Workload."""
    wish = _PlacementWish.of(workload, job)
    rejected: dict[str, str] = {}
    ranked: list[Ranked] = []
    for worker in workers:
        why_not = next((reason for check in FILTERS if (reason := check(wish, worker))), "")
        if why_not:
            rejected[worker.name] = why_not
            continue
        is_now = starts_now(wish, worker)
        score = tuple(rank(wish, worker) for rank in SCORES)
        ranked.append(Ranked(worker.name, score, is_now, _why(wish, worker, is_now)))
    ranked.sort(key=lambda entry: (entry.score, entry.name))
    return Choice(tuple(ranked), rejected)


def rebind(choice: Choice, current: str) -> str:
    """The worker to be bound to, given the one it is bound to now: another only when it starts at once and this one does not.

    The best score alone is no reason to move. Scores change with every change of usage anywhere, and a Workload that
    followed them would have its copy made and removed all the time and never be admitted.
    """
    best = choice.best
    if best is None:
        return ""
    held = next((entry for entry in choice.ranked if entry.name == current), None)
    if held is None:
        return best.name
    return best.name if best.starts_now and not held.starts_now else current


@dataclass(frozen=True, slots=True)
class _PlacementWish:
    demands: tuple[PodSetDemand, ...]
    affinity: Selector | None
    anti_affinity: Selector | None
    data: tuple[str, ...]
    problem: str = ""
    """What is wrong with the annotations."""
    total: Mapping[str, int] = field(default_factory=dict)
    short: dict[str, list[str]] = field(default_factory=dict)
    """What each worker has too little of right now; several scores ask."""

    @classmethod
    def of(cls, workload: Obj, job: Obj | None) -> _PlacementWish:
        demands = demands_of(workload)
        notes = {**labels_of(workload), **annotations_of(workload), **(annotations_of(job) if job else {})}
        data = tuple(part.strip() for part in notes.get(DATA, "").split(",") if part.strip())
        selectors: dict[str, Selector] = {}
        for annotation in (AFFINITY, ANTI_AFFINITY):
            try:
                if notes.get(annotation):
                    selectors[annotation] = parse_label_selector(notes[annotation])
            except ValueError as error:
                return cls(demands, None, None, data, f"cannot be judged: {annotation}: {error}")
        affinity, anti_affinity = selectors.get(AFFINITY), selectors.get(ANTI_AFFINITY)
        return cls(demands, affinity, anti_affinity, data, total=total(demands))


# Filters: a reason why not, or empty


def _reachable(wish: _PlacementWish, worker: WorkerView) -> str:
    if not worker.connected:
        return "cannot be reached"
    return "" if worker.answers else "does not answer"


def _serves(wish: _PlacementWish, worker: WorkerView) -> str:
    return "" if worker.serves_kind else "does not serve this kind of job"


def _has_queue(wish: _PlacementWish, worker: WorkerView) -> str:
    if not worker.queue_found:
        return "has no queue of that name in this namespace"
    return "" if worker.queue_active else "its queue is not active"


def _wanted(wish: _PlacementWish, worker: WorkerView) -> str:
    if wish.problem:
        return wish.problem
    if wish.affinity is not None and not wish.affinity.matches(dict(worker.labels)):
        return "does not match the cluster affinity"
    if wish.anti_affinity is not None and wish.anti_affinity.matches(dict(worker.labels)):
        return "is excluded by the cluster anti-affinity"
    return ""


def _large_enough(wish: _PlacementWish, worker: WorkerView) -> str:
    return unsuitable(wish.demands, worker.groups)


FILTERS: tuple[Callable[[_PlacementWish, WorkerView], str], ...] = (
    _reachable,
    _serves,
    _has_queue,
    _wanted,
    _large_enough,
)


# Scores: smaller is better


def starts_now(wish: _PlacementWish, worker: WorkerView) -> bool:
    """Whether the unused quota, with what may be borrowed, covers the Workload without preempting anybody."""
    return not worker.refused and not _short(wish, worker)


def _short(wish: _PlacementWish, worker: WorkerView) -> list[str]:
    if worker.name not in wish.short:
        wish.short[worker.name] = lacking(wish.demands, worker.groups, now, worker.promised)
    return wish.short[worker.name]


def _waits(wish: _PlacementWish, worker: WorkerView) -> float:
    return 0.0 if starts_now(wish, worker) else 1.0


def _tier(wish: _PlacementWish, worker: WorkerView) -> float:
    return _number(worker.labels.get(TIER_LABEL))


def _far_from_data(wish: _PlacementWish, worker: WorkerView) -> float:
    return float(sum(1 for name in wish.data if DATA_LABEL_PREFIX + name not in worker.labels))


def _price(wish: _PlacementWish, worker: WorkerView) -> float:
    return _number(worker.labels.get(PRICE_LABEL))


def _borrows(wish: _PlacementWish, worker: WorkerView) -> float:
    return 1.0 if lacking(wish.demands, worker.groups, own, worker.promised) else 0.0


def _queue_length(wish: _PlacementWish, worker: WorkerView) -> float:
    return 0.0 if starts_now(wish, worker) else float(worker.waiting)


def _fullness(wish: _PlacementWish, worker: WorkerView) -> float:
    """How full the fullest wanted resource would be afterwards: spreads jobs over equal workers."""
    left, most_of = summed(worker.groups, now), summed(worker.groups, most)
    shares = [
        1.0 - (left[resource] - worker.promised.get(resource, 0) - amount) / most_of[resource]
        for resource, amount in wish.total.items()
        if most_of.get(resource)
    ]
    return max(shares, default=0.0)


# Compared from left to right, so whether it starts now outweighs everything else, and price outweighs an even load.
SCORES: tuple[Callable[[_PlacementWish, WorkerView], float], ...] = (
    _waits,
    _tier,
    _far_from_data,
    _price,
    _borrows,
    _queue_length,
    _fullness,
)


def _number(text: str | None) -> float:
    try:
        return float(text) if text else 0.0
    except ValueError:
        return 0.0


def _why(wish: _PlacementWish, worker: WorkerView, is_now: bool) -> str:
    if is_now:
        return "has room now"
    if worker.refused:
        return "has not taken it"
    return f"has to wait for {', '.join(_short(wish, worker))} behind {worker.waiting} others"
