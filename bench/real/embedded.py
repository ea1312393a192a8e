"""An API server of Corral's own with many Workloads in it, as a process: `python -m bench.real.embedded WORKLOADS KUBECONFIG`.

They are made by the server itself before it serves: what is measured is who follows them, not who makes them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from corral.clusters.embedded_api import EmbeddedApi
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import WORKLOADS

from .sizing import make_queue, workload


async def serve(size: int, path: Path) -> None:
    embedded = EmbeddedApi(None, name="sizing")
    await embedded.start()
    await embedded.client.create(NAMESPACES, {"metadata": {"name": "kueue-system"}})
    await make_queue(embedded.client, size)
    for number in range(size):
        await embedded.client.create(WORKLOADS, workload(number))
    embedded.server.write_kubeconfig(path)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
