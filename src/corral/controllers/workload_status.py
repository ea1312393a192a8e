"""Writing a Workload's status: each controller applies the part it declares, as `workload.statuses` divides it."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.core.meta import Obj, metadata_of
from corral.kinds.kueue import WORKLOADS
from corral.workload.statuses import ADMISSION, admission_part, takes_away


async def apply_status(client: Client, workload: Obj, manager: str, status: Obj, *, strict: bool = True) -> Obj:
    """Apply what `manager` declares; when `strict`, refused when the Workload changed since it was read."""
    held = metadata_of(workload)
    kept = ("name", "namespace", "uid", "resourceVersion") if strict else ("name", "namespace", "uid")
    metadata = {name: held[name] for name in kept if name in held}
    config = {"metadata": metadata, "status": status}
    return await client.apply(WORKLOADS, config, manager=manager, subresource="status")


async def write_admission(client: Client, new: Obj, *, narrow: bool = False) -> Obj:
    """Store the status of a Workload as the one who admits: everything in it but what jobs report about themselves.

    A `narrow` write, a reservation, leaves readiness to whoever wrote it, unless it was declared along before.
    """
    if takes_away(new):
        return await client.update(WORKLOADS, new, subresource="status", manager=ADMISSION)
    return await apply_status(client, new, ADMISSION, admission_part(new, narrow=narrow))
