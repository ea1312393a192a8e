"""What a job needs beside itself: the ConfigMaps, Secrets and what else its kind needs, copied to the worker that runs it.

ConfigMaps and Secrets belong to the remote job and go with it. What a job is made from has to be there before it and may
serve many, so it stays. An object of that name which is already on the worker is used as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from corral.client.protocol import Client
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core.errors import AlreadyExists, Conflict, NotFound
from corral.core.meta import (
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
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, SECRETS
from corral.kinds.kueue import names

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


async def send_needed(client: Client, remote: Remote, adapter: JobAdapter, job: Obj, origin: str) -> None:
    """Give the worker the objects a job is made from, unless it has one of that name."""
    for resource, key in adapter.needed_objects(job):
        try:
            found = await client.get(resource, key.name, key.namespace)
            await remote.client.create(resource, _copy(found, origin), manager=names.MULTIKUEUE_MANAGER)
        except (AlreadyExists, NotFound):
            continue


async def send_named(client: Client, remote: Remote, job: Obj, remote_job: Obj, origin: str) -> None:
    """Give the worker the ConfigMaps and Secrets a job names, owned by the job there."""
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
