"""A manager that is its own worker: its copies live beside what they are copies of, so they go by other names.

The annotation `corral.dev/itself` of a MultiKueueCluster is a suffix. Names of Workloads and jobs get it on their way there
and lose it on their way back, and so do the queues they are in; everything that dispatches sees a worker like any other.
Only jobs can do that: pods and sets of pods are found by labels, and those of a copy would be taken for the original's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from corral.client.protocol import Client, ObjectList, Patch, WatchEvent
from corral.client.wrapper import ClientWrapper
from corral.core.meta import Obj, name_of, with_metadata, with_spec
from corral.core.resource import Resource
from corral.decide.dispatch.workload_copy import has_origin
from corral.jobs.framework.registry import adapter_for
from corral.kinds.kueue import LOCAL_QUEUES, WORKLOADS, names

ITSELF = "corral.dev/itself"
_NAMING = (names.QUEUE_NAME, names.PREBUILT_WORKLOAD)
"""Labels and annotations that name a queue or a Workload."""


def may_be_here(kinds: Sequence[Resource]) -> list[Resource]:
    """The kinds of jobs whose copies can be in the same cluster."""
    return [kind for kind in kinds if (found := adapter_for(kind)) is None or not found.found_by_labels]


class LoopbackClient(ClientWrapper):
    """A `Client` of the manager's own cluster in which our objects have the names they have on the manager."""

    def __init__(self, client: Client, suffix: str, origin: str, jobs: Collection[Resource]) -> None:
        super().__init__(lambda: client)
        self._suffix, self._origin = suffix, origin
        self._renamed = {WORKLOADS, *jobs}

    # Names

    def _there(self, resource: Resource, name: str) -> str:
        return name + self._suffix if resource in self._renamed else name

    def _out(self, resource: Resource, obj: Obj) -> Obj:
        """An object of ours as it is stored there."""
        if resource not in self._renamed:
            return obj
        return self._mapped(with_metadata(obj, name=name_of(obj) + self._suffix), lambda name: name + self._suffix)

    def _back(self, resource: Resource, obj: Obj) -> Obj:
        """An object from there as it is known here; those of others are left as they are."""
        is_renamed = resource == LOCAL_QUEUES or (resource in self._renamed and has_origin(obj, self._origin))
        if not is_renamed or not name_of(obj).endswith(self._suffix):
            return obj
        bare = with_metadata(obj, name=name_of(obj).removesuffix(self._suffix))
        return self._mapped(bare, lambda name: name.removesuffix(self._suffix))

    def _mapped(self, obj: Obj, change: Any) -> Obj:
        """The object with the queues and Workloads it names changed too."""
        metadata = obj.get("metadata") or {}
        for part in ("labels", "annotations"):
            held = metadata.get(part) or {}
            named = {key: change(held[key]) for key in _NAMING if held.get(key)}
            if named:
                obj = with_metadata(obj, **{part: {**held, **named}})
        queue = (obj.get("spec") or {}).get("queueName")
        return with_spec(obj, {**obj["spec"], "queueName": change(queue)}) if queue else obj

    def _is_seen(self, resource: Resource, obj: Obj) -> bool:
        """The queues that dispatch are the manager's; those with the suffix are the worker's."""
        return resource != LOCAL_QUEUES or name_of(obj).endswith(self._suffix)

    # Client

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> ObjectList:
        found = await self._target().list(resource, namespace, **options)
        items = [self._back(resource, item) for item in found.items if self._is_seen(resource, item)]
        return found._replace(items=items)

    async def watch(self, resource: Resource, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        async for event in self._target().watch(resource, namespace, **options):
            if event.type == "BOOKMARK":
                yield event
            elif self._is_seen(resource, event.obj):
                yield event._replace(obj=self._back(resource, event.obj))

    async def patch(self, resource: Resource, name: str, namespace: str, patch: Patch, **options: Any) -> Obj:
        if resource in self._renamed and isinstance(patch, dict):
            patch = self._mapped(patch, lambda value: value + self._suffix)
        return await super().patch(resource, name, namespace, patch, **options)
