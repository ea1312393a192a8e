"""What a process of controllers costs over a real API server, by the number of Workloads: `python -m bench.real.sizing [SIZE ...]`.

It needs the real programs (`make kube-tools`, KUBE_TOOLS); `--embedded` does without, over an API server of Corral's own. Memory and CPU are
those of the leader; the time is from its start until the status of the queue counts every Workload. Admitting goes on after that."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.kubernetes.cluster import ControlPlane, eventually, programs

from corral.client.http import HttpClient
from corral.client.protocol import Client
from corral.clusters.definitions import install
from corral.core.meta import Obj
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS

SIZES = (0, 1000, 5000)
AT_ONCE = 8
PATIENCE_S = 3600


def workload(number: int) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "queue", "podSets": [{"name": "main", "count": 1, "template": template}]}
    return {"metadata": {"name": f"w{number}", "namespace": "default"}, "spec": spec}


async def make_workloads(client: HttpClient, first: int, last: int) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with gate:
            await client.create(WORKLOADS, workload(number))

    await asyncio.gather(*(one(number) for number in range(first, last)))


async def make_queue(client: Client, largest: int) -> None:
    """Half of the quota of the largest size, so that half of them wait."""
    await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
    resources = [{"name": "cpu", "nominalQuota": str(largest // 2)}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    await client.create(CLUSTER_QUEUES, {"metadata": {"name": "queue"}, "spec": spec})
    metadata = {"name": "queue", "namespace": "default"}
    await client.create(LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": "queue"}})


async def settled(client: HttpClient, size: int) -> bool:
    found = await client.get(CLUSTER_QUEUES, "queue")
    status = found.get("status") or {}
    return status.get("pendingWorkloads", 0) + status.get("reservingWorkloads", 0) == size


async def reserving(client: HttpClient) -> int:
    status = (await client.get(CLUSTER_QUEUES, "queue")).get("status") or {}
    return int(status.get("reservingWorkloads", 0))


class HasPid(Protocol):
    @property
    def pid(self) -> int: ...


def used(process: HasPid) -> tuple[float, float]:
    """Resident MiB and CPU seconds so far."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def start(log: Path, options: list[str]) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen([sys.executable, "-m", "corral", "controllers", "run", *options], stderr=output)


def start_embedded(size: int, path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.real.embedded", str(size), str(path)])


async def measure(plane: ControlPlane, folder: Path, sizes: Sequence[int], seconds: int) -> None:
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    await install(client)
    await eventually(lambda: client.list(WORKLOADS))
    await eventually(lambda: client.get(NAMESPACES, "default"))
    await make_queue(client, max(sizes))
    made = 0
    for size in sizes:
        await make_workloads(client, made, size)
        made = size
        await measure_one(client, plane.kubeconfig, folder, size, seconds)
    await client.close()


async def measure_embedded(folder: Path, sizes: Sequence[int], seconds: int) -> None:
    """Each size over a server of its own."""
    for size in sizes:
        path = folder / f"kubeconfig-{size}"
        server = start_embedded(size, path)
        try:
            while not path.exists():
                await asyncio.sleep(1)
                if server.poll() is not None:
                    raise SystemExit("the server ended")
            client = HttpClient.from_kubeconfig(path)
            await measure_one(client, path, folder, size, seconds)
            await client.close()
        finally:
            server.terminate()
            server.wait(60)


async def measure_one(client: HttpClient, path: Path, folder: Path, size: int, seconds: int) -> None:
    """The leader over a cluster that has so many Workloads."""
    config = folder / "configuration.yaml"
    config.write_text("integrations: {frameworks: [batch/job]}")
    process = start(folder / "log", ["--roles=queueing", f"--kubeconfig={path}", f"--config={config}"])
    try:
        began = time.monotonic()
        await eventually(lambda: settled(client, size), PATIENCE_S)
        taken = time.monotonic() - began
        before = used(process)
        await asyncio.sleep(seconds)
        after = used(process)
        most, admitted = peak(process), await reserving(client)
    except AssertionError:
        print((folder / "log").read_text()[-3000:], used(process), peak(process), file=sys.stderr)
        raise
    finally:
        process.terminate()
        process.wait(60)
    print(
        f"{size:6} Workloads: counted {taken:5.1f} s after the start, {after[0]:5.0f} MiB, at most {most:5.0f} MiB, "
        f"{before[1]:5.1f} s CPU until then, {(after[1] - before[1]) / seconds:.3f} CPUs in the {seconds} s after that, then {admitted} admitted; "
        f"load {os.getloadavg()[0]:.0f}",
        flush=True,
    )


def peak(process: HasPid) -> float:
    """The most MiB that were resident at once."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--embedded", action="store_true")
    parser.add_argument("--for", dest="seconds", type=int, default=20, help="seconds of admitting to look at")
    options = parser.parse_args()
    sizes = sorted(options.sizes) or SIZES
    with tempfile.TemporaryDirectory(prefix="corral-sizing-", ignore_cleanup_errors=True) as name:
        if options.embedded:
            asyncio.run(measure_embedded(Path(name), sizes, options.seconds))
            return
        binaries = programs()
        if binaries is None:
            raise SystemExit("no real kube-apiserver here; `make kube-tools` builds one, KUBE_TOOLS says where it is")
        plane = ControlPlane("sizing", Path(name) / "plane", binaries)
        try:
            plane.start(controllers=False)
            asyncio.run(measure(plane, Path(name), sizes, options.seconds))
        finally:
            plane.stop()


if __name__ == "__main__":
    main()
