"""What a namespace uses of its quotas: counted when a quota changes, when something it counts goes away, and now and then."""

from __future__ import annotations

from corral.core.meta import Key, Obj, spec_of, status_of
from corral.runtime.controller import Manager, Result
from corral.server.admission.builtin.quota import QUOTAS, bucket_of, usage_in
from corral.server.api import Api
from corral.store import Event, ObjectKey, Stale

RECOUNT_S = 300.0
_FINISHED = ("Succeeded", "Failed")


class Quotas:
    """Keeps the status of ResourceQuota objects true. Admission notes what it lets in; this notes what leaves."""

    name = "resource-quota"

    def __init__(self, api: Api, manager: Manager) -> None:
        self._api = api
        self._store = api.store
        self._manager = manager
        self._queue = manager.add(self, watches=[]).about(self._find).queue
        for stored in self._store.scan(QUOTAS):
            self._queue.add(Key(stored.key.namespace, stored.key.name))
        self._store.observe(self._changed)

    def _changed(self, event: Event) -> None:
        resource, namespace, name = event.stored.key
        if resource == QUOTAS:
            if event.type != "DELETED" and not _is_counted(event.stored.obj):
                self._queue.add(Key(namespace, name))
        elif namespace and self._store.count(QUOTAS, namespace) and (event.type == "DELETED" or _finished(event)):
            for quota in self._store.scan(QUOTAS, namespace):
                if any(bucket_of(counted) == resource for counted in spec_of(quota.obj).get("hard") or ()):
                    self._queue.add(Key(namespace, quota.key.name))

    def _find(self, key: Key) -> Obj | None:
        stored = self._store.get(ObjectKey(QUOTAS, key.namespace, key.name))
        return stored.obj if stored is not None else None

    async def reconcile(self, key: Key) -> Result | None:
        stored = self._store.head(ObjectKey(QUOTAS, key.namespace, key.name))
        if stored is None:
            return None
        hard = spec_of(stored.obj).get("hard") or {}
        counted = usage_in(self._store, key.namespace, hard, stored.obj)
        used = {name: str(counted[name]) if name in counted else "0" for name in hard}
        status = {"hard": hard, "used": used} if hard else {}
        if status_of(stored.obj) != status:
            try:
                await self._store.put(stored.key, {**stored.obj, "status": status}, expected=stored.revision)
            except Stale:
                self._queue.add(key)
                return None
        return Result(RECOUNT_S)


def _is_counted(quota: Obj) -> bool:
    return (status_of(quota).get("hard") or {}) == (spec_of(quota).get("hard") or {})


def _finished(event: Event) -> bool:
    """A pod that has ended no longer counts."""
    if event.stored.key.resource != "pods" or event.previous is None:
        return False
    before, after = status_of(event.previous.obj).get("phase"), status_of(event.stored.obj).get("phase")
    return after in _FINISHED and before not in _FINISHED
