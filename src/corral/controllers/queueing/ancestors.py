"""Who owns a job or a pod, however far up, and is queued in its place.

Owners are followed through every kind that could be queued, also where it is not, and through ReplicaSets: what stands between
a part and the job it is of does not hide the one from the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from corral.configuration.queueing import QueueingConfig
from corral.core.meta import Key, Obj, controller_of, uid_of
from corral.core.resource import Resource
from corral.jobs.framework.adapter import queue_name
from corral.jobs.framework.registry import adapters, known_frameworks, queued_sets, with_implied
from corral.kinds.kubernetes.apps.kinds import REPLICA_SETS

MAX_DEPTH = 10
NESTING_TOO_DEEP = "Terminated search for Kueue-managed Job because ancestor depth exceeded limit of 10"

Read = Callable[[Resource, Key], Awaitable[Obj | None]]


class NestingTooDeep(Exception):
    """The chain of owners is longer than anyone should need."""


@dataclass(frozen=True)
class OwnerKind:
    """A kind that owners are followed through."""

    resource: Resource
    is_queued: bool
    """Whether one of this kind is queued itself, or only stands between."""


def owner_kinds(config: QueueingConfig) -> Mapping[tuple[str, str], OwnerKind]:
    """The kinds that owners are followed through, by group and kind."""
    known = known_frameworks()
    jobs, sets = adapters(known), queued_sets(known)
    between = [REPLICA_SETS, *(job.resource for job in jobs), *(each.resource for each in sets)]
    jobs, sets = config.job_adapters(), queued_sets(with_implied(config.frameworks))
    queued = [*(job.resource for job in jobs), *(each.resource for each in sets)]
    return {
        **{(each.group, each.kind): OwnerKind(each, False) for each in between},
        **{(each.group, each.kind): OwnerKind(each, True) for each in queued},
    }


class Ancestors:
    """Finds who is queued in place of what it owns, in what `read` returns."""

    def __init__(self, config: QueueingConfig, read: Read) -> None:
        self._kinds = owner_kinds(config)
        self._unnamed = config.manage_jobs_without_queue_name
        self._read = read

    async def queued(self, obj: Obj, namespace: str) -> Obj | None:
        """The top-most owner that is queued itself, so that `obj` only follows it. Raises NestingTooDeep."""
        found: Obj | None = None
        current = obj
        for _ in range(MAX_DEPTH):
            reference = controller_of(current)
            kind = self._kind(reference) if reference is not None else None
            if reference is None or kind is None:
                return found
            owner = await self._read(kind.resource, Key(namespace, str(reference.get("name", ""))))
            if owner is None or uid_of(owner) != reference.get("uid"):
                return found
            if kind.is_queued and (queue_name(owner) or self._unnamed):
                found = owner
            current = owner
        raise NestingTooDeep(NESTING_TOO_DEEP)

    def _kind(self, reference: Obj) -> OwnerKind | None:
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        return self._kinds.get((group, str(reference.get("kind", ""))))
