"""The pods that wait for a node: the most important and oldest first, those that found no room set aside in groups.

Pods that every node treats alike form a group. When room becomes free only the first of each group is tried; the next one
follows when it has found a place. So ten thousand waiting pods cost as much as the few that can be placed.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict

from corral.decide.pods.workload import PodView

Group = tuple[int, str]


class Pending:
    """An ordered queue of pods with groups of parked ones."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str, int, str]] = []
        self._active: dict[str, PodView] = {}
        self._parked: dict[Group, OrderedDict[str, PodView]] = {}
        self._group_of: dict[str, Group] = {}
        self._woken: set[str] = set()
        self._dear: dict[str, tuple[float, PodView]] = {}
        """Those that cost too much, and until when nobody looks for a node for them."""
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._active) + len(self._group_of) + len(self._dear)

    def __contains__(self, uid: str) -> bool:
        return uid in self._active or uid in self._group_of or uid in self._dear

    def add(self, pod: PodView) -> None:
        """Try `pod` soon, also when it was parked."""
        self.remove(pod.uid)
        self._active[pod.uid] = pod
        self._sequence += 1
        heapq.heappush(self._heap, (-pod.priority, pod.created, self._sequence, pod.uid))

    def take(self) -> PodView | None:
        """The next pod to try; it is no longer in the queue."""
        while self._heap:
            _, _, _, uid = heapq.heappop(self._heap)
            pod = self._active.pop(uid, None)
            if pod is not None:
                return pod
        return None

    def park(self, pod: PodView) -> None:
        """Set `pod` aside, before those of its group that have waited for their turn."""
        group = (pod.priority, pod.shape)
        members = self._parked.setdefault(group, OrderedDict())
        members[pod.uid] = pod
        members.move_to_end(pod.uid, last=False)
        self._group_of[pod.uid] = group

    def park_behind(self, pod: PodView) -> bool:
        """Set `pod` aside behind its group when others of it wait already and it is not its turn; else False."""
        group = (pod.priority, pod.shape)
        members = self._parked.get(group)
        if not members or pod.uid in self._woken:
            self._woken.discard(pod.uid)
            return False
        members[pod.uid] = pod
        self._group_of[pod.uid] = group
        return True

    def hold(self, pod: PodView, until: float) -> None:
        """Do not try `pod` before then, whatever becomes free."""
        self._dear[pod.uid] = (until, pod)

    def release(self, now: float) -> float | None:
        """Try again those who were held until now; when the next one's time comes."""
        for pod in [pod for until, pod in self._dear.values() if until <= now]:
            self.add(pod)
        return min((until for until, _ in self._dear.values()), default=None)

    def next_of(self, pod: PodView) -> None:
        """`pod` found a place: try the next of its group."""
        self._wake((pod.priority, pod.shape))

    def wake(self) -> None:
        """Room may have become free: try the first of each group."""
        for group in list(self._parked):
            self._wake(group)

    def _wake(self, group: Group) -> None:
        members = self._parked.get(group)
        if members:
            first = next(iter(members.values()))
            self.add(first)
            self._woken.add(first.uid)

    def remove(self, uid: str) -> None:
        self._active.pop(uid, None)
        self._dear.pop(uid, None)
        self._woken.discard(uid)
        group = self._group_of.pop(uid, None)
        if group is not None:
            members = self._parked[group]
            del members[uid]
            if not members:
                del self._parked[group]
