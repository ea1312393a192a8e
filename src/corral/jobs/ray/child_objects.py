"""What the Ray operators share: making and deleting children that may be there, or gone, already."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource

MANAGER = "kuberay-operator"


async def create_unless_held(client: Client, resource: Resource, body: Obj) -> None:
    """Make an object; one of that name may be there already."""
    try:
        await client.create(resource, body, manager=MANAGER)
    except AlreadyExists:
        return


async def delete_if_held(client: Client, resource: Resource, name: str, namespace: str) -> None:
    """Delete an object and what it owns; it may be gone already."""
    try:
        await client.delete(resource, name, namespace, propagation="Background")
    except NotFound:
        return
