"""What the workers of a manager say about a Workload: what they answered, and which of them could never take it.

The second is found out when somebody asks, from the worker's own queues: a Workload that waits for quota on the manager has
not been shown to any worker yet, and may wait for what none of them could give.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from corral.controllers.dispatch.context import DispatchContext
from corral.controllers.dispatch.workers.capacity import WorkerQueues
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core.errors import ApiError
from corral.core.meta import Key, Obj, key_of
from corral.core.resource import Resource
from corral.decide.dispatch.reasons import TOO_LARGE, WorkerAnswer
from corral.decide.dispatch.room import demands_of, unsuitable
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES
from corral.workload import workload as wl

PATIENCE_S = 2.0
"""How long whoever asks waits for a worker."""


class WorkerAnswers:
    """Asked by the API of a manager; empty before the dispatch controllers are there."""

    def __init__(self) -> None:
        self._context: DispatchContext | None = None

    def attach(self, context: DispatchContext) -> None:
        self._context = context

    async def of(self, key: Key) -> tuple[WorkerAnswer, ...]:
        """An answer of each worker that may run it, by name; an empty one of those that have not said anything."""
        context = self._context
        workload = context.workloads.get(key) if context is not None else None
        if context is None or workload is None or wl.is_admitted(workload) or wl.is_finished(workload):
            return ()
        check = context.check_of(workload)
        clusters = context.clusters_of(check, workload) if check else []
        found = await limits(context, workload, clusters)
        answers = {name: WorkerAnswer(name, why, TOO_LARGE if why else "") for name, why in found.items()}
        for said in context.answers.get(key, ()):
            limit = answers.get(said.worker)
            answers[said.worker] = replace(said, detail=said.detail or limit.detail) if limit is not None else said
        return tuple(answers[name] for name in sorted(answers))


async def limits(context: DispatchContext, workload: Obj, clusters: Sequence[str]) -> dict[str, str]:
    """Why each of these workers could never take a Workload; empty where it could, or cannot be asked."""
    found = await asyncio.gather(*(_limit(context.remotes.get(name), workload) for name in clusters))
    return dict(zip(clusters, found, strict=True))


async def _limit(remote: Remote | None, workload: Obj) -> str:
    """Why a worker could never take a Workload; empty when it could, or cannot be asked."""
    if remote is None or not remote.connected:
        return ""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _unsuitable(remote, workload)
    except (ApiError, TimeoutError):
        return ""


async def _unsuitable(remote: Remote, workload: Obj) -> str:
    named = wl.local_queue_key(workload)
    local = await remote.client.get(LOCAL_QUEUES, named.name, named.namespace)
    behind = WorkerQueues(
        await _listed(remote, CLUSTER_QUEUES),
        await _listed(remote, RESOURCE_FLAVORS),
        await _listed(remote, TOPOLOGIES),
    )
    queue = behind.behind(local)
    if queue is None:
        return ""
    view = behind.view(remote.name, {}, queue, serves=True, promised={}, refused=False)
    return unsuitable(demands_of(workload), view.groups)


class _Listed:
    """Objects of one kind as they were a moment ago."""

    def __init__(self, items: Iterable[Obj]) -> None:
        self._items = {key_of(item): item for item in items}

    def get(self, key: Key) -> Obj | None:
        return self._items.get(key)

    def list(self) -> Iterable[Obj]:
        return self._items.values()


async def _listed(remote: Remote, resource: Resource) -> _Listed:
    return _Listed((await remote.client.list(resource)).items)
