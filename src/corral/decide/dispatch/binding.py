"""Late binding: choose the one worker that can start a Workload now, or else soonest, knowing every worker's queues.

Filters say which workers could ever run it and why the others cannot; scores rank the rest. Both are small functions in a
table: adding one is adding a line. A bound Workload moves only to a worker that is strictly better, so nothing flaps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from corral.core.meta import Obj, annotations_of, labels_of, spec_of
from corral.core.quantity import milli
from corral.core.selectors import Selector, parse_label_selector

AFFINITY = "corral.dev/cluster-affinity"
ANTI_AFFINITY = "corral.dev/cluster-anti-affinity"
DATA = "corral.dev/data"
TIER_LABEL = "corral.dev/tier"
PRICE_LABEL = "corral.dev/price"
DATA_LABEL_PREFIX = "data.corral.dev/"


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker's side of a queue. Amounts are milli-units by resource, summed over flavors.

    `free` is what is unused of its own quota, `borrowable` what its cohort would lend on top, `capacity` the most it could
    ever give, `promised` what was bound there and does not show in its usage yet, `waiting` how many workloads queue.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    connected: bool = True
    answers: bool = True
    serves_kind: bool = True
    queue_found: bool = True
    queue_active: bool = True
    free: Mapping[str, int] = field(default_factory=dict)
    borrowable: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    promised: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0


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


def requests_of(workload: Obj) -> dict[str, int]:
    """What all pods of a Workload ask for together, in milli-units by resource, pods included."""
    total: dict[str, int] = {}
    for pod_set in spec_of(workload).get("podSets") or []:
        count = int(pod_set.get("count") or 0)
        total["pods"] = total.get("pods", 0) + count * 1000
        for container in ((pod_set.get("template") or {}).get("spec") or {}).get("containers") or []:
            resources = container.get("resources") or {}
            wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
            for resource, amount in wanted.items():
                total[resource] = total.get(resource, 0) + milli(amount) * count
    return total


def choose(workload: Obj, job: Obj | None, workers: Sequence[WorkerView]) -> Choice:
    """Rank the workers for a Workload."""
    wish = _Wish.of(workload, job)
    rejected: dict[str, str] = {}
    ranked: list[Ranked] = []
    for worker in workers:
        why_not = next((reason for check in FILTERS if (reason := check(wish, worker))), "")
        if why_not:
            rejected[worker.name] = why_not
            continue
        now = starts_now(wish, worker)
        score = tuple(rank(wish, worker) for rank in SCORES)
        ranked.append(Ranked(worker.name, score, now, _why(wish, worker, now)))
    ranked.sort(key=lambda entry: (entry.score, entry.name))
    return Choice(tuple(ranked), rejected)


def rebind(choice: Choice, current: str) -> str:
    """The worker to be bound to, given the one it is bound to now: another only when it starts at once and this one does not."""
    best = choice.best
    if best is None:
        return ""
    held = next((entry for entry in choice.ranked if entry.name == current), None)
    if held is None:
        return best.name
    return best.name if best.starts_now and not held.starts_now else current


@dataclass(frozen=True, slots=True)
class _Wish:
    requests: Mapping[str, int]
    affinity: Selector | None
    anti_affinity: Selector | None
    data: tuple[str, ...]

    @classmethod
    def of(cls, workload: Obj, job: Obj | None) -> _Wish:
        notes = {**labels_of(workload), **annotations_of(workload), **(annotations_of(job) if job else {})}
        return cls(
            requests_of(workload),
            _selector(notes.get(AFFINITY)),
            _selector(notes.get(ANTI_AFFINITY)),
            tuple(part.strip() for part in notes.get(DATA, "").split(",") if part.strip()),
        )


def _selector(text: str | None) -> Selector | None:
    return parse_label_selector(text) if text else None


# Filters: a reason why not, or empty


def _reachable(wish: _Wish, worker: WorkerView) -> str:
    if not worker.connected:
        return "cannot be reached"
    return "" if worker.answers else "does not answer"


def _serves(wish: _Wish, worker: WorkerView) -> str:
    return "" if worker.serves_kind else "does not serve this kind of job"


def _has_queue(wish: _Wish, worker: WorkerView) -> str:
    if not worker.queue_found:
        return "has no queue of that name in this namespace"
    return "" if worker.queue_active else "its queue is not active"


def _wanted(wish: _Wish, worker: WorkerView) -> str:
    if wish.affinity is not None and not wish.affinity.matches(dict(worker.labels)):
        return "does not match the cluster affinity"
    if wish.anti_affinity is not None and wish.anti_affinity.matches(dict(worker.labels)):
        return "is excluded by the cluster anti-affinity"
    return ""


def _large_enough(wish: _Wish, worker: WorkerView) -> str:
    for resource, amount in wish.requests.items():
        if resource in worker.capacity and amount > worker.capacity[resource]:
            return f"can never give so much {resource}"
        if resource not in worker.capacity and resource != "pods":
            return f"has no quota for {resource}"
    return ""


FILTERS: tuple[Callable[[_Wish, WorkerView], str], ...] = (_reachable, _serves, _has_queue, _wanted, _large_enough)


# Scores: smaller is better


def starts_now(wish: _Wish, worker: WorkerView) -> bool:
    """Whether the unused quota, with what may be borrowed, covers the Workload without preempting anybody."""
    return all(amount <= _left(worker, resource) for resource, amount in wish.requests.items())


def _left(worker: WorkerView, resource: str) -> int:
    if resource not in worker.capacity:
        return 1 << 62
    unused = worker.free.get(resource, 0) + worker.borrowable.get(resource, 0)
    return unused - worker.promised.get(resource, 0)


def _waits(wish: _Wish, worker: WorkerView) -> float:
    return 0.0 if starts_now(wish, worker) else 1.0


def _tier(wish: _Wish, worker: WorkerView) -> float:
    return _number(worker.labels.get(TIER_LABEL))


def _far_from_data(wish: _Wish, worker: WorkerView) -> float:
    return float(sum(1 for name in wish.data if DATA_LABEL_PREFIX + name not in worker.labels))


def _price(wish: _Wish, worker: WorkerView) -> float:
    return _number(worker.labels.get(PRICE_LABEL))


def _borrows(wish: _Wish, worker: WorkerView) -> float:
    own = all(
        amount <= worker.free.get(resource, 0) - worker.promised.get(resource, 0)
        for resource, amount in wish.requests.items()
        if resource in worker.capacity
    )
    return 0.0 if own else 1.0


def _queue_length(wish: _Wish, worker: WorkerView) -> float:
    return 0.0 if starts_now(wish, worker) else float(worker.waiting)


def _fullness(wish: _Wish, worker: WorkerView) -> float:
    """How full the fullest wanted resource would be afterwards: spreads jobs over equal workers."""
    shares = [
        1.0 - (_left(worker, resource) - amount) / worker.capacity[resource]
        for resource, amount in wish.requests.items()
        if worker.capacity.get(resource)
    ]
    return max(shares, default=0.0)


SCORES: tuple[Callable[[_Wish, WorkerView], float], ...] = (
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


def _why(wish: _Wish, worker: WorkerView, now: bool) -> str:
    if now:
        return "has room now"
    short = [resource for resource, amount in wish.requests.items() if amount > _left(worker, resource)]
    return f"has to wait for {', '.join(short)} behind {worker.waiting} others"
