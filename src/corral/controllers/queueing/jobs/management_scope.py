"""Which jobs queueing manages: by queue name, by namespace, and not when an ancestor is managed instead."""

from __future__ import annotations

from collections.abc import Mapping

from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.admission.lookups import ClusterReader
from corral.controllers.queueing.ancestors import Ancestors
from corral.core.meta import Key, Obj, labels_of, namespace_of
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobAdapter, queue_name
from corral.runtime.informer import Reader


class ManagedJobs:
    """Answers whether a job is to be queued, given the owners and namespaces in the caches; owners that are in none are looked
    for in the API."""

    def __init__(self, config: QueueingConfig, namespaces: Reader, reader: ClusterReader) -> None:
        self._config = config
        self._namespaces = namespaces
        self._reader = reader
        self._caches: dict[Resource, Reader] = {}
        self._ancestors = Ancestors(config, self._read)

    def add_kind(self, adapter: JobAdapter, jobs: Reader) -> None:
        """Jobs of this kind are in a cache."""
        self._caches[adapter.resource] = jobs

    def namespace_matches(self, namespace: str) -> bool:
        found = self._namespaces.get(Key("", namespace))
        labels: Mapping[str, str] = labels_of(found) if found else {}
        return self._config.managed_namespaces.matches({"kubernetes.io/metadata.name": namespace, **labels})

    def is_managed(self, job: Obj) -> bool:
        """Whether `job`, seen alone, is to be queued."""
        if not self.namespace_matches(namespace_of(job)):
            return False
        return bool(queue_name(job)) or self._config.manage_jobs_without_queue_name

    async def managed_ancestor(self, job: Obj) -> Obj | None:
        """The top-most owner that is queued itself, so that `job` only follows it. Raises NestingTooDeep."""
        return await self._ancestors.queued(job, namespace_of(job))

    async def _read(self, resource: Resource, key: Key) -> Obj | None:
        jobs = self._caches.get(resource)
        found = jobs.get(key) if jobs is not None else None
        return found if found is not None else await self._reader.get(resource, key)
