"""The workloads waiting in one ClusterQueue, in the order they will be tried.

Workloads of equal shape share a lane. When one of them turns out not to fit, the whole lane is parked with that
verdict, and new arrivals of the shape join it there; a flush reopens lanes, not workloads. So neither a cycle nor a
flush gets slower with the number of parked workloads, only with the number of different shapes among them.
StrictFIFO has one lane (one for each LocalQueue when their usage decides) and never parks it: its head blocks the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from corral.core.meta import Key
from corral.decide.queueing.cycle.assignment import Cursor
from corral.decide.queueing.model.amounts import add_into
from corral.decide.queueing.model.values import Amounts, WorkloadInfo

Rank = tuple[int, float, str, int]


class WaitVerdict(NamedTuple):
    """Why a workload waits, as its status was last set to say."""

    cause: str
    reason: str
    message: str
    detail: str = ""
    """The granular reason, also where users are not told it."""


class Pending:
    """One waiting workload."""

    __slots__ = ("aside", "cursor", "info", "lane", "place", "rank", "second_pass", "verdict")

    def __init__(self, info: WorkloadInfo, sequence: int) -> None:
        self.info = info
        self.rank: Rank = (-info.priority, info.order_time, info.uid, sequence)
        self.lane: Lane | None = None
        self.place: list[object] | None = None
        """Its live entry in the lane's heap; an entry without item was taken out."""
        self.aside = ""
        """Why it is kept out of its lane: `backoff` until its time comes, anything else until a flush."""
        self.cursor: Cursor | None = None
        self.verdict: WaitVerdict | None = None
        self.second_pass = False


class Lane:
    """Workloads one verdict holds for."""

    __slots__ = ("heap", "local_queue", "number", "offered", "parked", "pushed", "size")

    def __init__(self, number: int, local_queue: str) -> None:
        self.number = number
        self.local_queue = local_queue
        self.heap: list[list[object]] = []
        self.parked: WaitVerdict | None = None
        self.offered: Rank | None = None
        """Rank under which the lane competes with others."""
        self.pushed = 0
        """Tells entries of the same rank apart: one that was taken out may still be there when its item comes back."""
        self.size = 0

    def push(self, item: Pending) -> None:
        self.pushed += 1
        entry: list[object] = [item.rank, self.pushed, item]
        item.lane, item.place = self, entry
        heappush(self.heap, entry)
        self.size += 1

    def take_out(self, item: Pending) -> None:
        assert item.place is not None
        item.place[2] = None
        item.lane = item.place = None
        self.size -= 1
        if len(self.heap) > 32 and len(self.heap) > 2 * self.size:
            self.heap = [entry for entry in self.heap if entry[2] is not None]
            heapify(self.heap)

    def top(self) -> Pending | None:
        heap = self.heap
        while heap:
            item = heap[0][2]
            if isinstance(item, Pending):
                return item
            heappop(heap)
        return None

    def items(self) -> Iterator[Pending]:
        return (entry[2] for entry in self.heap if isinstance(entry[2], Pending))


GIVES_WAY = "GivesWay"
MAKING_ROOM = frozenset({"FailedAfterNomination", "PendingPreemption"})
IMMEDIATE = MAKING_ROOM | {"PendingMigration", "PreemptionFailed", GIVES_WAY}
REMEMBERED = frozenset({"NoFit", "PreemptionNoCandidates"})


class PendingQueue:
    """Order and parking of one ClusterQueue's waiting workloads."""

    def __init__(self, *, strict: bool = False, hashing: bool = True, resuming: bool = True) -> None:
        self.strict = strict
        self.hashing = hashing
        self.resuming = resuming
        """Do new versions of a workload go on with the flavor search where the old one stopped?"""
        self.items: dict[Key, Pending] = {}
        self.in_flight: dict[Key, Pending] = {}
        self.sticky: Key | None = None
        """The last that preempted goes first until it leaves the queue, also when it was parked meanwhile (BestEffortFIFO)."""
        self.preemptor: Key | None = None
        self.by_local_queue: dict[str, int] = {}
        """How many wait per LocalQueue."""
        self.requests: Amounts = {}
        """What all that wait ask for together."""
        self.usage_of: Callable[[str], float] | None = None
        """Usage of a LocalQueue, when admission fair sharing orders this queue."""
        self._lanes: dict[object, Lane] = {}
        self._tops: list[tuple[Rank, int, Lane]] = []
        self._aside: dict[Key, Pending] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self.items)

    @property
    def active(self) -> int:
        """Workloads that will be tried without further events."""
        return sum(lane.size for lane in self._lanes.values() if lane.parked is None) + len(self.in_flight)

    def add(self, info: WorkloadInfo, *, backoff: bool = False) -> Pending:
        """Add or replace a workload; one whose shape is known not to fit joins the parked ones."""
        old = self.items.get(info.key)
        if old is not None:
            self._detach(old)
            self._count(old, -1)
        self._sequence += 1
        item = Pending(info, self._sequence)
        if old is not None and old.info.shape == info.shape:
            item.verdict = old.verdict
            item.cursor = old.cursor if self.resuming else None
        self.items[info.key] = item
        self._count(item, 1)
        if backoff:
            self._set_aside(item, "backoff")
        else:
            self._enqueue(item)
        return item

    def replace(self, item: Pending, info: WorkloadInfo) -> None:
        """Take over a new version that changes nothing about order or shape."""
        item.info = info
        if not self.resuming:
            item.cursor = None

    def delete(self, key: Key) -> Pending | None:
        item = self.items.pop(key, None)
        if item is not None:
            lane = item.lane
            self._detach(item)
            if lane is not None and not lane.size:
                lane.parked = None  # the next of this shape is tried, and told itself why it waits
            self._count(item, -1)
            self.release(key)
        return item

    def _count(self, item: Pending, by: int) -> None:
        name = item.info.queue_key
        self.by_local_queue[name] = self.by_local_queue.get(name, 0) + by
        for pod_set in item.info.pod_sets:
            add_into(self.requests, pod_set.requests, by)

    def resume_preemption(self, key: Key) -> None:
        """`key` waits for its victims to leave."""
        self.preemptor = key
        self.sticky = None if self.strict else key

    def release(self, key: Key) -> None:
        """Forget that `key` is preempting."""
        if self.sticky == key:
            self.sticky = None
        if self.preemptor == key:
            self.preemptor = None

    def still_preempts(self, key: Key) -> bool:
        """Does `key`, which made others leave, still wait for their room, and is it tried?"""
        item = self.items.get(key)
        if item is None or item.verdict is None or self.is_parked(key):
            return False
        unfinished = item.cursor is not None and item.cursor.is_pending
        if item.verdict.cause not in MAKING_ROOM and not unfinished:
            return False
        if not self.strict:
            return True
        head = next(iter(self.in_flight.values()), None) or self._head()
        return head is None or head is item or head.verdict is None or head.verdict.cause in IMMEDIATE

    def pop(self) -> Pending | None:
        """Take the head; it is in flight until requeued or deleted."""
        item = self._head()
        if item is None:
            return None
        assert item.lane is not None
        lane = item.lane
        lane.take_out(item)
        self._offer(lane)
        self.in_flight[item.info.key] = item
        return item

    def requeue(self, item: Pending, cause: str, verdict: WaitVerdict | None, *, backoff: bool = False) -> bool:
        """Put an item back after an attempt; True when it will be tried again without further events."""
        key = item.info.key
        self.in_flight.pop(key, None)
        if self.items.get(key) is not item:
            return False
        if verdict is not None:
            item.verdict = verdict
        if cause in ("PendingPreemption", "PendingMigration"):
            self.resume_preemption(key)
        if backoff:
            self._set_aside(item, "backoff")
            return False
        unfinished = item.cursor is not None and item.cursor.is_pending
        immediate = cause != "NamespaceMismatch" if self.strict else cause in IMMEDIATE
        if immediate or unfinished:
            self._enqueue(item)
            return True
        if cause in REMEMBERED and self.hashing and not self.strict:
            lane = self._lane_of(item)
            lane.parked = verdict or WaitVerdict(cause, "PendingEvaluation", "")
            lane.push(item)
        else:
            self._set_aside(item, cause)
        return False

    def flush(self, allowed: Callable[[WorkloadInfo], bool] | None = None) -> bool:
        """Give every parked workload another chance; True when there is something to try now."""
        moved = False
        for lane in self._lanes.values():
            if lane.parked is not None:
                lane.parked = None
                moved = self._offer(lane) or moved
        for item in list(self._aside.values()):
            if item.aside != "backoff" and (allowed is None or allowed(item.info)):
                self._detach(item)
                self._enqueue(item)
                moved = True
        return moved

    def wake(self, key: Key) -> bool:
        """End the back-off of one workload."""
        item = self._aside.get(key)
        if item is None or item.aside != "backoff":
            return False
        self._detach(item)
        self._enqueue(item)
        return item.lane is not None and item.lane.parked is None

    def is_parked(self, key: Key) -> bool:
        item = self.items.get(key)
        if item is None or key in self.in_flight:
            return False
        return key in self._aside or (item.lane is not None and item.lane.parked is not None)

    def verdict_of(self, key: Key) -> WaitVerdict | None:
        """Why it waits: its own verdict, or the one its lane was parked with."""
        item = self.items.get(key)
        if item is None:
            return None
        if item.lane is not None and item.lane.parked is not None:
            return item.lane.parked
        return item.verdict

    def no_fit_reason(self, key: Key) -> str | None:
        """Why workloads of its shape are known not to fit; None when it would be tried."""
        item = self.items.get(key)
        if item is None or item.lane is None or item.lane.parked is None:
            return None
        return item.lane.parked.reason

    def ordered(self) -> list[Pending]:
        """All waiting workloads, parked or not, in queue order."""
        return sorted(self.items.values(), key=self._order)

    def _order(self, item: Pending) -> tuple[object, ...]:
        usage = self.usage_of(item.info.queue_key) if self.usage_of is not None else 0.0
        return usage, item.info.key != self.sticky, item.rank

    def _head(self) -> Pending | None:
        if self.usage_of is not None:
            tops = [top for lane in self._lanes.values() if lane.parked is None and (top := lane.top()) is not None]
            sticky = self.items.get(self.sticky) if self.sticky is not None else None
            if sticky is not None and sticky.lane is not None and sticky.lane.parked is None:
                tops.append(sticky)
            return min(tops, key=self._order, default=None)
        if self.sticky is not None:
            sticky = self.items.get(self.sticky)
            if sticky is not None and sticky.lane is not None and sticky.lane.parked is None:
                return sticky
        return self._best_top()

    def _best_top(self) -> Pending | None:
        """Head of the open lane that comes first. A lane has one valid entry among the tops, the one it offered."""
        tops = self._tops
        while tops:
            rank, _, lane = tops[0]
            if lane.offered == rank:
                top = lane.top() if lane.parked is None else None
                if top is not None and top.rank == rank:
                    return top
                heappop(tops)
                lane.offered = None
                self._offer(lane)
            else:
                heappop(tops)
        return None

    def _offer(self, lane: Lane) -> bool:
        """Let an open lane compete with its first workload; False when it has none."""
        top = lane.top()
        if top is None or lane.parked is not None:
            return False
        if self.usage_of is None and lane.offered != top.rank:
            lane.offered = top.rank
            heappush(self._tops, (top.rank, lane.number, lane))
        return True

    def _lane_of(self, item: Pending) -> Lane:
        if self.strict:
            name: object = "" if self.usage_of is None else item.info.queue_key
        else:
            shape = item.info.shape if self.hashing else item.info.key
            name = shape if self.usage_of is None else (item.info.queue_key, shape)
        lane = self._lanes.get(name)
        if lane is None:
            self._drop_empty_lanes()
            lane = self._lanes[name] = Lane(self._sequence, item.info.queue_key)
        return lane

    def _drop_empty_lanes(self) -> None:
        # A parked lane keeps its verdict for arrivals of that shape; open empty ones are litter.
        if len(self._lanes) > 64 and len(self._lanes) > 2 * len(self.items):
            self._lanes = {name: lane for name, lane in self._lanes.items() if lane.size or lane.parked is not None}

    def _enqueue(self, item: Pending) -> None:
        lane = self._lane_of(item)
        item.aside = ""
        lane.push(item)
        if lane.parked is None and lane.top() is item:
            self._offer(lane)

    def _set_aside(self, item: Pending, why: str) -> None:
        item.aside = why
        self._aside[item.info.key] = item

    def _detach(self, item: Pending) -> None:
        key = item.info.key
        self.in_flight.pop(key, None)
        if item.aside:
            item.aside = ""
            self._aside.pop(key, None)
        if item.lane is not None:
            lane = item.lane
            was_top = lane.top() is item
            lane.take_out(item)
            if was_top:
                self._offer(lane)
