"""The history of a pod template: one ControllerRevision for every version, numbered in the order they were last used."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.core.errors import AlreadyExists
from corral.core.meta import (
    Obj,
    is_deleting,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
)
from corral.decide.apps.revision import template_hash
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.kinds.kubernetes.apps.kinds import CONTROLLER_REVISIONS
from corral.runtime.controller import Manager

HISTORY_LIMIT = 10


class History:
    """The ControllerRevisions of one kind's objects."""

    def __init__(self, client: Client, manager: Manager, manager_name: str) -> None:
        self._client = client
        self._manager_name = manager_name
        self._revisions = manager.informer(CONTROLLER_REVISIONS)
        index_by_controller(self._revisions)

    def of(self, owner: Obj) -> list[Obj]:
        return controlled_by(self._revisions, owner)

    async def note(self, owner: Obj, content: Obj | None = None, field: str = "template") -> str:
        """Make sure that the template as it is now is the latest revision; returns the revision's name.

        `content` is what makes a revision and `field` where it is in the spec; without them it is the pod template.
        """
        template = content if content is not None else spec_of(owner).get("template") or {}
        collisions = int(status_of(owner).get("collisionCount") or 0)
        name = f"{name_of(owner)}-{template_hash(template, collisions)}"
        held = self.of(owner)
        latest = max((int(entry.get("revision") or 0) for entry in held), default=0)
        known = next((entry for entry in held if name_of(entry) == name), None)
        if is_deleting(owner):
            return name
        if known is None:
            await self._create(owner, name, {field: {**template, "$patch": "replace"}}, latest + 1)
        elif int(known.get("revision") or 0) < latest:
            # Somebody went back to an older template: it is the latest now.
            await self._client.update(
                CONTROLLER_REVISIONS, {**known, "revision": latest + 1}, manager=self._manager_name
            )
        return name

    async def _create(self, owner: Obj, name: str, spec: Obj, revision: int) -> None:
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        body = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": name,
                "namespace": namespace_of(owner),
                "labels": {**labels, "controller.kubernetes.io/hash": name.rpartition("-")[2]},
                "ownerReferences": [owner_ref(owner)],
            },
            "data": {"spec": spec},
            "revision": revision,
        }
        try:
            await self._client.create(CONTROLLER_REVISIONS, body, manager=self._manager_name)
        except AlreadyExists:
            return

    async def forget(self, owner: Obj, used: set[str]) -> None:
        """Delete the oldest revisions beyond the limit; those that are `used`, by name, stay and do not count."""
        limit = spec_of(owner).get("revisionHistoryLimit")
        unused = [entry for entry in self.of(owner) if name_of(entry) not in used]
        unused.sort(key=lambda entry: int(entry.get("revision") or 0))
        for entry in unused[: max(0, len(unused) - (HISTORY_LIMIT if limit is None else int(limit)))]:
            await self._client.delete(CONTROLLER_REVISIONS, name_of(entry), namespace_of(entry))
