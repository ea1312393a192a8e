"""The body of one cluster process: an event loop with an embedded cluster, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import signal
from typing import Final

from corral.clusters.embedded import EmbeddedCluster
from corral.configuration.fleet import HUB, MEMBER, ClusterSpec, FleetSpec
from corral.fleet.folder import FleetFolder
from corral.fleet.supervisor import STOPPING, Place
from corral.node.process.connection import SupervisorConnection
from corral.runtime import descriptors, logs
from corral.runtime.clock import WallClock
from corral.server.gc_tuning import calm_collector, loading

END_S: Final = 10.0
GRACE_S: Final = 2.0
"""How long programs have between SIGTERM and SIGKILL, as when a cluster ends them itself."""


def preload(fleet: FleetSpec) -> None:
    """Load what only some fleets need before their clusters are forked, and leave no garbage for each of them to find."""
    if fleet.with_role(HUB) or fleet.with_role(MEMBER):
        importlib.import_module("corral.clusters.hub_and_member")
    gc.collect()
    gc.freeze()


def run_cluster(fleet: FleetSpec, spec: ClusterSpec, folder: FleetFolder, place: Place, ready: int) -> None:
    """Run a cluster; its URL is written to the descriptor `ready` once it serves."""
    logs.set_up(verbosity=1)
    # Code imported before the fork is shared; keeping the collector off it keeps it shared.
    calm_collector()
    descriptors.raise_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(fleet, spec, folder, place, ready))


async def _serve(fleet: FleetSpec, spec: ClusterSpec, folder: FleetFolder, place: Place, ready: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with loading():
        cluster = EmbeddedCluster(fleet, spec, folder.cluster(spec.name), place.port, place.network, place.equipment)
        await cluster.start()
    cluster.base.server.write_kubeconfig(folder.admin_kubeconfig(spec.name))
    os.write(ready, f"{cluster.url}\n".encode())
    try:
        await stop.wait()
    finally:
        with contextlib.suppress(OSError):  # whoever would hear it may be gone
            os.write(ready, STOPPING)
        os.close(ready)
        await cluster.stop()


def end_programs(folder: FleetFolder, name: str) -> None:
    """End the programs of a cluster that was ended by force, as it would have done itself: they run again at its next start."""

    async def end() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await SupervisorConnection(folder.cluster(name) / "node", WallClock()).shut_down(GRACE_S)

    asyncio.run(end())


def _loop_factory() -> type[asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop
    loop: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return loop
