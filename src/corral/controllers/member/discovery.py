"""Which kinds the member serves: from the registry of an API in this process, or by asking an API over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from corral.client.protocol import Client
from corral.core.errors import NotFound
from corral.core.resource import Resource, version_path
from corral.kinds.machinery.registry import Registry
from corral.runtime.clock import Clock

Discover = Callable[[str, str, str], Awaitable[Resource | None]]
"""(group, version, kind) to what a client needs to reach it; None when the cluster does not serve it."""

MISSING_FOR_S = 4.0


def in_registry(registry: Registry) -> Discover:
    """The kinds of an API in this process."""

    async def discover(group: str, version: str, kind: str) -> Resource | None:
        found = registry.by_kind(group, kind)
        served = found.version(version) if found is not None else None
        return found.resource(version) if found is not None and served is not None and served.served else None

    return discover


def over_http(client: Client, clock: Clock) -> Discover:
    """The kinds an API names in its discovery documents. What is found is kept; what is not is asked for again later."""
    known: dict[tuple[str, str], dict[str, Resource]] = {}
    asked: dict[tuple[str, str], float] = {}

    async def discover(group: str, version: str, kind: str) -> Resource | None:
        where = (group, version)
        found = known.get(where, {}).get(kind)
        if found is None and clock.monotonic() >= asked.get(where, 0.0):
            known[where] = await _resources(client, group, version)
            found = known[where].get(kind)
            if found is None:
                asked[where] = clock.monotonic() + MISSING_FOR_S
        return found

    return discover


async def _resources(client: Client, group: str, version: str) -> dict[str, Resource]:
    try:
        document = await client.raw("GET", version_path(group, version))
    except NotFound:
        return {}
    return {
        entry["kind"]: Resource(group, version, entry["name"], entry["kind"], bool(entry.get("namespaced")))
        for entry in document.get("resources") or ()
        if "/" not in entry["name"]
    }
