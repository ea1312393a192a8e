"""Works: what the hub wants on this member. Each is applied in waves, looked at again and again, and reported on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from corral.configuration.member import MemberSettings
from corral.controllers.member.cleanup import Cleanup
from corral.controllers.member.discovery import Discover
from corral.controllers.member.jobs import PlacedJobs
from corral.controllers.member.manifests import Manifests, Task
from corral.controllers.member.metrics import MemberMetrics
from corral.core import conditions
from corral.core.errors import AlreadyExists, NotFound, ServiceUnavailable
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    finalizers_of,
    generation_of,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    with_finalizer,
    with_status,
)
from corral.core.notes import Notes
from corral.core.resource import Resource
from corral.decide.member.backoff import Pace, next_pace
from corral.decide.member.manifests import Manifest, group_version_kind, identify
from corral.decide.member.outcome import Outcome
from corral.decide.member.ownership import reference_to
from corral.decide.member.queue import ANNOTATIONS, FINISHED_JOBS, memory, remembered, yields_to_queue
from corral.decide.member.strategy import strategy_of
from corral.decide.member.waves import waves
from corral.decide.member.work_status import (
    applied_resources,
    is_planned,
    is_settled,
    left_over,
    plan,
    planned,
    prepared,
    refreshed,
)
from corral.kinds.fleet import APPLIED_WORKS, WORKS
from corral.kinds.fleet.names import WORK_CLEANUP
from corral.runtime.changes import changed
from corral.runtime.controller import Controller, Manager, Result, Watch


class WorkApplier:
    """Keeps the member as the Works of its hub say, while it is joined."""

    name = "work"

    def __init__(
        self,
        hub: Manager,
        member: Manager,
        namespace: str,
        settings: MemberSettings,
        discover: Discover,
        jobs: PlacedJobs,
        is_joined: Callable[[], bool],
    ) -> None:
        self._hub = hub.client
        self._member = member.client
        self._clock = hub.clock
        self._settings = settings
        self._discover = discover
        self._jobs = jobs
        self._is_joined = is_joined
        self._namespace = namespace
        self._manifests = Manifests(member.client, settings, jobs.workload_of)
        self._cleanup = Cleanup(hub.client, member.client, hub.clock, settings)
        self._metrics = member.metrics.part(MemberMetrics)
        self._paces = Notes[Pace]()
        self._works = hub.informer(WORKS, namespace=namespace)
        self._controller: Controller = hub.add(self, watches=[], workers=settings.workers)
        self._works.on_change(self._controller.trigger(Watch(WORKS, when=changed(generation_of, is_deleting, _heeded))))

    def wake(self, work: str) -> None:
        """Look at a Work now."""
        self._controller.queue.add(Key(self._namespace, work))

    def wake_all(self) -> None:
        for work in self._works.list():
            self.wake(name_of(work))

    async def release_all(self) -> None:
        """Give up every Work: the hub may delete them, and what they placed stays."""
        for work in (await self._hub.list(WORKS, self._namespace)).items:
            if WORK_CLEANUP in finalizers_of(work):
                await self._cleanup.release(work)

    async def reconcile(self, key: Key) -> Result | None:
        work = self._works.get(key)
        if work is None or not self._is_joined():
            self._paces.forget(key)
            return None
        if is_deleting(work):
            return await self._cleanup.collect(work)
        began = self._clock.monotonic()
        manifests = await self._identified(work)
        applied = await self._ensure_applied_work(work, manifests)
        if WORK_CLEANUP not in finalizers_of(work):
            work = await self._hub.update(WORKS, with_finalizer(work, WORK_CLEANUP))
        strategy = strategy_of(work)
        ours = reference_to(applied)
        if not strategy.reports_diff and not _is_attempted(work):
            await self._remove_left_overs(work, planned(applied), manifests, ours)
            if not is_planned(applied, work, manifests):
                work = await self._write_status(work, prepared(work, manifests, self._clock.timestamp()))
        await self._jobs.follow(name_of(work), manifests, prompt=yields_to_queue(work) or strategy.report_back)
        task = Task(work, strategy, ours, self._memory(applied, manifests))
        outcomes = await self._process(manifests, task)
        status = refreshed(
            work,
            outcomes,
            self._clock.timestamp(),
            report_diff=strategy.reports_diff,
            count_degraded=not self._settings.keep_defects,
        )
        work = await self._write_status(work, status)
        await self._write_applied(applied, outcomes)
        took = self._clock.monotonic() - began
        self._metrics.work(name_of(work), took, status, outcomes, report_diff=strategy.reports_diff)
        results = [(outcome.reason, outcome.availability) for outcome in outcomes]
        pace = next_pace(
            self._paces.get(work), generation_of(work), results, is_settled(status), self._settings.backoff
        )
        self._paces.put(work, pace)
        return Result(pace.delay)

    async def _identified(self, work: Obj) -> list[Manifest]:
        objects: list[Obj] = (spec_of(work).get("workload") or {}).get("manifests") or []
        kinds = {group_version_kind(obj) for obj in objects}
        return identify(objects, {kind: await self._discover(*kind) for kind in sorted(kinds)})

    async def _process(self, manifests: list[Manifest], task: Task) -> list[Outcome]:
        """All outcomes in the order of the manifests. Nothing is written when only reporting, so one wave will do."""
        groups = [manifests] if task.strategy.reports_diff else waves(manifests)
        found: list[Outcome] = []
        for group in groups:
            found += await asyncio.gather(*(self._manifests.process(manifest, task) for manifest in group))
        return sorted(found, key=lambda outcome: outcome.manifest.ordinal)

    async def _ensure_applied_work(self, work: Obj, manifests: list[Manifest]) -> Obj:
        try:
            applied = await self._member.get(APPLIED_WORKS, name_of(work))
        except NotFound:
            spec = {"workName": name_of(work), "workNamespace": namespace_of(work)}
            notes = {} if self._settings.announce else plan(work, manifests)
            body: Obj = {"metadata": {"name": name_of(work), "annotations": notes}, "spec": spec}
            try:
                applied = await self._member.create(APPLIED_WORKS, body)
            except AlreadyExists:
                applied = await self._member.get(APPLIED_WORKS, name_of(work))
        if is_deleting(applied):
            raise ServiceUnavailable(f"AppliedWork {name_of(work)} of an earlier Work is still being deleted")
        return applied

    async def _remove_left_overs(self, work: Obj, planned: list[Obj], manifests: list[Manifest], ours: Obj) -> None:
        """Before the new list is written, so that a crash in between forgets nothing."""
        for identifier in left_over(work, manifests, planned, only_healthy=self._settings.keep_defects):
            kind = (identifier.get("group", ""), identifier["version"], identifier["kind"])
            resource: Resource | None = await self._discover(*kind)
            if resource is not None:
                await self._cleanup.remove_left_over(identifier, resource, ours)

    async def _write_status(self, work: Obj, status: Obj) -> Obj:
        if status == status_of(work):
            return work
        return await self._hub.update(WORKS, with_status(work, status), subresource="status")

    def _memory(self, applied: Obj, manifests: list[Manifest]) -> dict[str, Obj]:
        """What is known of finished jobs: what was written down, and what was seen to end since."""
        found = remembered(applied)
        if self._settings.remember_finished:
            found |= self._jobs.ended_of(manifests, applied)
        return found

    async def _write_applied(self, applied: Obj, outcomes: list[Outcome]) -> None:
        status = applied_resources(outcomes)
        note = memory(self._jobs.finished(outcomes, applied))
        if note != annotations_of(applied).get(FINISHED_JOBS):
            patch = {"metadata": {"annotations": {FINISHED_JOBS: note}}}
            applied = await self._member.patch(APPLIED_WORKS, name_of(applied), "", patch)
        if status != status_of(applied):
            await self._member.update(APPLIED_WORKS, with_status(applied, status), subresource="status")


def _heeded(work: Obj) -> list[str | None]:
    """The annotations of a Work that change what is done with it."""
    annotations = annotations_of(work)
    return [annotations.get(name) for name in ANNOTATIONS]


def _is_attempted(work: Obj) -> bool:
    """Whether this generation of a Work has been reported on."""
    entry = conditions.find(work, "Applied")
    return entry is not None and entry.get("observedGeneration") == generation_of(work)
