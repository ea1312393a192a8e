"""What admission has to look up about a job or a pod: its namespace, the default queue there, and the jobs that own it."""

from __future__ import annotations

from collections.abc import Mapping

from corral.client.protocol import Client
from corral.configuration.queueing import QueueingConfig
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Key, Obj, controller_of, labels_of
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobAdapter, queue_name
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import LOCAL_QUEUES

DEFAULT_QUEUE = "default"
MAX_DEPTH = 10


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
            if error.code in (404, 403):
                return None  # the kind is not served here, or not ours to read
            raise


class AdmissionLookups:
    """Whether a new object is queued: by its namespace, by a default queue, or by an owner of one of the kinds in `owners`."""

    def __init__(
        self, config: QueueingConfig, reader: ClusterReader, owners: Mapping[tuple[str, str], JobAdapter]
    ) -> None:
        self._config = config
        self._reader = reader
        self._owners = owners

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

    async def has_queued_owner(self, obj: Obj, namespace: str) -> bool:
        """Whether a job that owns the object, however far up, is queued in its place."""
        current = obj
        for _ in range(MAX_DEPTH):
            reference = controller_of(current)
            if reference is None:
                return False
            group = str(reference.get("apiVersion", "")).rpartition("/")[0]
            adapter = self._owners.get((group, str(reference.get("kind", ""))))
            if adapter is None:
                return False
            owner = await self._reader.get(adapter.resource, Key(namespace, str(reference.get("name", ""))))
            if owner is None:
                return False
            if queue_name(owner) or self._config.manage_jobs_without_queue_name:
                return True
            current = owner
        return False
