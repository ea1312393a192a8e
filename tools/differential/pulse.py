"""How fast the real scheduler is at the moment: a Workload of its own, admitted and evicted again and again.

A scenario has come to rest when nothing changed for a while. How long that must be depends on how busy the machine is, so the
while is measured: a multiple of what the scheduler took of late from a new Workload to its admission and on to its eviction,
which is the work of its controllers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from corral.client.protocol import Client
from corral.core.meta import Obj
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from corral.runtime.clock import Clock
from corral.workload import workload as wl

QUIET_S = 3.0
"""Longer than Kueue collects news before it looks again at what it could not admit."""
BEATS = 3.0
"""What follows from one change is seldom more than this many beats in a row."""
REMEMBERED = 8
PAUSE_S = 1.0
_NAME = "pulse"


class Pulse:
    """One Workload after the other in a queue that has room for it."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._latest: deque[float] = deque([0.0], REMEMBERED)
        self._since: float | None = None

    def quiet_s(self) -> float:
        """How long nothing must change before nothing is going to."""
        running = 0.0 if self._since is None else self._clock.monotonic() - self._since
        return QUIET_S + BEATS * max(*self._latest, running)

    async def begin(self) -> None:
        """Make the queue."""
        quota = {"name": _NAME, "resources": [{"name": "cpu", "nominalQuota": "1"}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        await self._client.create(NAMESPACES, {"metadata": {"name": _NAME}})
        await self._client.create(RESOURCE_FLAVORS, {"metadata": {"name": _NAME}, "spec": {}})
        await self._client.create(
            CLUSTER_QUEUES,
            {
                "metadata": {"name": _NAME},
                "spec": {"namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO", "resourceGroups": groups},
            },
        )
        local = {"metadata": {"name": _NAME, "namespace": _NAME}, "spec": {"clusterQueue": _NAME}}
        await self._client.create(LOCAL_QUEUES, local)

    async def beat(self) -> None:
        """From a new Workload to its quota and its eviction, and away with it."""
        self._since = self._clock.monotonic()
        await self._client.create(WORKLOADS, _workload())
        await self._until(wl.has_quota)
        await self._client.patch(WORKLOADS, _NAME, _NAME, {"spec": {"active": False}}, kind="merge")
        await self._until(wl.is_evicted)
        self._latest.append(self._clock.monotonic() - self._since)
        self._since = None
        await self._client.delete(WORKLOADS, _NAME, _NAME)

    async def _until(self, reached: Callable[[Obj], bool]) -> None:
        while True:
            await asyncio.sleep(0.1)
            if reached(await self._client.get(WORKLOADS, _NAME, _NAME)):
                return

    async def go_on(self) -> None:
        """Beat until cancelled."""
        while True:
            await asyncio.sleep(PAUSE_S)
            await self.beat()


def _workload() -> Obj:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": _NAME, "active": True, "podSets": [{"name": "main", "count": 1, "template": template}]}
    return {"metadata": {"name": _NAME, "namespace": _NAME}, "spec": spec}
