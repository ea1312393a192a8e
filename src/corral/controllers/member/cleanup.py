"""Undoing: objects that a Work no longer names, and everything of a Work that is deleted."""

from __future__ import annotations

from typing import Final

from corral.client.protocol import Client, Propagation
from corral.configuration.member import MemberSettings
from corral.controllers.member.manifests import AGENT
from corral.core.errors import ApiError, NotFound
from corral.core.meta import (
    Obj,
    annotations_of,
    finalizers_of,
    is_deleting,
    metadata_of,
    name_of,
    owner_references_of,
    status_of,
    uid_of,
    without_finalizer,
)
from corral.core.resource import Resource
from corral.core.timestamps import parse_time
from corral.decide.member.ownership import is_owned, is_same, reference_to
from corral.decide.placement.delivery import ABANDON
from corral.kinds.fleet import APPLIED_WORKS, WORKS
from corral.kinds.fleet.names import WORK_CLEANUP
from corral.runtime.clock import Clock
from corral.runtime.controller import Result

_CHECK_S: Final = 5.0


class Cleanup:
    """Removes what Works made. Objects that are not ours are never deleted."""

    def __init__(self, hub: Client, member: Client, clock: Clock, settings: MemberSettings) -> None:
        self._hub = hub
        self._member = member
        self._clock = clock
        self._settings = settings

    async def remove_left_over(self, identifier: Obj, resource: Resource, ours: Obj) -> None:
        """Delete an object that left its Work, or only give it up when it has other owners."""
        namespace, name = str(identifier.get("namespace") or ""), str(identifier["name"])
        try:
            live = await self._member.get(resource, name, namespace)
        except NotFound:
            return
        if not is_owned(live, ours):
            return
        others = [one for one in owner_references_of(live) if not is_same(one, ours)]
        try:
            if others:
                freed = {**live, "metadata": {**metadata_of(live), "ownerReferences": others}}
                await self._member.update(resource, freed, manager=AGENT)
            else:
                await self._member.delete(resource, name, namespace, uid=uid_of(live), propagation="Background")
        except NotFound:
            return

    async def collect(self, work: Obj) -> Result | None:
        """Take down everything of a deleted Work; its finalizer goes when the member has nothing left of it."""
        if WORK_CLEANUP not in finalizers_of(work):
            return None
        try:
            applied = await self._member.get(APPLIED_WORKS, name_of(work))
        except NotFound:
            await self.release(work)
            return None
        if not is_deleting(applied):
            how: Propagation = "Orphan" if annotations_of(work).get(ABANDON) == "true" else "Foreground"
            await self._member.delete(APPLIED_WORKS, name_of(applied), uid=uid_of(applied), propagation=how)
            return Result(_CHECK_S)
        since = parse_time(metadata_of(applied)["deletionTimestamp"])
        if self._clock.now() - since >= self._settings.deletion_wait:
            await self._unblock(applied)
        return Result(_CHECK_S)

    async def release(self, work: Obj) -> None:
        """Let the hub forget a Work."""
        try:
            await self._hub.update(WORKS, without_finalizer(work, WORK_CLEANUP))
        except NotFound:
            return

    async def _unblock(self, applied: Obj) -> None:
        """Stop waiting for objects that others own too: they will not go away with us."""
        ours = reference_to(applied)
        for entry in status_of(applied).get("appliedResources") or ():
            resource = Resource(
                entry.get("group", ""), entry["version"], entry["resource"], entry["kind"], bool(entry.get("namespace"))
            )
            try:
                live = await self._member.get(resource, entry["name"], entry.get("namespace", ""))
                references = owner_references_of(live)
                if not is_owned(live, ours) or len(references) < 2:
                    continue
                eased = [{**one, "blockOwnerDeletion": False} if is_same(one, ours) else one for one in references]
                body = {**live, "metadata": {**metadata_of(live), "ownerReferences": eased}}
                await self._member.update(resource, body, manager=AGENT)
            except ApiError:
                continue  # looked at again with the next check
