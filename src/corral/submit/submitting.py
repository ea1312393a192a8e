"""Creating a submitted job: its folder sent, its object made, and the folder given to it to go with it; and the same job once more."""

from __future__ import annotations

from typing import Final

from corral.client.sync import SyncClient
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import Obj, name_of, namespace_of, owner_ref, owner_references_of, spec_of, uid_of
from corral.core.resource import Resource
from corral.inspect.lookup import workload_of
from corral.jobs.framework.registry import ENDINGS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.submit.archive import Archive
from corral.submit.errors import SubmitError
from corral.submit.retrying import again, as_submitted, next_name

TRIES: Final = 100


def send(client: SyncClient, archive: Archive, namespace: str) -> list[Obj]:
    """The objects that carry a folder, made where they are not there yet. One that is there must be what we would have made: anybody
    who knows the folder knows its name, and what is in it runs."""
    sent: list[Obj] = []
    for piece in archive.config_maps(namespace):
        try:
            sent.append(client.create(CONFIG_MAPS, piece))
        except AlreadyExists:
            there = client.get(CONFIG_MAPS, name_of(piece), namespace)
            if any(there.get(part) != value for part, value in piece.items() if part != "metadata") or "data" in there:
                take_back(client, sent)
                raise SubmitError(_foreign(piece)) from None
            sent.append(there)
    return sent


def _foreign(piece: Obj) -> str:
    name, namespace = name_of(piece), namespace_of(piece)
    return (
        f"ConfigMap {name} in namespace {namespace} has the name of this folder and not its content: somebody else made it; "
        f"`corral delete configmap/{name} -n {namespace}` removes it, then submit again"
    )


def create(client: SyncClient, resource: Resource, job: Obj, sent: list[Obj]) -> Obj:
    """The job, created; what was sent for it belongs to it from now on. A job that is refused leaves nothing behind."""
    try:
        made = client.create(resource, job)
    except Exception:
        take_back(client, sent)
        raise
    for piece in sent:
        give(client, piece, typed(resource, made))
    return made


def take_back(client: SyncClient, sent: list[Obj]) -> None:
    """Remove what was sent and belongs to nobody."""
    for piece in sent:
        if not owner_references_of(piece):
            _remove(client, piece)


def give(client: SyncClient, piece: Obj, owner: Obj) -> None:
    """Let something that was sent go when its owner, and every other owner it has, is gone."""
    reference = owner_ref(owner, controller=False, block=False)
    others = [other for other in owner_references_of(piece) if other.get("uid") != uid_of(owner)]
    patch = {"metadata": {"ownerReferences": [*others, reference]}}
    client.patch(CONFIG_MAPS, name_of(piece), namespace_of(piece), patch)


def retry(client: SyncClient, resource: Resource, job: Obj, name: str = "") -> Obj:
    """A job that has ended or was cancelled, submitted again as a new one; what was sent for it belongs to both."""
    workload = workload_of(client, resource, job, namespace_of(job))
    _refuse_running(resource, job, workload)
    wanted = name or next_name(name_of(job))
    for _ in range(TRIES):
        try:
            made = client.create(resource, again(as_submitted(typed(resource, job), workload), wanted))
        except AlreadyExists:
            if name:
                raise
            wanted = next_name(wanted)
            continue
        _hand_on(client, job, typed(resource, made))
        return made
    raise SubmitError(f"names up to {wanted} are taken; choose one with --name")


def _refuse_running(resource: Resource, job: Obj, workload: Obj | None) -> None:
    target = target_of(resource, job)
    if not ENDINGS.knows(resource.group, resource.kind):
        raise SubmitError(f"{target} is not a job; `corral retry` runs jobs again")
    if ENDINGS.success(typed(resource, job)) is not None:
        return
    if workload is not None and spec_of(workload).get("active") is False:
        return
    raise SubmitError(f"{target} has not ended; `corral cancel {target}` stops it first")


def _hand_on(client: SyncClient, old: Obj, new: Obj) -> None:
    """What was sent for one job belongs to another as well, and goes when the last of them goes."""
    for piece in client.list(CONFIG_MAPS, namespace_of(old))["items"]:
        if any(owner.get("uid") == uid_of(old) for owner in owner_references_of(piece)):
            give(client, piece, new)


def typed(resource: Resource, obj: Obj) -> Obj:
    """An object that says what it is, as those that come one by one do not always."""
    return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}


def target_of(resource: Resource, obj: Obj) -> str:
    """What a user calls an object: `job/train`."""
    return f"{resource.kind.lower()}/{name_of(obj)}"


def _remove(client: SyncClient, piece: Obj) -> None:
    try:
        client.delete(CONFIG_MAPS, name_of(piece), namespace_of(piece))
    except NotFound:
        pass
