"""Reading for admission where every write of a cluster waits for it: from informers, and from the API what they lack."""

from __future__ import annotations

from corral.controllers.queueing.admission.lookups import READ, ClusterReader
from corral.core.meta import Key, Obj
from corral.core.resource import Resource
from corral.runtime.controller import Manager


class CachedReader(ClusterReader):
    """Knows the objects every decision asks for. One that was made a moment ago is looked for in the API: a job must not
    start because we had not heard yet of its namespace or its queue."""

    def __init__(self, manager: Manager) -> None:
        super().__init__()
        self._informers = {resource: manager.informer(resource) for resource in READ}
        self.attach(manager.client)

    async def get(self, resource: Resource, key: Key) -> Obj | None:
        informer = self._informers.get(resource)
        found = informer.get(key) if informer is not None else None
        return found if found is not None else await super().get(resource, key)
