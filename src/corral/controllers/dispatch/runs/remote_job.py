"""Acting on a worker: making, mirroring and removing the job that runs a Workload there.

Nothing without our origin label is ever changed or deleted.
"""

from __future__ import annotations

import logging

from corral.client.protocol import Client
from corral.configuration.dispatch import DispatchSettings
from corral.controllers.dispatch.safety.live_pods import LivePods
from corral.controllers.dispatch.workers.rejections import REFUSALS, NameTaken, Refused
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core import conditions
from corral.core.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound
from corral.core.meta import (
    Key,
    Obj,
    finalizers_of,
    key_of,
    name_of,
    namespace_of,
    uid_of,
    with_metadata,
    without_finalizer,
)
from corral.core.resource import Resource
from corral.decide.dispatch.workload_copy import has_origin
from corral.jobs.framework import followed_fields
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.registry import component_workloads
from corral.jobs.framework.remote_copy import labelled
from corral.kinds.kubernetes.apps.kinds import DISPATCHED
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.informer import Informer

log = logging.getLogger(__name__)


async def sync_job(
    client: Client,
    jobs: Informer,
    remote: Remote,
    adapter: JobAdapter,
    job: Obj,
    workload: str,
    origin: str,
    *,
    live: bool = False,
    by_label: bool = False,
) -> bool:
    """Make the job on the worker, or copy its status to the manager. False when the copy has to wait, also until the manager's
    `jobs` show the last one.

    `live` asks the worker itself, unless the job is seen to have ended: the copy of a finished Workload may be ahead of what we have seen of its job. `by_label` names the Workload in a label of the new job instead of an annotation.
    """
    key = key_of(job)
    found = remote.job(adapter.resource, key)
    if live and (found is None or adapter.finished(found) is None):
        found = await _read(remote, adapter.resource, key)
    if found is None and live:
        found = _last_seen(remote, adapter.resource, key, workload)
        if found is None:
            return True  # it has ended and is gone: nothing is left to copy
    if found is None:
        wanted = adapter.remote_object(job, workload, origin)
        found = await _create_job(remote, adapter.resource, labelled(wanted) if by_label else wanted)
    if not has_origin(found, origin):
        raise NameTaken(remote.name, adapter.resource, key)
    updated = adapter.sync_status(job, found)
    if updated is None:
        return job.get("status") == found.get("status") or conditions.is_true(job, DISPATCHED)
    if not live and jobs.awaits(key):
        return False
    jobs.expect(await client.update(adapter.resource, updated, subresource="status", manager=names.QUEUEING_MANAGER))
    return True


def _last_seen(remote: Remote, resource: Resource, key: Key, workload: str) -> Obj | None:
    """A job that has ended and was deleted on the worker, as it was last."""
    gone = [job for kind, job in remote.ending(Key(key.namespace, workload)) if kind == resource and key_of(job) == key]
    return gone[-1] if gone else remote.job(resource, key)


async def _read(remote: Remote, resource: Resource, key: Key) -> Obj | None:
    try:
        return await remote.client.get(resource, key.name, key.namespace)
    except NotFound:
        return None


async def _create_job(remote: Remote, resource: Resource, wanted: Obj) -> Obj:
    try:
        made = await remote.client.create(resource, wanted, manager=names.MULTIKUEUE_MANAGER)
        remote.learn(resource, made)
        return made
    except AlreadyExists:
        return await remote.client.get(resource, name_of(wanted), namespace_of(wanted))
    except REFUSALS as error:
        raise Refused(remote.name, resource, error) from error


async def apply_changes(
    remote: Remote, adapter: JobAdapter, job: Obj, workload: Obj, settings: DispatchSettings
) -> str:
    """Bring the worker's job in line with changes of the manager's; `followed_fields` says with which.

    Answers with what the worker said when it refused: that is to be told, and does not stop anything else.
    """
    key = key_of(job)
    found = remote.job(adapter.resource, key)
    if found is None or not has_origin(found, settings.origin):
        return ""
    patch = followed_fields.changes(adapter, job, found) if settings.follows_specs else {}
    if settings.follows_sizes:
        patch = followed_fields.with_size(patch, adapter, job, found, workload)
    if not patch:
        return ""
    try:
        await remote.client.patch(adapter.resource, key.name, key.namespace, patch, manager=names.MULTIKUEUE_MANAGER)
    except NotFound:
        return ""
    except (Invalid, Forbidden, BadRequest) as error:
        return f"{remote.name}: refuses a change of the {adapter.resource.kind}: {error}"
    return ""


async def create_copy(remote: Remote, copy: Obj, origin: str) -> bool:
    """Make the Workload's copy on a worker; True when it is new."""
    try:
        remote.learn(WORKLOADS, await remote.client.create(WORKLOADS, copy, manager=names.MULTIKUEUE_MANAGER))
    except AlreadyExists:
        held = await remote.client.get(WORKLOADS, name_of(copy), namespace_of(copy))
        if not has_origin(held, origin):
            raise NameTaken(remote.name, WORKLOADS, key_of(copy)) from None
        return False
    except REFUSALS as error:
        raise Refused(remote.name, WORKLOADS, error) from error
    return True


async def remove(
    remote: Remote,
    key: Key,
    origin: str,
    adapter: JobAdapter | None = None,
    job: Key | None = None,
    *,
    stop_within: float = 0.0,
) -> None:
    """Delete the job and then the copy of Workload `key` from a worker; what is gone already is fine.

    With `stop_within` the job may have to run elsewhere next: its pods have that many seconds to be gone.
    """
    jobs = remote.jobs_of(key)
    if not jobs and adapter is not None and job is not None:
        jobs = await _live_job(remote, adapter.resource, job)
    own = [(resource, obj) for resource, obj in jobs if has_origin(obj, origin) and not is_shared(remote, obj, key)]
    if stop_within:
        remote.note_ending(key, own)
    pods = LivePods(remote, origin, key.name, remote.ending(key))
    if stop_within:
        await pods.find()
    for resource, obj in own:
        remote.note_deleted(obj)
        await _delete(remote, resource, obj)
    await _remove_copy(remote, key, origin)
    await pods.ended(stop_within)
    remote.forget_ending(key)


async def _remove_copy(remote: Remote, key: Key, origin: str) -> None:
    copy = remote.workloads.get(key)
    if copy is None or not has_origin(copy, origin):
        return
    if names.RESOURCE_IN_USE in finalizers_of(copy):
        copy = await _strip_finalizer(remote, copy)
        if copy is None:
            return
    remote.note_deleted(copy)
    await _delete(remote, WORKLOADS, copy)


async def _live_job(remote: Remote, resource: Resource, key: Key) -> list[tuple[Resource, Obj]]:
    """The job read from the worker itself: it may be too new for our watch to have shown it."""
    found = await _read(remote, resource, key) if remote.supports(resource) else None
    return [(resource, found)] if found is not None else []


async def _strip_finalizer(remote: Remote, copy: Obj) -> Obj | None:
    try:
        return await remote.client.update(
            WORKLOADS, without_finalizer(copy, names.RESOURCE_IN_USE), manager=names.MULTIKUEUE_MANAGER
        )
    except NotFound:
        return None
    except Conflict:
        fresh = await remote.client.get(WORKLOADS, name_of(copy), namespace_of(copy))
        bare = with_metadata(without_finalizer(fresh, names.RESOURCE_IN_USE))
        return await remote.client.update(WORKLOADS, bare, manager=names.MULTIKUEUE_MANAGER)


async def _delete(remote: Remote, resource: Resource, obj: Obj) -> None:
    try:
        await remote.client.delete(
            resource, name_of(obj), namespace_of(obj), propagation="Background", uid=uid_of(obj) or None
        )
    except NotFound:
        pass
    except Conflict:
        log.info("object was replaced while being deleted", extra={"cluster": remote.name, "name": name_of(obj)})
    except BaseException:  # whatever it was, the object may still be there
        remote.forget_deleted(obj)
        raise


def is_shared(remote: Remote, job: Obj, key: Key) -> bool:
    """Whether a worker's job also stands for other Workloads that have a copy there."""
    others = [Key(namespace_of(job), name) for name in component_workloads(job)]
    return any(other != key and remote.workload(other) is not None for other in others)
