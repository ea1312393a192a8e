"""Letting a cluster call our webhooks no more while replicas that keep them registered still run: their Lease is taken first, or they
would put everything back."""

from __future__ import annotations

from collections.abc import Iterable

from corral.client.protocol import Client
from corral.clusters.process.roles import WEBHOOKS, leases_of
from corral.clusters.process.standing_back import UNREGISTERED
from corral.clusters.webhooks.configurations import Endpoint
from corral.clusters.webhooks.registration import registered_namespaces, unregister
from corral.configuration.queueing import DEFAULT_NAMESPACE
from corral.core.errors import NotFound
from corral.core.meta import Key
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.machinery.definition import KindDef
from corral.runtime.clock import Clock
from corral.runtime.leader import Claim, LeaderElector, LeaseTerms, holder_of

QUIET_S = 120.0
"""How long replicas that still run register nothing: time to uninstall them."""


async def unregister_for_a_while(
    client: Client, clock: Clock, kinds: Iterable[KindDef], service: str
) -> tuple[list[str], list[Key]]:
    """Take the Leases of whoever keeps webhooks registered, and back what they wrote; returns what was removed, and the Leases that are
    held for `QUIET_S` from now. Where nobody held one nobody is left who would register anything."""
    namespaces = await registered_namespaces(client)
    leases = [
        key
        for namespace in namespaces
        for key in leases_of([WEBHOOKS], namespace)
        if await _holder(client, key) not in ("", UNREGISTERED)
    ]
    removed: list[str] = []

    async def remove() -> None:
        for namespace in namespaces or (DEFAULT_NAMESPACE,):
            removed.extend(await unregister(client, kinds, Endpoint(namespace, service, 443)))

    if leases:
        claims = [Claim(key, UNREGISTERED, seizes=True) for key in leases]
        await LeaderElector(client, clock, claims, LeaseTerms(QUIET_S)).run(remove)
    else:
        await remove()
    return removed, leases


async def may_register_again(client: Client, namespace: str = DEFAULT_NAMESPACE) -> None:
    """Give a Lease back that is held since webhooks were unregistered: whoever installs anew wants them."""
    for key in leases_of([WEBHOOKS], namespace):
        if await _holder(client, key) == UNREGISTERED:
            await client.delete(LEASES, key.name, key.namespace)


async def _holder(client: Client, key: Key) -> str:
    try:
        return holder_of(await client.get(LEASES, key.name, key.namespace))
    except NotFound:
        return ""
