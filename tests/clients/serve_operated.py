"""An embedded cluster with every operator and real processes for pods: what the job SDKs are tested against.

Prints the path of the kubeconfig when it is ready, and runs until it is terminated.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from tests.e2e.operated_cluster import OperatedCluster


async def main(state: Path) -> None:
    cluster = OperatedCluster(state, network="127.80.0.0/16")
    cluster.base.server.streams = cluster.runtime
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await cluster.start()
    cluster.base.server.write_kubeconfig(state / "kubeconfig")
    print(state / "kubeconfig", flush=True)
    await stop.wait()
    await cluster.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
