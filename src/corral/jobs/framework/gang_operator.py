"""PodGroups kept for jobs that a gang scheduler places: made before the pods, updated with the job, deleted after it."""

from __future__ import annotations

from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import Key, Obj, is_owned_by, key_of, name_of, namespace_of, spec_of, uid_of
from corral.jobs.framework.gang import group_resource
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES
from corral.runtime.controller import Manager, OwnerKey, Watch


class GangGroups:
    """The PodGroups one operator keeps for one scheduler."""

    def __init__(self, manager: Manager, scheduler: str, field_manager: str, owners: OwnerKey) -> None:
        self._client = manager.client
        self._manager_name = field_manager
        self.scheduler = scheduler
        self.resource = group_resource(scheduler)
        self._groups = manager.informer(self.resource)
        self._classes = manager.informer(PRIORITY_CLASSES)
        self.watch = Watch(self.resource, map=owners)
        """What wakes the operator."""

    def priority_of(self, name: str) -> int:
        found = self._classes.get(Key("", name))
        return int(found.get("value") or 0) if found is not None else 0

    async def ensure(self, body: Obj) -> Obj:
        """The PodGroup as it should be; one that belongs to somebody else is left alone."""
        held = self._groups.get(key_of(body))
        if held is None:
            try:
                return await self._client.create(self.resource, body, manager=self._manager_name)
            except AlreadyExists:
                held = await self._client.get(self.resource, name_of(body), namespace_of(body))
        owner = body["metadata"]["ownerReferences"][0]["uid"]
        if spec_of(held) == spec_of(body) or not is_owned_by(held, owner):
            return held
        changed = {**held, "spec": spec_of(body)}
        return await self._client.update(self.resource, changed, manager=self._manager_name)

    async def remove(self, owner: Obj) -> bool:
        """Delete the owner's PodGroup; says whether there was one."""
        held = self._groups.get(key_of(owner))
        if held is None or not is_owned_by(held, uid_of(owner)):
            return False
        try:
            await self._client.delete(self.resource, name_of(held), namespace_of(held), uid=uid_of(held))
        except NotFound:
            return False
        return True
