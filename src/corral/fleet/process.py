"""The body of one cluster process: an event loop with an embedded cluster, until SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import signal

from corral.clusters.embedded import EmbeddedCluster
from corral.configuration.fleet import HUB, MEMBER, ClusterSpec, FleetSpec
from corral.fleet.folder import FleetFolder
from corral.fleet.supervisor import Place
from corral.runtime import logs
from corral.server.gc_tuning import calm_collector


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
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(fleet, spec, folder, place, ready))


async def _serve(fleet: FleetSpec, spec: ClusterSpec, folder: FleetFolder, place: Place, ready: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    cluster = EmbeddedCluster(fleet, spec, folder.cluster(spec.name), place.port, place.network)
    await cluster.start()
    cluster.base.server.write_kubeconfig(folder.admin_kubeconfig(spec.name))
    os.write(ready, f"{cluster.url}\n".encode())
    os.close(ready)
    try:
        await stop.wait()
    finally:
        await cluster.stop()


def _loop_factory() -> type[asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop
    loop: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return loop
