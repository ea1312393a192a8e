"""ClusterProfiles: every member that joined is shown in the hub's inventory, and taken out when it leaves."""

from __future__ import annotations

from collections.abc import Iterable

from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.writes import drop_finalizer, ensure_finalizer, write_status
from corral.core.conditions import find
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import Key, Obj, generation_of, is_deleting, labels_of, name_of, spec_of, with_labels
from corral.decide.placement.inventory import heartbeat_of, news_for_profile, profile_of, profile_status, silence
from corral.kinds.fleet import CLUSTER_PROFILES, MEMBER_CLUSTERS
from corral.kinds.fleet.names import PROFILE_CLEANUP, SYSTEM_NAMESPACE
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.runtime.controller import Manager, Result, Watch


def _member_key(profile: Obj) -> Iterable[Key]:
    return (Key("", name_of(profile)),)


class ProfileController:
    """Its keys are members. Silence of a member is noticed when it lasts too long, not only when something changes."""

    name = "cluster-profile"

    def __init__(self, manager: Manager, settings: PlacementSettings) -> None:
        self._threshold = settings.unhealthy_after
        self._client: Client = manager.client
        self._clock = manager.clock
        self._members = manager.informer(MEMBER_CLUSTERS)
        self._profiles = manager.informer(CLUSTER_PROFILES, namespace=SYSTEM_NAMESPACE)
        controller = manager.add(self, watches=[Watch(MEMBER_CLUSTERS, when=self._member_changed)])
        self._profiles.on_change(controller.trigger(Watch(CLUSTER_PROFILES, map=_member_key, when=_profile_changed)))

    def _member_changed(self, old: Obj | None, new: Obj | None) -> bool:
        """Not a heartbeat that says what the last one said, unless it ends a silence."""
        if old is None or new is None or generation_of(old) != generation_of(new):
            return True
        if is_deleting(old) != is_deleting(new) or news_for_profile(old) != news_for_profile(new):
            return True
        return heartbeat_of(new) - heartbeat_of(old) > self._threshold

    async def reconcile(self, key: Key) -> Result | None:
        member = self._members.get(key)
        if member is None or is_deleting(member):
            await self._remove(key.name)
            if member is not None:
                await drop_finalizer(self._client, MEMBER_CLUSTERS, member, PROFILE_CLEANUP)
            return None
        joined = find(member, "Joined") or {}
        if joined.get("status") != "True" or joined.get("observedGeneration") != generation_of(member):
            return None
        member = await ensure_finalizer(self._client, MEMBER_CLUSTERS, member, PROFILE_CLEANUP)
        profile = await self._ensure(profile_of(member, SYSTEM_NAMESPACE))
        now = self._clock.now()
        status = profile_status(member, profile, now, self._clock.timestamp(), self._threshold)
        await write_status(self._client, CLUSTER_PROFILES, profile, status)
        left = self._threshold - silence(member, now)
        return Result(requeue_after=left + 1.0) if left >= 0 else None

    async def _ensure(self, wanted: Obj) -> Obj:
        live = self._profiles.get(Key(SYSTEM_NAMESPACE, name_of(wanted)))
        if live is None:
            try:
                return await self._create(wanted)
            except AlreadyExists:
                live = await self._client.get(CLUSTER_PROFILES, name_of(wanted), SYSTEM_NAMESPACE)
        labels = labels_of(wanted)
        if spec_of(live) == spec_of(wanted) and labels.items() <= labels_of(live).items():
            return live
        return await self._client.update(CLUSTER_PROFILES, {**with_labels(live, labels), "spec": spec_of(wanted)})

    async def _create(self, wanted: Obj) -> Obj:
        try:
            return await self._client.create(CLUSTER_PROFILES, wanted)
        except NotFound:
            # The hub's own namespace is made with its first member.
            try:
                await self._client.create(NAMESPACES, {"metadata": {"name": SYSTEM_NAMESPACE}})
            except AlreadyExists:
                pass
            return await self._client.create(CLUSTER_PROFILES, wanted)

    async def _remove(self, name: str) -> None:
        try:
            await self._client.delete(CLUSTER_PROFILES, name, SYSTEM_NAMESPACE)
        except NotFound:
            pass


def _profile_changed(old: Obj | None, new: Obj | None) -> bool:
    """Profiles that are deleted or changed by somebody else are put right; our own writes are nothing new."""
    return new is None or (old is not None and generation_of(old) != generation_of(new))
