"""Small writes that every placement controller makes: finalizers and status."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.core.errors import AlreadyExists, NotFound, conflict
from corral.core.meta import Obj, finalizers_of, name_of, namespace_of, status_of, with_finalizer, without_finalizer
from corral.core.resource import Resource


async def ensure_finalizer(client: Client, resource: Resource, obj: Obj, finalizer: str) -> Obj:
    """The object with the finalizer on it."""
    return obj if finalizer in finalizers_of(obj) else await client.update(resource, with_finalizer(obj, finalizer))


async def drop_finalizer(client: Client, resource: Resource, obj: Obj, finalizer: str) -> Obj | None:
    """The object without the finalizer; None when it is gone."""
    if finalizer not in finalizers_of(obj):
        return obj
    try:
        return await client.update(resource, without_finalizer(obj, finalizer))
    except NotFound:
        return None


async def write_status(client: Client, resource: Resource, obj: Obj, status: Obj) -> Obj:
    """The object with this status, written only when it differs."""
    if status_of(obj) == status:
        return obj
    return await client.update(resource, {**obj, "status": status}, subresource="status")


async def create_or_read(client: Client, resource: Resource, body: Obj) -> Obj:
    """The object created, or the one that the cache did not show yet; Conflict when that one has another spec."""
    try:
        return await client.create(resource, body)
    except AlreadyExists:
        existing = await client.get(resource, name_of(body), namespace_of(body))
        if existing.get("spec") != body["spec"]:
            raise conflict(resource, name_of(body), "it exists with other contents") from None
        return existing


async def remove(client: Client, resource: Resource, obj: Obj) -> None:
    """Delete, and be content when somebody else did."""
    try:
        await client.delete(resource, name_of(obj), namespace_of(obj))
    except NotFound:
        pass
