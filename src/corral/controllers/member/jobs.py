"""The jobs a member runs for its hub: noticed when they finish, before their TTL removes them, and as they progress.

Only kinds that end are watched, and only once a Work has brought one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from corral.controllers.member.discovery import Discover
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    is_owned_by,
    key_of,
    name_of,
    owner_references_of,
    status_of,
    uid_of,
)
from corral.core.resource import Resource
from corral.decide.member.manifests import Manifest, hash_of, identity
from corral.decide.member.outcome import Outcome
from corral.decide.member.ownership import is_applied_work
from corral.decide.member.queue import is_queued, progress, remembered, yields_to_queue
from corral.jobs.framework.registry import ENDINGS
from corral.kinds.fleet.names import SPEC_HASH
from corral.kinds.kueue import WORKLOADS
from corral.runtime.controller import Manager
from corral.runtime.informer import Informer

_MAX_REMEMBERED: Final = 4096


class PlacedJobs:
    """Watches jobs that carry an AppliedWork's reference. `wake` is called with the name of their Work."""

    def __init__(self, manager: Manager, discover: Discover, *, remember: bool, friendly: bool) -> None:
        self._manager = manager
        self._discover = discover
        self._remember = remember
        self._friendly = friendly
        self.wake: Callable[[str], None] = lambda work: None
        self._watched: dict[Resource, Informer] = {}
        self._workloads: Informer | None = None
        self._prompt: set[str] = set()
        self._ended: dict[str, Obj] = {}
        self._by_uid: dict[str, Obj] = {}

    async def follow(self, work: str, manifests: Sequence[Manifest], *, prompt: bool) -> None:
        """Watch the kinds of these manifests from now on, when they are kinds of jobs.

        `prompt` wakes the Work with every step its jobs make, as jobs do that ask themselves to be left to the
        queue."""
        (self._prompt.add if prompt else self._prompt.discard)(work)
        for manifest in manifests:
            resource = manifest.resource
            if resource is None or resource in self._watched or not ENDINGS.knows(resource.group, resource.kind):
                continue
            if not self._remember and not self._wants_progress(manifest.obj, work):
                continue
            self._watched[resource] = self._manager.informer(resource)
            self._watched[resource].on_change(self._changed)
        wants = any(is_queued(manifest.obj) and self._wants_progress(manifest.obj, work) for manifest in manifests)
        if wants and self._workloads is None and await self._discover(WORKLOADS.group, WORKLOADS.version, "Workload"):
            self._workloads = self._manager.informer(WORKLOADS)
            self._workloads.add_index("owner", lambda obj: [str(one.get("uid")) for one in owner_references_of(obj)])
            self._workloads.on_change(self._workload_changed)

    def workload_of(self, job: Obj) -> Obj | None:
        """The Workload with which a job waits in the queue, if it is known."""
        found = self._workloads.by_index("owner", uid_of(job)) if self._workloads is not None else []
        return found[0] if found else None

    def ended_of(self, manifests: Iterable[Manifest], applied_work: Obj) -> dict[str, Obj]:
        """Jobs of these manifests that were seen to end since this agent started, as `finished` writes them down."""
        found = {}
        for manifest in manifests:
            job = self._ended.get(_name(name_of(applied_work), manifest.key, str(manifest.obj.get("kind"))))
            # A Work that was deleted and made anew has another AppliedWork: its jobs have not run yet.
            if job is None or not is_owned_by(job, uid_of(applied_work)):
                continue
            if annotations_of(job).get(SPEC_HASH) == hash_of(manifest.obj):
                found["/".join(identity(manifest.identifier))] = _entry(job)
        return found

    def finished(self, outcomes: Sequence[Outcome], applied_work: Obj) -> dict[str, Obj]:
        """What to remember of a Work's jobs that ran to their end: those there now, gone since, and known before."""
        if not self._remember:
            return {}
        known = remembered(applied_work) | self.ended_of([outcome.manifest for outcome in outcomes], applied_work)
        result: dict[str, Obj] = {}
        for outcome in outcomes:
            if not self._ends(outcome):
                continue
            name = "/".join(identity(outcome.manifest.identifier))
            if outcome.live is not None:
                entry = _entry(outcome.live) if ENDINGS.success(outcome.live) is not None else None
            else:
                entry = known.get(name)
            if entry is not None and entry["hash"] == hash_of(outcome.manifest.obj):
                result[name] = entry
        return result

    @staticmethod
    def _ends(outcome: Outcome) -> bool:
        resource = outcome.manifest.resource
        return resource is not None and ENDINGS.knows(resource.group, resource.kind)

    def _wants_progress(self, obj: Obj, work: str) -> bool:
        return self._friendly or work in self._prompt or yields_to_queue(obj)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        job = new or old
        assert job is not None
        for work in _works(job):
            if new is None:
                self._by_uid.pop(uid_of(job), None)
            else:
                self._by_uid[uid_of(job)] = new
            name = _name(work, key_of(job), str(job.get("kind")))
            if ENDINGS.success(job) is not None:
                if name not in self._ended or uid_of(self._ended[name]) != uid_of(job):
                    self.wake(work)
                self._ended[name] = job
                if len(self._ended) > _MAX_REMEMBERED:
                    del self._ended[next(iter(self._ended))]
            elif new is not None:
                self._ended.pop(name, None)
                if self._wants_progress(new, work) and old is not None and status_of(old) != status_of(new):
                    self.wake(work)

    def _workload_changed(self, old: Obj | None, new: Obj | None) -> None:
        workload = new or old
        assert workload is not None
        for reference in owner_references_of(workload):
            job = self._by_uid.get(str(reference.get("uid")))
            if job is not None:
                for work in _works(job):
                    if self._wants_progress(job, work):
                        self.wake(work)


def _works(job: Obj) -> list[str]:
    return [str(one.get("name")) for one in owner_references_of(job) if is_applied_work(one)]


def _name(work: str, key: Key, kind: str) -> str:
    return f"{work}|{kind}|{key}"


def _entry(job: Obj) -> Obj:
    return {"uid": uid_of(job), "hash": annotations_of(job).get(SPEC_HASH), "report": progress(job, None)}
