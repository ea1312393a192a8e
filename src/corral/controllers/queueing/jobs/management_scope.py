"""Which jobs queueing manages: by queue name, by namespace, and not when an ancestor is managed instead."""

from __future__ import annotations

from collections.abc import Mapping

from corral.configuration.queueing import QueueingConfig
from corral.core.meta import Key, Obj, controller_of, labels_of, namespace_of
from corral.jobs.framework.adapter import JobAdapter, queue_name
from corral.runtime.informer import Reader

MAX_DEPTH = 10
NESTING_TOO_DEEP = "Terminated search for Kueue-managed Job because ancestor depth exceeded limit of 10"


class NestingTooDeep(Exception):
    """The chain of owners is longer than anyone should need."""


class ManagedJobs:
    """Answers whether a job is to be queued, given the owners and namespaces in the caches."""

    def __init__(self, config: QueueingConfig, namespaces: Reader) -> None:
        self._config = config
        self._namespaces = namespaces
        self._kinds: dict[tuple[str, str], tuple[JobAdapter, Reader]] = {}

    def add_kind(self, adapter: JobAdapter, jobs: Reader) -> None:
        """Owners of this kind count as possibly managed ancestors."""
        self._kinds[adapter.resource.group, adapter.resource.kind] = (adapter, jobs)

    def namespace_matches(self, namespace: str) -> bool:
        found = self._namespaces.get(Key("", namespace))
        labels: Mapping[str, str] = labels_of(found) if found else {}
        return self._config.managed_namespaces.matches({"kubernetes.io/metadata.name": namespace, **labels})

    def is_managed(self, job: Obj) -> bool:
        """Whether `job`, seen alone, is to be queued."""
        if not self.namespace_matches(namespace_of(job)):
            return False
        return bool(queue_name(job)) or self._config.manage_jobs_without_queue_name

    def managed_ancestor(self, job: Obj) -> tuple[JobAdapter, Obj] | None:
        """The top-most owner that is queued itself, so that `job` only follows it. Raises NestingTooDeep."""
        found: tuple[JobAdapter, Obj] | None = None
        current = job
        for _ in range(MAX_DEPTH):
            reference = controller_of(current)
            owner = self._owner(current, reference) if reference else None
            if owner is None:
                return found
            if queue_name(owner[1]) or self._config.manage_jobs_without_queue_name:
                found = owner
            current = owner[1]
        raise NestingTooDeep(NESTING_TOO_DEEP)

    def _owner(self, obj: Obj, reference: Obj) -> tuple[JobAdapter, Obj] | None:
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        kind = self._kinds.get((group, str(reference.get("kind", ""))))
        if kind is None:
            return None
        adapter, jobs = kind
        owner = jobs.get(Key(namespace_of(obj), str(reference.get("name", ""))))
        if owner is None or owner["metadata"].get("uid") != reference.get("uid"):
            return None
        return adapter, owner
