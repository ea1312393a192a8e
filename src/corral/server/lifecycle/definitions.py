"""CustomResourceDefinitions: from the stored object to a served kind, and back when it is deleted.

A definition whose names nobody else has is accepted and established; from then on its kind is in the registry. A
definition that is deleted first takes all its objects with it. The definitions of kinds that Corral ships are written
to the store when a cluster is made, so that they can be seen and applied over: any release's definition is taken, and the
kind is served from Corral's own declaration all the same. One that is deleted is written anew.
"""

from __future__ import annotations

import asyncio

from corral import __version__
from corral.core import conditions
from corral.core.conditions import condition, is_true
from corral.core.errors import ApiError, Conflict, NotFound
from corral.core.meta import Key, Obj, finalizers_of, is_deleting, labels_of, spec_of, status_of
from corral.core.patch.apply import STAND_IN
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.apiextensions.rules import SHIPPED
from corral.kinds.machinery.crd import crd_manifest
from corral.kinds.machinery.definition import KindDef
from corral.runtime.controller import Manager, Result
from corral.server.api import Api, ListOptions
from corral.server.lifecycle.identity import system_user
from corral.server.lifecycle.notices import DEFINITIONS, keep_notices
from corral.server.lifecycle.served_definitions import BUCKET, ServedDefinitions
from corral.server.verbs.delete import CRD_CLEANUP as CLEANUP
from corral.server.verbs.intake import in_order
from corral.store import Event, ObjectKey, Stale, Stored

_RECHECK_S = 1.0
_ATTEMPTS = 5


class Definitions:
    """Accepts, establishes, serves and removes custom definitions."""

    name = "custom-resource-definition"

    def __init__(self, api: Api, manager: Manager) -> None:
        self._api = api
        self._store = api.store
        self._manager = manager
        self._user = system_user("custom-resource-definition-controller")
        self._natives = {kind.group_resource: kind for kind in api.registry.natives}
        self._served = ServedDefinitions(api.registry)
        self._reported: dict[
            str, int
        ] = {}  # generation of the definitions of natives that were reported to change nothing
        self._recorder = manager.recorder.named(self.name)
        self._queue = manager.add(self, watches=[]).about(self._find).queue
        for stored in self._store.scan(BUCKET):
            if not self._is_shipped(stored):
                self._served.serve(stored.obj, self._store.assigned)
                self._reported[stored.key.name] = stored.generation
                self._queue.add(Key("", stored.key.name))
        self._store.observe(self._changed)
        self._api.after_create[BUCKET] = self.reconcile
        manager.run_task(self._ship, "shipped definitions")

    def _changed(self, event: Event) -> None:
        key = event.stored.key
        if key.resource == BUCKET:
            if event.type == "DELETED" and key.name in self._natives:
                self._queue.add(Key("", key.name))
            elif event.type == "DELETED":
                self._served.stop(key.name)
            elif not self._is_shipped(event.stored):
                self._queue.add(Key("", key.name))
        elif event.type == "DELETED":
            parent = self._store.get(ObjectKey(BUCKET, "", key.resource)) if "." in key.resource else None
            if parent is not None and is_deleting(parent.obj):
                self._queue.add(Key("", key.resource))

    def _find(self, key: Key) -> Obj | None:
        stored = self._store.get(ObjectKey(BUCKET, "", key.name))
        return stored.obj if stored is not None else None

    async def reconcile(self, key: Key) -> Result | None:
        for _ in range(_ATTEMPTS):
            stored = self._store.get(ObjectKey(BUCKET, "", key.name))
            if stored is None:
                if key.name in self._natives:
                    await self._ship_one(self._natives[key.name])
                    await self._tell_applied()
                return None
            crd = stored.obj
            if is_deleting(crd):
                return await self._remove(stored)
            changed = self._accepted(crd)
            if changed == crd or await self._write(stored, changed):
                self._served.serve(changed, self._store.assigned)
                if key.name in self._natives and not self._is_shipped(stored):
                    await self._tell(changed)
                return None
            # Whoever creates a definition wants it served when that is answered, also if somebody was faster here.
            await self._store.settled()
        self._queue.add(key)
        return None

    # -- accepting ----------------------------------------------------------------------------------------------------

    def _accepted(self, crd: Obj) -> Obj:
        """The definition with accepted names, stored versions and conditions as they should be."""
        spec, status = spec_of(crd), status_of(crd)
        now = self._api.clock.timestamp()
        clash = self._clash(crd)
        if clash is None:
            verdict = condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
            accepted = spec["names"]
        else:
            verdict, accepted = clash, status.get("acceptedNames") or {"plural": "", "kind": ""}
        found = conditions.set_condition(status.get("conditions") or [], verdict, now)
        if clash is None and not is_true(crd, "Established"):
            established = condition(
                "Established", "True", "InitialNamesAccepted", "the initial names have been accepted"
            )
            found = conditions.set_condition(found, established, now)
        elif clash is not None and conditions.find(crd, "Established") is None:
            refused = condition("Established", "False", "NotAccepted", "not all names are accepted")
            found = conditions.set_condition(found, refused, now)
        storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
        versions = status.get("storedVersions") or []
        if storage not in versions:
            versions = [*versions, storage]
        new = {**status, "conditions": found, "acceptedNames": accepted, "storedVersions": versions}
        metadata = crd["metadata"]
        if metadata["name"] in self._natives and SHIPPED not in labels_of(crd):
            metadata = {**metadata, "labels": {**labels_of(crd), SHIPPED: __version__}}
        return {**crd, "metadata": metadata, "status": new}

    def _clash(self, crd: Obj) -> Obj | None:
        """The condition that says which name another kind of the group already has."""
        spec = spec_of(crd)
        names = spec["names"]
        taken: dict[str, str] = {}
        for kind in self._api.registry.in_group(spec["group"]):
            if kind.group_resource != crd["metadata"]["name"]:
                taken.update(dict.fromkeys((kind.plural, kind.singular, *kind.short_names), kind.group_resource))
        for field, reason in (("plural", "PluralConflict"), ("singular", "SingularConflict")):
            if names.get(field) in taken:
                return _conflict(reason, names[field])
        for name in names.get("shortNames") or ():
            if name in taken:
                return _conflict("ShortNamesConflict", name)
        kinds = {kind.kind: kind.group_resource for kind in self._api.registry.in_group(spec["group"])}
        if kinds.get(names["kind"], crd["metadata"]["name"]) != crd["metadata"]["name"]:
            return _conflict("KindConflict", names["kind"])
        return None

    async def _write(self, stored: Stored, changed: Obj) -> bool:
        try:
            await self._store.put(stored.key, in_order(changed), expected=stored.revision)
        except Stale:
            return False
        return True

    # -- telling ------------------------------------------------------------------------------------------------------

    async def _tell(self, crd: Obj) -> None:
        """Say of an applied definition of a native, once for each change, that it changes nothing."""
        name, generation = crd["metadata"]["name"], crd["metadata"].get("generation") or 0
        if self._reported.get(name) == generation:
            return
        self._reported[name] = generation
        self._recorder.event(
            crd, "Normal", "ServedByCorral", "Corral serves this kind itself; its definition has no effect"
        )
        await self._tell_applied()

    async def _tell_applied(self) -> None:
        heads = ((name, self._store.head(ObjectKey(BUCKET, "", name))) for name in sorted(self._natives))
        applied = [name for name, head in heads if head is not None and not self._is_shipped(head)]
        sentence = f"Corral serves these kinds itself; their applied definitions have no effect: {', '.join(applied)}"
        await keep_notices(self._manager.client, DEFINITIONS, [sentence] if applied else [])

    # -- removing -----------------------------------------------------------------------------------------------------

    async def _remove(self, stored: Stored) -> Result | None:
        crd = stored.obj
        if CLEANUP not in finalizers_of(crd):
            return None
        plural, _, group = stored.key.name.partition(".")
        kind = self._api.registry.get(group, plural)
        left = self._store.count(stored.key.name)
        if kind is not None and left:
            try:
                await self._api.delete_collection(self._user, kind.resource(), ListOptions())
            except ApiError as error:
                await self._note_terminating(
                    crd, "InstanceDeletionFailed", f"could not delete instances: {error.message}"
                )
                return Result(_RECHECK_S)
            left = self._store.count(stored.key.name)
        if left:
            message = f"{left} instances are still there"
            await self._note_terminating(crd, "InstanceDeletionInProgress", message)
            return Result(_RECHECK_S)
        await asyncio.sleep(0)  # a store in memory never waits, and each of a collection takes milliseconds to check
        await self._let_go(stored.key.name)
        return None

    async def _note_terminating(self, crd: Obj, reason: str, message: str) -> None:
        found = status_of(crd).get("conditions") or []
        new = conditions.set_condition(
            found, condition("Terminating", "True", reason, message), self._api.clock.timestamp()
        )
        stored = self._store.get(ObjectKey(BUCKET, "", crd["metadata"]["name"]))
        if new != found and stored is not None:
            await self._write(stored, {**stored.obj, "status": {**status_of(stored.obj), "conditions": new}})

    async def _let_go(self, name: str) -> None:
        current = (await self._api.get(self._user, CUSTOM_RESOURCE_DEFINITIONS, "", name)).obj
        kept = [finalizer for finalizer in finalizers_of(current) if finalizer != CLEANUP]
        patch = {"metadata": {"resourceVersion": current["metadata"]["resourceVersion"], "finalizers": kept or None}}
        try:
            await self._api.patch(self._user, CUSTOM_RESOURCE_DEFINITIONS, "", name, "merge", patch)
        except NotFound:
            return
        except Conflict:
            self._queue.add(Key("", name))

    # -- shipping -----------------------------------------------------------------------------------------------------

    def _is_shipped(self, stored: Stored) -> bool:
        """Whether this is a definition Corral wrote and nobody changed since."""
        return stored.labels.get(SHIPPED) == __version__ and stored.key.name in self._natives and stored.generation == 1

    async def _ship(self) -> None:
        """Write the definitions of shipped kinds that are missing, or that an older release wrote."""
        for kind in self._natives.values():
            await self._ship_one(kind)
            await asyncio.sleep(0)

    async def _ship_one(self, kind: KindDef) -> None:
        key = ObjectKey(BUCKET, "", kind.group_resource)
        stored = self._store.head(key)
        if stored is not None and (SHIPPED not in stored.labels or self._is_shipped(stored) or stored.generation != 1):
            return
        try:
            written = await self._store.put(
                key, self._shipped(kind, stored), expected=stored.revision if stored is not None else 0
            )
        except Stale:
            return  # somebody wrote their own at this moment
        written.set_aside()

    def _shipped(self, kind: KindDef, old: Stored | None) -> Obj:
        """The definition of a shipped kind as it looks when established."""
        manifest = crd_manifest(kind)
        now = self._api.clock.timestamp()
        before = old.obj["metadata"] if old is not None else {}
        metadata = {
            "name": kind.group_resource,
            "uid": before.get("uid") or self._api.random.uid(),
            "generation": 1,
            "creationTimestamp": before.get("creationTimestamp") or now,
            "labels": {SHIPPED: __version__},
            # Somebody who owns nothing: without any owner, everything would belong to "before-first-apply".
            "managedFields": [
                {
                    "manager": STAND_IN,
                    "operation": "Update",
                    "apiVersion": manifest["apiVersion"],
                    "time": now,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {},
                }
            ],
        }
        return self._accepted(in_order({**manifest, "metadata": metadata}))


def _conflict(reason: str, name: str) -> Obj:
    return condition("NamesAccepted", "False", reason, f'"{name}" is already in use')
