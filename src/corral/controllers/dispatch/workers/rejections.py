"""Workers that cannot have a Workload or its job: they are not asked again for a while, longer each time.

Kept in memory: a manager that was restarted asks once more and learns it again.
"""

from __future__ import annotations

from typing import NamedTuple

from corral.core.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound
from corral.core.meta import Key
from corral.core.resource import Resource
from corral.runtime.clock import Clock

FIRST_S = 10.0
MAX_S = 600.0


REFUSALS = (Invalid, Forbidden, BadRequest, NotFound)
"""Answers that trying again does not change."""


class WorkerRejection(ApiError):
    """A worker cannot hold an object of ours; trying again is useless until something is changed on the worker."""

    reason = ""
    """What metrics count it as."""

    def __init__(self, cluster: str, why: str) -> None:
        super().__init__(f"{cluster}: {why}")
        self.why = why
        self.fields: tuple[str, ...] = ()
        """The fields of ours that it does not accept."""


class NameTaken(WorkerRejection):
    """A worker has an object of that name which this manager did not make."""

    reason = "NameTaken"

    def __init__(self, cluster: str, resource: Resource, key: Key) -> None:
        mine = f"{resource.kind} {key} already exists there and was not created by this manager"
        super().__init__(cluster, f"{mine}: delete it there or submit the job under another name")


class Refused(WorkerRejection):
    """A worker does not accept the object."""

    reason = "Refused"

    def __init__(self, cluster: str, resource: Resource, error: ApiError) -> None:
        super().__init__(cluster, f"refuses the {resource.kind}: {error}")
        self.fields = tuple(str(cause["field"]) for cause in error.causes if cause.get("field"))


class _Refusal(NamedTuple):
    why: str
    until: float
    times: int
    fields: tuple[str, ...]


class Refusals:
    """Who refused what, and until when."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[Key, dict[str, _Refusal]] = {}

    def note(self, key: Key, cluster: str, why: str, fields: tuple[str, ...] = ()) -> None:
        by_cluster = self._held.setdefault(key, {})
        times = by_cluster[cluster].times + 1 if cluster in by_cluster else 0
        by_cluster[cluster] = _Refusal(why, self._clock.now() + min(FIRST_S * 2.0**times, MAX_S), times, fields)

    def barred(self, key: Key) -> dict[str, str]:
        """The clusters not to ask now, with what they said."""
        now = self._clock.now()
        return {name: entry.why for name, entry in sorted(self._held.get(key, {}).items()) if entry.until > now}

    def fields(self, key: Key, cluster: str) -> tuple[str, ...]:
        """What a cluster did not accept of a Workload's job."""
        entry = self._held.get(key, {}).get(cluster)
        return entry.fields if entry is not None else ()

    def soonest(self, key: Key) -> float | None:
        """Seconds until one of them may be asked again."""
        now = self._clock.now()
        left = [entry.until - now for entry in self._held.get(key, {}).values() if entry.until > now]
        return min(left) + 0.001 if left else None

    def forget(self, key: Key) -> None:
        self._held.pop(key, None)
