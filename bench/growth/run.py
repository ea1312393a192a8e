"""How costs grow with what a cluster holds: waiting jobs, stored objects, Events.

    python bench/growth/run.py [--sizes 1000,10000,100000] [--picture FILE.svg]

For every number of waiting Workloads: what one admission costs while they wait (decision code, CPU), and of a cluster that stores so
many of them, queues included: how long it takes to start and the CPU time of that, what a page of a list and a whole list in pages
cost, how long a new watch needs to tell all of them, and the memory of the process. Each cluster is a process of its own. With `--picture` the curves are drawn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "queueing"))

from decide import parked

from corral.client.http import HttpClient
from corral.clusters.embedded_api import EmbeddedApi
from corral.controllers.queueing.setup import Queueing
from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from corral.server.gc_tuning import calm_collector, loading
from corral.testing.queueing import make_cluster_queue, make_flavor, make_local_queue, make_workload

COLUMNS = (
    ("waiting", "waiting Workloads"),
    ("admit_us", "one admission, us of CPU"),
    ("fill_per_s", "created/s"),
    ("start_s", "start, s"),
    ("start_cpu_s", "start, s of CPU"),
    ("page_ms", "page of 500, ms"),
    ("list_s", "whole list, s"),
    ("watch_s", "watch tells all, s"),
    ("memory_mb", "memory, MB"),
)
LANES = 16
LIST_PAGE = 1000


def cluster(state: Path) -> EmbeddedApi:
    """A cluster that queues, without nodes."""
    queueing = Queueing()
    made = EmbeddedApi(state, plugins=queueing.plugins, extras=[queueing.visibility])
    for kind in native_kinds():
        made.api.registry.add(kind)
    queueing.setup(made.manager)
    return made


async def fill(state: Path, count: int) -> float:
    """Store so many Workloads that never fit; how many were created in a second."""
    made = cluster(state)
    await made.start()
    client = made.client
    await client.create(RESOURCE_FLAVORS, make_flavor("default"))
    await client.create(CLUSTER_QUEUES, make_cluster_queue("cq", {"default": {"cpu": 1}}))
    await client.create(LOCAL_QUEUES, make_local_queue("lq", "cq"))
    numbers = iter(range(count))

    async def lane() -> None:
        for number in numbers:
            workload = make_workload(f"w{number}", "lq", requests={"cpu": 1000})
            await client.create(WORKLOADS, {name: workload[name] for name in ("metadata", "spec")})

    started = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(LANES)))
    rate = count / (time.perf_counter() - started)
    await made.stop()
    return rate


async def measure(state: Path) -> dict[str, float]:
    """A second start on what is stored, and what its clients see."""
    calm_collector()
    started, began = time.perf_counter(), time.process_time()
    with loading():
        made = cluster(state)
        await made.start()
    ready, cpu = time.perf_counter() - started, time.process_time() - began
    made.server.write_kubeconfig(state / "kubeconfig")
    client = HttpClient.from_kubeconfig(state / "kubeconfig")
    await client.raw("GET", f"{WORKLOADS.path('default')}?limit=1")  # the handshake is not what grows
    page = await timed(client.raw("GET", f"{WORKLOADS.path('default')}?limit=500"))
    found: list[int] = []
    whole = await timed(list_all(client, found))
    told = await timed(tell_all(client, sum(found)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    await client.close()
    await made.stop()
    return {
        "start_s": ready,
        "start_cpu_s": cpu,
        "page_ms": page * 1000,
        "list_s": whole,
        "watch_s": told,
        "memory_mb": memory,
    }


async def timed(action: Any) -> float:
    started = time.perf_counter()
    await action
    return time.perf_counter() - started


async def list_all(client: HttpClient, found: list[int]) -> None:
    """Every page, as a client reads a list too large for one answer; how many objects each had."""
    token = ""
    while token or not found:
        page = await client.list(WORKLOADS, limit=LIST_PAGE, continue_token=token)
        found.append(len(page.items))
        token = page.continue_token


async def tell_all(client: HttpClient, count: int) -> None:
    seen = 0
    async for _ in client.watch(WORKLOADS, resource_version="0"):
        seen += 1
        if seen >= count:
            return


def row(count: int) -> dict[str, float]:
    """One size; storing and measuring are processes of their own, so that memory is that of a cluster which only serves."""
    with tempfile.TemporaryDirectory(prefix="corral-growth-") as folder:
        found: dict[str, float] = {"waiting": count, "admit_us": float(parked(count)["admit_one_us"])}  # type: ignore[arg-type]
        for step in ("fill", "measure"):
            command = [sys.executable, __file__, "--step", step, "--state", folder, "--sizes", str(count)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found |= json.loads(done.stdout.splitlines()[-1])
        return found


def picture(rows: list[dict[str, float]], path: Path) -> None:
    """The curves as an SVG: sizes along a logarithmic axis, every curve relative to its own largest value."""
    width, height, left = 640, 320, 60
    colours = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2", "#97bbf5", "#9c6b4e")
    steps = max(1, len(rows) - 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 220}" height="{height + 60}" font-family="sans-serif">'
    ]
    for number, found in enumerate(rows):
        at = left + number * (width - left) / steps
        parts.append(
            f'<text x="{at:.0f}" y="{height + 40}" font-size="12" text-anchor="middle">{found["waiting"]:,.0f}</text>'
        )
    for index, (name, title) in enumerate(COLUMNS[1:]):
        most = max(found[name] for found in rows) or 1.0
        points = " ".join(
            f"{left + number * (width - left) / steps:.0f},{20 + (height - 20) * (1 - found[name] / most):.0f}"
            for number, found in enumerate(rows)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colours[index]}" stroke-width="2"/>')
        label = f"{title}: {rows[-1][name]:,.1f}"
        parts.append(
            f'<text x="{width + 10}" y="{30 + 18 * index}" font-size="12" fill="{colours[index]}">{label}</text>'
        )
    path.write_text("\n".join([*parts, "</svg>\n"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--step", choices=("fill", "measure"))
    parser.add_argument("--state", type=Path)
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    if given.step == "fill":
        print(json.dumps({"fill_per_s": asyncio.run(fill(given.state, sizes[0]))}))
        return
    if given.step == "measure":
        print(json.dumps(asyncio.run(measure(given.state))))
        return
    print("| " + " | ".join(title for _, title in COLUMNS) + " |")
    print("|" + "---:|" * len(COLUMNS))
    rows = []
    for size in sizes:
        found = row(size)
        rows.append(found)
        print(
            "| "
            + " | ".join(f"{found[name]:,.0f}" if found[name] >= 100 else f"{found[name]:.2f}" for name, _ in COLUMNS)
            + " |",
            flush=True,
        )
    if given.picture:
        picture(rows, given.picture)


if __name__ == "__main__":
    main()
