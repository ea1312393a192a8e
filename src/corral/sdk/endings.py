"""Waiting for jobs to end: one list and one watch for all jobs of a kind and namespace, however many they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from typing import Final

from corral.client.http import HttpClient
from corral.core.errors import ConnectionFailed, Expired, TooManyRequests
from corral.core.meta import Obj, name_of
from corral.core.resource import Resource
from corral.jobs.framework.registry import ENDINGS
from corral.submit.submitting import typed

PAUSE_S: Final = 0.5
"""Before looking again, where a stream broke."""

Ending = tuple[str, bool | None]
"""The name of a job, and whether it ended well; None where it was deleted."""


async def endings(
    client: HttpClient, resource: Resource, namespace: str, names: Collection[str]
) -> AsyncGenerator[Ending, None]:
    """How each of some jobs ends, as they do."""
    open_names = set(names)
    fields = f"metadata.name={next(iter(open_names))}" if len(open_names) == 1 else ""
    while open_names:
        page = await client.list(resource, namespace, fields=fields)
        there = {name_of(job): job for job in page.items}
        for name in sorted(open_names):
            job = there.get(name)
            success = _success(resource, job) if job is not None else None
            if job is None or success is not None:
                open_names.discard(name)
                yield name, success
        async for ending in _watched(client, resource, namespace, fields, page.resource_version, open_names):
            yield ending
        if open_names:
            await asyncio.sleep(PAUSE_S)


async def _watched(
    client: HttpClient, resource: Resource, namespace: str, fields: str, version: str, open_names: set[str]
) -> AsyncGenerator[Ending, None]:
    """Endings from a version on, until all have ended or the stream has; it is taken up again after another look."""
    if not open_names:
        return
    try:
        async for change, job in client.watch(resource, namespace, fields=fields, resource_version=version):
            name = name_of(job)
            if name not in open_names or change not in ("ADDED", "MODIFIED", "DELETED"):
                continue
            success = None if change == "DELETED" else _success(resource, job)
            if change == "DELETED" or success is not None:
                open_names.discard(name)
                yield name, success
            if not open_names:
                return
    except (ConnectionFailed, Expired, TooManyRequests):
        return


def _success(resource: Resource, job: Obj) -> bool | None:
    return ENDINGS.success(typed(resource, job))
