"""ClusterResourcePlacementStatus: a copy of a placement's status for those who may only read its namespace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.controllers.placement.placement_kinds import Scope
from corral.controllers.placement.writes import write_status
from corral.core.conditions import condition, find, set_condition
from corral.core.errors import AlreadyExists, ApiError
from corral.core.meta import Key, Obj, generation_of, name_of, owner_ref, owner_references_of, spec_of, status_of
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, PLACEMENT_STATUSES
from corral.runtime.controller import Manager, Watch

SYNCED = "ClusterResourcePlacementStatusSynced"


def _namespace(placement: Obj) -> str:
    selectors = spec_of(placement).get("resourceSelectors") or ()
    return next((str(one.get("name") or "") for one in selectors if one.get("kind") == "Namespace"), "")


def _owner(obj: Obj) -> Iterable[Key]:
    return (Key("", ref["name"]) for ref in owner_references_of(obj) if ref.get("kind") == "ClusterResourcePlacement")


class StatusMirror:
    """Keeps the copies of NamespaceAccessible placements."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._copies = manager.informer(PLACEMENT_STATUSES)
        self._copies.add_index("placement", lambda obj: (name_of(obj),))

    def watches(self, scope: Scope) -> Sequence[Watch]:
        return () if scope.namespaced else (Watch(PLACEMENT_STATUSES, map=_owner),)

    def refusal(self, placement: Obj) -> str:
        """Why a NamespaceAccessible placement may not go on; empty when it may."""
        if spec_of(placement).get("statusReportingScope") != "NamespaceAccessible":
            return ""
        wanted = _namespace(placement)
        for copy in self._copies.by_index("placement", name_of(placement)):
            first = str(copy["metadata"]["namespace"])
            if first != wanted and any(key.name == name_of(placement) for key in _owner(copy)):
                return (
                    f"namespace resource selector is choosing a different namespace '{wanted}' from what was originally"
                    f" picked '{first}'. This is not allowed for NamespaceAccessible ClusterResourcePlacement"
                )
        return ""

    async def sync(self, placement: Obj, status: Obj) -> None:
        """Bring the copy of a placement's status up to date and say so on the placement."""
        if spec_of(placement).get("statusReportingScope") != "NamespaceAccessible":
            return
        namespace = _namespace(placement)
        source = {
            **status,
            "conditions": [one for one in status.get("conditions") or () if one["type"] != SYNCED],
        }
        generation = generation_of(placement)
        try:
            await self._write(placement, namespace, source)
        except ApiError as error:
            text = f"Failed to create or update ClusterResourcePlacementStatus: {error}"
            entry = condition(SYNCED, False, "StatusSyncFailed", text, generation)
        else:
            text = f"Successfully created or updated ClusterResourcePlacementStatus in namespace '{namespace}'"
            entry = condition(SYNCED, True, "StatusSyncSucceeded", text, generation)
        if _says(status, entry):
            return
        current = await self._client.get(CLUSTER_RESOURCE_PLACEMENTS, name_of(placement))
        conditions = set_condition(status_of(current).get("conditions") or [], entry, self._clock.timestamp())
        merged = {**status_of(current), "conditions": conditions}
        await write_status(self._client, CLUSTER_RESOURCE_PLACEMENTS, current, merged)

    async def _write(self, placement: Obj, namespace: str, source: Obj) -> None:
        copy = self._copies.get(Key(namespace, name_of(placement)))
        if copy is not None:
            if copy.get("sourceStatus") != source:
                body = {**copy, "sourceStatus": source, "lastUpdatedTime": self._clock.timestamp()}
                await self._client.update(PLACEMENT_STATUSES, body)
            return
        metadata = {"name": name_of(placement), "namespace": namespace, "ownerReferences": [owner_ref(placement)]}
        body = {"metadata": metadata, "sourceStatus": source, "lastUpdatedTime": self._clock.timestamp()}
        try:
            await self._client.create(PLACEMENT_STATUSES, body)
        except AlreadyExists:
            pass  # the cache is behind; its event comes back here


def _says(status: Obj, entry: Obj) -> bool:
    old = find(status.get("conditions") or [], SYNCED)
    return old is not None and all(old.get(part) == entry.get(part) for part in entry)
