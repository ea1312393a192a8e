"""What a job needs beside itself: the ConfigMaps, Secrets and what else its kind needs, copied to the worker that runs it, and
before that the namespace, queue and classes of priority that a Workload needs to be looked at there.

ConfigMaps and Secrets belong to the remote job and go with it. What a job is made from has to be there before it and may
serve many, so it stays. An object of that name which is already on the worker is used as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from corral.client.protocol import Client
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from corral.core.meta import (
    Key,
    Obj,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    owner_references_of,
    spec_of,
    with_metadata,
)
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobAdapter
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, SECRETS
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, names

PROPAGATED = "corral.dev/propagated-by"
_BY_FIELD = {
    "configMap": (CONFIG_MAPS, "name"),
    "configMapRef": (CONFIG_MAPS, "name"),
    "configMapKeyRef": (CONFIG_MAPS, "name"),
    "secret": (SECRETS, "secretName"),
    "secretRef": (SECRETS, "name"),
    "secretKeyRef": (SECRETS, "name"),
}


def named_objects(job: Any) -> Iterator[tuple[Resource, str]]:
    """The ConfigMaps and Secrets that pods of a job mount, read or pull with; some may be named more than once."""
    if isinstance(job, list):
        for item in job:
            yield from named_objects(item)
    if not isinstance(job, dict):
        return
    for field, value in job.items():
        if field == "imagePullSecrets":
            yield from ((SECRETS, str(entry["name"])) for entry in value or () if entry.get("name"))
        elif field in _BY_FIELD and isinstance(value, dict):
            resource, key = _BY_FIELD[field]
            name = value.get(key) or value.get("name")
            if name:
                yield resource, str(name)
        else:
            yield from named_objects(value)


def prerequisites(workload: Obj) -> Iterator[tuple[Resource, Key]]:
    """What has to be there for a Workload and its pods: namespace, queue, and classes of priority."""
    namespace = namespace_of(workload)
    yield NAMESPACES, Key("", namespace)
    if queue := spec_of(workload).get("queueName"):
        yield LOCAL_QUEUES, Key(namespace, str(queue))
    reference = spec_of(workload).get("priorityClassRef") or {}
    if reference.get("kind") == WORKLOAD_PRIORITY_CLASSES.kind:
        yield WORKLOAD_PRIORITY_CLASSES, Key("", str(reference["name"]))
    for pod_set in spec_of(workload).get("podSets") or ():
        named = ((pod_set.get("template") or {}).get("spec") or {}).get("priorityClassName")
        if named and not str(named).startswith("system-"):
            yield PRIORITY_CLASSES, Key("", str(named))


async def send_prerequisites(client: Client, remote: Remote, workload: Obj, origin: str) -> None:
    """Give the worker what it needs around a Workload, unless it has one of that name; once for as long as it is connected.

    Without the right to do so nothing is sent, and the worker says itself what it lacks.
    """
    for resource, key in dict.fromkeys(prerequisites(workload)):
        if (resource, key) in remote.prerequisites:
            continue
        try:
            found = await client.get(resource, key.name, key.namespace)
        except NotFound:
            continue
        try:
            copy = _copy(found, origin)
            if resource == LOCAL_QUEUES:
                copy = await _leading_somewhere(remote, copy)
            await remote.client.create(resource, copy, manager=names.MULTIKUEUE_MANAGER)
        except AlreadyExists:
            pass
        except (NotFound, Forbidden, Invalid):
            continue
        remote.prerequisites.add((resource, key))


async def _leading_somewhere(remote: Remote, queue: Obj) -> Obj:
    """A LocalQueue that leads to the ClusterQueue of its name, else to the only one the worker has: quotas of teams are the manager's
    matter, and a worker of a fleet has one ClusterQueue for all it holds."""
    try:
        found = [name_of(one) for one in (await remote.client.list(CLUSTER_QUEUES)).items]
    except Forbidden:
        return queue
    if spec_of(queue).get("clusterQueue") in found or len(found) != 1:
        return queue
    return {**queue, "spec": {**spec_of(queue), "clusterQueue": found[0]}}


async def send_needed(client: Client, remote: Remote, adapter: JobAdapter, job: Obj, origin: str) -> None:
    """Give the worker the objects a job is made from, unless it has one of that name."""
    for resource, key in adapter.needed_objects(job):
        try:
            found = await client.get(resource, key.name, key.namespace)
            await remote.client.create(resource, _copy(found, origin), manager=names.MULTIKUEUE_MANAGER)
        except (AlreadyExists, NotFound):
            continue


def needed_objects(job: Any) -> Iterator[tuple[Resource, str]]:
    """Of what a job names that without which its pods do not start: not what is optional, nor what they pull with."""
    if isinstance(job, list):
        for item in job:
            yield from needed_objects(item)
    if not isinstance(job, dict):
        return
    for field, value in job.items():
        if field not in _BY_FIELD or not isinstance(value, dict):
            yield from needed_objects(value if field != "imagePullSecrets" else None)
        elif not value.get("optional"):
            yield from named_objects({field: value})


async def send_named(client: Client, remote: Remote, job: Obj, remote_job: Obj, origin: str) -> dict[str, str]:
    """Give the worker the ConfigMaps and Secrets a job names, owned by the job there; which it may not have, and why."""
    refused = {}
    for resource, name in dict.fromkeys(named_objects(spec_of(job))):
        try:
            found = await client.get(resource, name, namespace_of(job))
        except NotFound:
            continue
        owner = owner_ref(remote_job, controller=False, block=False)
        copy = with_metadata(_copy(found, origin), ownerReferences=[owner])
        try:
            await remote.client.create(resource, copy, manager=names.MULTIKUEUE_MANAGER)
        except AlreadyExists:
            await _share(remote, resource, copy, owner, origin)
        except (Forbidden, Invalid) as error:
            refused[_called(resource, name)] = str(error)
    return refused


async def missing(remote: Remote, job: Obj) -> list[str]:
    """What a job's pods need on its worker and is not there, as far as we may look."""
    found = []
    for resource, name in dict.fromkeys(needed_objects(spec_of(job))):
        try:
            await remote.client.get(resource, name, namespace_of(job))
        except NotFound:
            found.append(_called(resource, name))
        except Forbidden:
            continue
    return found


def _called(resource: Resource, name: str) -> str:
    return f"{resource.kind} {name}"


async def _share(remote: Remote, resource: Resource, wanted: Obj, owner: Obj, origin: str) -> None:
    """Bring our earlier copy up to date and let one more job own it."""
    try:
        held = await remote.client.get(resource, name_of(wanted), namespace_of(wanted))
        if labels_of(held).get(PROPAGATED) != origin:
            return
        owners = [other for other in owner_references_of(held) if other.get("uid") != owner["uid"]]
        content = {name: value for name, value in wanted.items() if name != "metadata"}
        updated = {**with_metadata(held, ownerReferences=[*owners, owner]), **content}
        await remote.client.update(resource, updated, manager=names.MULTIKUEUE_MANAGER)
    except (NotFound, Conflict):
        return


def _copy(obj: Obj, origin: str) -> Obj:
    metadata: Obj = {"name": name_of(obj), "labels": {**labels_of(obj), PROPAGATED: origin}}
    if namespace_of(obj):
        metadata["namespace"] = namespace_of(obj)
    return {**{name: value for name, value in obj.items() if name not in ("metadata", "status")}, "metadata": metadata}
