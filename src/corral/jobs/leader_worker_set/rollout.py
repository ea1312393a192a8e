"""Rolling a LeaderWorkerSet out: how many groups there are meanwhile, and down to which one they are new.

The leaders' StatefulSet makes pods of the new template from the highest number down to its partition. The partition goes
down by as many groups as may be missing, and only once the groups above it are ready, workers and all. Surplus groups above
the wanted number keep the service up and go again towards the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from corral.core.meta import Obj, annotations_of, spec_of, status_of
from corral.core.whole_numbers import whole_number
from corral.jobs.leader_worker_set.kind import REPLICAS, replicas_of


class GroupState(NamedTuple):
    """One group, as a rollout sees it."""

    ready: bool = False
    updated: bool = False


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups by number. Those that are not in `known` are there in number only: their pods are still to come."""

    total: int
    known: Mapping[int, GroupState]

    def unfinished(self, below: int) -> int:
        """How many of the first groups are not ready in the new version."""
        below = min(below, self.total)
        return below - sum(number < below and state.ready and state.updated for number, state in self.known.items())

    def unready(self, below: int) -> int:
        below = min(below, self.total)
        return below - sum(number < below and state.ready for number, state in self.known.items())

    def done_from_the_end(self) -> int:
        """How many of the last groups are ready in the new version, without a gap."""
        done = 0
        while (state := self.known.get(self.total - 1 - done)) is not None and state.ready and state.updated:
            done += 1
        return done

    def highest_outdated(self, lowest: int, highest: int) -> int | None:
        """The last group between two numbers that serves in the old version."""
        serving = (number for number, state in self.known.items() if state.ready and not state.updated)
        return max((number for number in serving if lowest <= number <= highest), default=None)


class RolloutStep(NamedTuple):
    """What the leaders' StatefulSet is to be set to."""

    partition: int
    replicas: int


def scaled(value: object, total: int, *, up: bool) -> int:
    """A number, or a percentage of `total`; none for what is neither."""
    if isinstance(value, int):
        return value
    text = str(value)
    number = whole_number(text.removesuffix("%")) or 0
    if not text.endswith("%"):
        return number
    share = number * total
    return -(-share // 100) if up else share // 100


def groups_of(lws: Obj) -> int:
    """How many groups there are to be queued: surplus ones of a rollout too, for without quota they would never be ready."""
    total, status = replicas_of(lws), status_of(lws)
    held = int(status.get("replicas") or 0)
    _, surge, _ = _limits(lws)
    is_rolling = surge > 0 and int(status.get("updatedReplicas") or 0) < total
    return held if is_rolling and held > total else total


def _limits(lws: Obj) -> tuple[int, int, int]:
    """Partition, surge and missing groups that the strategy allows."""
    rolling = (spec_of(lws).get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
    total = replicas_of(lws)
    surge = min(scaled(rolling.get("maxSurge", 0), total, up=True), total)
    return int(rolling.get("partition") or 0), surge, scaled(rolling.get("maxUnavailable", 1), total, up=False)


def first_step(lws: Obj) -> RolloutStep:
    """Where there are no leaders yet there is nothing to roll."""
    return RolloutStep(_limits(lws)[0], replicas_of(lws))


def next_step(lws: Obj, leaders: Obj, groups: Groups, *, changed: bool) -> RolloutStep:
    """The next step, given the leaders' StatefulSet and its groups; `changed` when the template is new just now."""
    floor, surge, missing = _limits(lws)
    total, held = replicas_of(lws), int(spec_of(leaders).get("replicas") or 0)
    step = _next(lws, leaders, groups, changed, surge, missing, total, held)
    return RolloutStep(max(step.partition, floor), step.replicas)


def _next(
    lws: Obj, leaders: Obj, groups: Groups, changed: bool, surge: int, missing: int, total: int, held: int
) -> RolloutStep:
    if changed:
        partition = min(total, held)
        return RolloutStep(partition, total if held < total else _replicas(total, surge, missing, total))
    rolling = (spec_of(leaders).get("updateStrategy") or {}).get("rollingUpdate") or {}
    partition = int(rolling.get("partition") or 0)
    if partition == 0 and held == total:
        return RolloutStep(0, total)
    if held < total:
        return RolloutStep(partition, total)
    unready = groups.unfinished(total)
    replicas = _replicas(total, surge, missing, unready)
    if annotations_of(leaders).get(REPLICAS) != str(total):
        return RolloutStep(min(partition, total + surge), replicas)
    stride = missing + surge - (total + surge - held)
    return RolloutStep(_partition(groups, held, stride, partition), replicas)


def _replicas(total: int, surge: int, missing: int, unready: int) -> int:
    """Surplus groups stay as long as more groups are not ready than may be missing."""
    return total + max(0, unready - missing) if unready <= surge else total + surge


def _partition(groups: Groups, held: int, stride: int, current: int) -> int:
    lowest = max(0, held - groups.done_from_the_end() - stride)
    partition = lowest + groups.unready(lowest)
    # Groups that are down anyway may be made anew without anybody missing them.
    highest = min(partition, held - 1)
    serving = groups.highest_outdated(lowest, highest)
    if serving is None and highest >= lowest:
        partition = lowest
    elif serving is not None and serving < highest:
        partition = serving + 1
    return min(partition, current)
