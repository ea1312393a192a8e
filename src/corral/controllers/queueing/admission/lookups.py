"""What admission has to look up about a job or a pod: its namespace, the default queue there, and the jobs that own it."""

from __future__ import annotations

import logging

from corral.client.protocol import Client
from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.ancestors import Ancestors, NestingTooDeep
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Key, Obj, labels_of, with_labels
from corral.core.resource import Resource
from corral.jobs.framework.adapter import workload_priority_class
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, names

DEFAULT_QUEUE = "default"
DEFAULT_PRIORITY_CLASS = "default"
READ = (NAMESPACES, LOCAL_QUEUES, CLUSTER_QUEUES, ADMISSION_CHECKS, WORKLOAD_PRIORITY_CLASSES)
"""What decisions about any job ask for, beside the jobs that own it: caches follow it, and whoever admits may get it."""

log = logging.getLogger(__name__)


class ClusterReader:
    """Reads what the rules depend on; knows nothing until it is attached to a cluster."""

    def __init__(self) -> None:
        self._client: Client | None = None

    def attach(self, client: Client) -> None:
        """Use `client` for reading from now on."""
        self._client = client

    async def get(self, resource: Resource, key: Key) -> Obj | None:
        if self._client is None:
            return None
        try:
            return await self._client.get(resource, key.name, key.namespace)
        except NotFound:
            return None
        except ApiError as error:
            if error.code not in (404, 403):
                raise
            if error.code == 403:  # not ours to read, which a role should mend: what depends on it is left out
                log.warning("admission may not read", extra={"resource": resource.plural, "error": str(error)})
            return None  # or the kind is not served here


class AdmissionLookups:
    """Whether a new object is queued: by its namespace, by a default queue, or by an owner."""

    def __init__(self, config: QueueingConfig, reader: ClusterReader) -> None:
        self._config = config
        self._reader = reader
        self._ancestors = Ancestors(config, reader.get)

    async def is_managed(self, namespace: str) -> bool:
        """Whether jobs of the namespace are queued."""
        found = await self._reader.get(NAMESPACES, Key("", namespace))
        labels = labels_of(found) if found else {}
        return self._config.managed_namespaces.matches({"kubernetes.io/metadata.name": namespace, **labels})

    async def has_default_queue(self, namespace: str) -> bool:
        """Whether jobs that name no queue are for the default one."""
        if not self._config.gates["LocalQueueDefaulting"]:
            return False
        return await self._reader.get(LOCAL_QUEUES, Key(namespace, DEFAULT_QUEUE)) is not None

    async def with_default_priority(self, obj: Obj) -> Obj:
        """The object with the WorkloadPriorityClass `default`, where there is one and the object names none."""
        if not self._config.gates["WorkloadPriorityClassDefaulting"] or workload_priority_class(obj):
            return obj
        if await self._reader.get(WORKLOAD_PRIORITY_CLASSES, Key("", DEFAULT_PRIORITY_CLASS)) is None:
            return obj
        return with_labels(obj, {names.PRIORITY_CLASS: DEFAULT_PRIORITY_CLASS})

    async def has_queued_owner(self, obj: Obj, namespace: str) -> bool:
        """Whether a job that owns the object, however far up, is queued in its place."""
        try:
            return await self._ancestors.queued(obj, namespace) is not None
        except NestingTooDeep:
            return False
