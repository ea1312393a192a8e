"""The garbage collector: dependents follow their owners.

Every object may name owners by uid. When none of them is left, the object is deleted. An owner deleted in the
foreground waits until the dependents that block it are gone; one deleted with orphaning first loses its dependents.
The store keeps the index from owner to dependents; what is due comes from the store's changes.
"""

from __future__ import annotations

from typing import NamedTuple

from corral.core.errors import ApiError, Conflict, NotFound
from corral.core.meta import Key, Obj, finalizers_of, is_deleting, owner_references_of, uid_of
from corral.core.validation import go_quote
from corral.kinds.machinery.definition import KindDef
from corral.runtime.controller import Manager, Result
from corral.server.api import Api, DeleteOptions
from corral.server.lifecycle.identity import object_key, queue_key, system_user
from corral.server.verbs.delete import FOREGROUND, ORPHAN
from corral.store import Event, ObjectKey, Stored


class Owners(NamedTuple):
    """The owner references of an object by what became of the owner."""

    solid: list[Obj]
    waiting: list[Obj]  # the owner is being deleted and waits for its dependents
    dangling: list[Obj]


class GarbageCollector:
    """Deletes what has lost its owners, and lets owners go that wait for their dependents."""

    name = "garbage-collector"

    def __init__(self, api: Api, manager: Manager) -> None:
        self._api = api
        self._store = api.store
        self._manager = manager
        self._user = system_user("generic-garbage-collector")
        self._queue = manager.add(self, watches=[], workers=4).about(self._find).queue
        for resource in self._store.resources():
            for stored in self._store.scan(resource):
                if stored.owners or self._is_held(stored):
                    self._queue.add(queue_key(stored.key))
        self._store.owned_by("")  # from here on the index is kept
        self._store.observe(self._changed)

    def _is_held(self, stored: Stored) -> bool:
        return stored.may_be_ending and bool(_held(stored.obj))

    def _changed(self, event: Event) -> None:
        stored, previous = event.stored, event.previous
        if event.type == "DELETED":
            for key in self._store.owned_by(uid_of(stored.obj)):
                self._queue.add(queue_key(key))
        else:
            if self._is_held(stored) or (stored.owners and _references_changed(stored, previous)):
                self._queue.add(queue_key(stored.key))
        lost = event.type == "DELETED" or _references_changed(stored, previous)
        if previous is not None and previous.owners and lost:
            self._wake_owners(previous)

    def _wake_owners(self, dependent: Stored) -> None:
        for reference in owner_references_of(dependent.obj):
            key = self._owner_key(reference, dependent.key.namespace)
            owner = self._store.get(key) if key is not None else None
            if owner is not None and _held(owner.obj):
                self._queue.add(queue_key(owner.key))

    def _find(self, key: Key) -> Obj | None:
        stored = self._store.get(object_key(key))
        return stored.obj if stored is not None else None

    async def reconcile(self, key: Key) -> Result | None:
        stored = self._store.get(object_key(key))
        if stored is None:
            return None
        held = _held(stored.obj)
        if held == ORPHAN:
            await self._orphan_dependents(stored)
        elif held == FOREGROUND:
            await self._delete_dependents(stored)
        elif stored.owners:
            await self._judge(stored)
        return None

    # -- owners that wait ---------------------------------------------------------------------------------------------

    async def _orphan_dependents(self, owner: Stored) -> None:
        uid = uid_of(owner.obj)
        for key in self._store.owned_by(uid):
            dependent = self._store.get(key)
            if dependent is not None:
                await self._drop_references(dependent, {uid})
        await self._release(owner, ORPHAN)

    async def _delete_dependents(self, owner: Stored) -> None:
        uid = uid_of(owner.obj)
        blocking = [stored for stored in self._dependents(uid) if _blocks(stored.obj, uid)]
        if not blocking:
            await self._release(owner, FOREGROUND)
        for stored in blocking:
            # Those on their way out wake their owner when they are gone.
            if not is_deleting(stored.obj):
                self._queue.add(queue_key(stored.key))

    def _dependents(self, uid: str) -> list[Stored]:
        found = [self._store.get(key) for key in self._store.owned_by(uid)]
        return [stored for stored in found if stored is not None]

    async def _release(self, owner: Stored, finalizer: str) -> None:
        kept = [name for name in finalizers_of(owner.obj) if name != finalizer]
        await self._patch(owner, {"finalizers": kept or None})

    # -- dependents ---------------------------------------------------------------------------------------------------

    async def _judge(self, stored: Stored) -> None:
        """Delete an object without owners; drop references to owners that are gone from one that has others."""
        owners = self._owners(stored)
        if owners is None:
            return
        if owners.solid:
            gone = {str(ref.get("uid")) for ref in owners.dangling + owners.waiting}
            if gone:
                await self._drop_references(stored, gone)
            return
        if is_deleting(stored.obj):
            return
        self._warn_of_strangers(stored, owners.dangling)
        dependents = self._dependents(uid_of(stored.obj)) if owners.waiting else []
        if any(_held(dependent.obj) == FOREGROUND for dependent in dependents):
            # Owners and dependents wait for each other: let this one no longer block, and the circle opens.
            await self._unblock(stored)
            return
        await self._delete(stored, "Foreground" if dependents else "Background")

    def _owners(self, stored: Stored) -> Owners | None:
        """What became of the owners; None when one of them cannot be judged, because its kind is not served."""
        found = Owners([], [], [])
        for reference in owner_references_of(stored.obj):
            key = self._owner_key(reference, stored.key.namespace)
            if key is None:
                return None
            owner = self._store.head(key)
            if owner is None or uid_of(owner.obj) != reference.get("uid"):
                found.dangling.append(reference)
            elif _held(owner.obj) == FOREGROUND and reference.get("blockOwnerDeletion"):
                found.waiting.append(reference)
            else:
                found.solid.append(reference)
        return found

    def _warn_of_strangers(self, stored: Stored, dangling: list[Obj]) -> None:
        """Tell whoever owns across namespaces why their object goes away."""
        for reference in dangling:
            key = self._owner_key(reference, stored.key.namespace)
            found = self._store.named(key.resource, key.name) if key is not None else []
            # An owner right here is one whose removal is being written; only others are strangers.
            strangers = [other for other in found if other.key.namespace != stored.key.namespace]
            if any(uid_of(other.obj) == reference.get("uid") for other in strangers):
                shown = ", ".join(f"{field}: {reference.get(field)}" for field in ("apiVersion", "kind", "name", "uid"))
                message = f"ownerRef [{shown}] does not exist in namespace {go_quote(stored.key.namespace)}"
                self._manager.recorder.event(stored.obj, "Warning", "OwnerRefInvalidNamespace", message)

    def _owner_key(self, reference: Obj, namespace: str) -> ObjectKey | None:
        kind = self._kind(str(reference.get("apiVersion") or ""), str(reference.get("kind") or ""))
        if kind is None or (kind.namespaced and not namespace):
            return None
        bucket = self._api.serving.storage(kind).bucket
        return ObjectKey(bucket, namespace if kind.namespaced else "", str(reference.get("name") or ""))

    def _kind(self, api_version: str, kind: str) -> KindDef | None:
        return self._api.registry.by_kind(api_version.rpartition("/")[0], kind)

    async def _drop_references(self, stored: Stored, uids: set[str]) -> None:
        kept = [ref for ref in owner_references_of(stored.obj) if ref.get("uid") not in uids]
        await self._patch(stored, {"ownerReferences": kept or None})

    async def _unblock(self, stored: Stored) -> None:
        references = [{**ref, "blockOwnerDeletion": False} for ref in owner_references_of(stored.obj)]
        await self._patch(stored, {"ownerReferences": references})

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _patch(self, stored: Stored, metadata: Obj) -> None:
        """Change metadata of exactly this object; a conflict means that a newer one is due anyway."""
        kind = self._served_kind(stored.key)
        if kind is None:
            return
        patch = {"metadata": {"uid": uid_of(stored.obj), "resourceVersion": str(stored.revision), **metadata}}
        resource = kind.resource()
        try:
            await self._api.patch(self._user, resource, stored.key.namespace, stored.key.name, "merge", patch)
        except NotFound:
            return
        except Conflict:
            self._queue.add(queue_key(stored.key))

    async def _delete(self, stored: Stored, policy: str) -> None:
        kind = self._served_kind(stored.key)
        if kind is None:
            return
        options = DeleteOptions(propagation=policy, uid=uid_of(stored.obj), resource_version=str(stored.revision))
        try:
            await self._api.delete(self._user, kind.resource(), stored.key.namespace, stored.key.name, options)
        except NotFound:
            return
        except Conflict:
            self._queue.add(queue_key(stored.key))
        except ApiError:
            self._queue.add_rate_limited(queue_key(stored.key))

    def _served_kind(self, key: ObjectKey) -> KindDef | None:
        plural, _, group = key.resource.partition(".")
        return self._api.registry.get(group, plural)


def _blocks(obj: Obj, uid: str) -> bool:
    return any(ref.get("uid") == uid and ref.get("blockOwnerDeletion") for ref in owner_references_of(obj))


def _references_changed(stored: Stored, previous: Stored | None) -> bool:
    return previous is None or (
        stored.obj["metadata"].get("ownerReferences") != previous.obj["metadata"].get("ownerReferences")
    )


def _held(obj: Obj) -> str:
    """The finalizer this controller must see to on an object that is being deleted."""
    if not is_deleting(obj):
        return ""
    finalizers = finalizers_of(obj)
    if ORPHAN in finalizers:
        return ORPHAN
    return FOREGROUND if FOREGROUND in finalizers else ""
