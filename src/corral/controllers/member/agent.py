"""The member agent: membership and Works of one hub, on one connection."""

from __future__ import annotations

import asyncio

from corral.client.protocol import Client
from corral.configuration.member import MemberSettings
from corral.controllers.member.discovery import Discover
from corral.controllers.member.jobs import PlacedJobs
from corral.controllers.member.membership import Membership
from corral.controllers.member.properties import PropertyProvider
from corral.controllers.member.works import WorkApplier
from corral.core.meta import Key, Obj, name_of
from corral.kinds.fleet import APPLIED_WORKS
from corral.kinds.fleet.names import member_namespace
from corral.runtime.controller import Manager


class MemberAgent:
    """What runs in a member. Its caches of the member outlive connections to the hub."""

    def __init__(self, member: Manager, settings: MemberSettings, discover: Discover) -> None:
        self._member = member
        self._settings = settings
        self._discover = discover
        self._provider: PropertyProvider | None = None
        self._jobs = PlacedJobs(member, discover, remember=settings.remember_finished, friendly=settings.queue_friendly)
        self._applier: WorkApplier | None = None
        self._watching = False

    async def run(self, hub: Client, name: str) -> None:
        """Serve one hub, which knows this member as `name`, until cancelled."""
        if self._provider is None:
            self._provider = PropertyProvider(self._member, self._discover, self._settings)
        namespace = member_namespace(name)
        manager = Manager(
            hub,
            self._member.clock,
            self._member.random.fork("hub"),
            component="member-agent",
            metrics=self._member.metrics,
        )
        key = Key(namespace, name)
        membership = Membership(manager, self._member.client, key, self._provider, self._discover)
        applier = WorkApplier(
            manager, self._member, namespace, self._settings, self._discover, self._jobs, lambda: membership.joined
        )
        membership.on_join = self._joined
        membership.on_leave = applier.release_all
        self._applier = applier
        self._jobs.wake = applier.wake
        try:
            await manager.start()
            await asyncio.get_running_loop().create_future()
        finally:
            self._applier = None
            self._jobs.wake = lambda work: None
            await manager.stop()

    def _joined(self) -> None:
        """The member serves AppliedWorks and wants Works now."""
        informer = self._member.informer(APPLIED_WORKS)
        if not self._watching:
            self._watching = True
            informer.on_change(self._applied_work_changed)
        if self._applier is not None:
            self._applier.wake_all()

    def _applied_work_changed(self, old: Obj | None, new: Obj | None) -> None:
        """What was being deleted is gone: the Work can go too."""
        if new is None and old is not None and self._applier is not None:
            self._applier.wake(name_of(old))
