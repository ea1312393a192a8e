"""Fencing: a worker that has lost its manager stops what it runs for it, before the manager starts it elsewhere.

A manager with fencing on renews a Lease on every worker it is connected to. The worker watches that Lease; when it has
not been renewed for half of the manager's lost timeout, the copies with that manager's origin are made inactive. No clock
has to agree with another: the worker counts from when it saw the Lease change, or, after a restart, from when its own
API server stored the change.
"""

from __future__ import annotations

import logging

from corral.client.protocol import Client
from corral.core import conditions
from corral.core.errors import AlreadyExists, Conflict, NotFound
from corral.core.meta import Key, Obj, annotations_of, labels_of, metadata_of, name_of, namespace_of, spec_of
from corral.core.timestamps import format_micro, parse_time
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.clock import Clock
from corral.runtime.controller import Manager, Result, Watch
from corral.workload import workload as wl

log = logging.getLogger(__name__)

PREFIX = "corral-manager-"
FENCE_AFTER = "corral.dev/fence-after-seconds"
MARGIN = 0.5
"""The share of the lost timeout after which a worker fences; the rest is for stopping."""
RENEWALS = 6
"""How often the Lease is renewed within the lost timeout."""
AGAIN_S = 2.0


async def renew(client: Client, clock: Clock, namespace: str, origin: str, lost_timeout: float) -> None:
    """Tell a worker that its manager is there."""
    spec = {
        "holderIdentity": origin,
        "leaseDurationSeconds": max(1, int(lost_timeout)),
        "renewTime": format_micro(clock.now()),
    }
    name = f"{PREFIX}{origin}"
    metadata = {
        "name": name,
        "namespace": namespace,
        "annotations": {FENCE_AFTER: str(lost_timeout * MARGIN)},
    }
    try:
        await client.patch(LEASES, name, namespace, {"spec": spec}, manager=names.MULTIKUEUE_MANAGER)
    except NotFound:
        try:
            await client.create(LEASES, {"metadata": metadata, "spec": spec}, manager=names.MULTIKUEUE_MANAGER)
        except AlreadyExists:
            pass


class Fence:
    """Stops the copies of managers that have gone silent."""

    name = "fence"

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._leases = manager.informer(LEASES)
        self._workloads = manager.informer(WORKLOADS)
        self._seen: dict[Key, tuple[str, float]] = {}
        manager.add(self, watches=[Watch(LEASES, when=_is_a_managers)])

    async def reconcile(self, key: Key) -> Result | None:
        lease = self._leases.get(key)
        if lease is None:
            self._seen.pop(key, None)
            return None
        limit = annotations_of(lease).get(FENCE_AFTER)
        if limit is None:
            return None
        # `limit` is a part of the timeout after which the manager starts the job on another worker (see MARGIN), so the copy
        # is stopped here before it runs there.
        left = self._last_seen(key, lease) + float(limit) - self._manager.clock.now()
        if left > 0:
            return Result(left + 0.001)
        await self._stop_copies(str(spec_of(lease).get("holderIdentity")))
        return Result(AGAIN_S)

    def _last_seen(self, key: Key, lease: Obj) -> float:
        """When this cluster last heard of the manager, on this cluster's own clock."""
        renewed = str(spec_of(lease).get("renewTime"))
        known = self._seen.get(key)
        if known is None:
            stored = [str(entry["time"]) for entry in metadata_of(lease).get("managedFields") or () if "time" in entry]
            at = max((parse_time(time) for time in stored), default=self._manager.clock.now())
            known = self._seen[key] = (renewed, at)
        elif known[0] != renewed:
            known = self._seen[key] = (renewed, self._manager.clock.now())
        return known[1]

    async def _stop_copies(self, origin: str) -> None:
        for workload in self._workloads.list():
            if labels_of(workload).get(names.MULTIKUEUE_ORIGIN) != origin or not wl.is_active(workload):
                continue
            if conditions.is_true(workload, names.FINISHED):
                continue
            try:
                await self._manager.client.patch(
                    WORKLOADS, name_of(workload), namespace_of(workload), {"spec": {"active": False}}, manager="corral"
                )
            except (NotFound, Conflict):
                continue
            text = f"The manager with origin {origin} has not been heard of; stopped, so that it never runs twice"
            self._manager.recorder.event(workload, "Warning", "Fenced", text)


def _is_a_managers(old: Obj | None, new: Obj | None) -> bool:
    lease = new or old
    return lease is not None and name_of(lease).startswith(PREFIX)
