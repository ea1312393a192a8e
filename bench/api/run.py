"""The API benchmark: Corral and, when KUBEBUILDER_ASSETS names its programs, a real kube-apiserver with etcd.

    python bench/api/run.py [--seconds 4] [--clients 32] [--processes N] [--fronts N] [--quick] [--only create-job,get] [--json FILE]

Every server runs durably on a fresh state folder and is driven by the same lean client over HTTPS keep-alive with a
bearer token of system:masters, from as many processes as it takes; their CPU share is printed. Before the timed tests each server is
warmed up for a while, as one that has been in use.
The last table gives ratios against the real server of the same run, next to the targets we set ourselves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).parent))

from scenarios import SCENARIOS, Result
from servers import Corral, KubeApiserver, Server, assets

from corral.runtime.busy import cores

# test -> (which figure, smallest wanted ratio to kube-apiserver; below 1 means smaller is better)
TARGETS = {
    "create-configmap": ("per_s", 1.5),
    "create-job": ("per_s", 1.5),
    "status-patch-job": ("per_s", 1.5),
    "create-workload": ("per_s", 4.0),
    "status-patch-workload": ("per_s", 4.0),
    "apply-job": ("per_s", 1.5),
    "get": ("per_s", 1.5),
    "watch-latency": ("p99_ms", 1.0),
    "fan-out-100": ("per_s", 1.5),
    "fan-out-1000": ("per_s", 1.5),
    "memory-50k": ("rss_mb", 0.5),
    "start-up": ("seconds", 0.2),
}


async def measure(server: Server, arguments: argparse.Namespace, folder: Path) -> dict[str, Result]:
    results: dict[str, Result] = {}
    started = time.perf_counter()
    await server.start(folder)
    results["start-up"] = Result({"seconds": time.perf_counter() - started})
    show(server.name, "start-up", results["start-up"])
    try:
        await server.prepare()
        if arguments.warm_up:
            await SCENARIOS["create-configmap"](server, arguments.clients, arguments.warm_up)
        for name, scenario in SCENARIOS.items():
            if arguments.only and name not in arguments.only.split(","):
                continue
            if arguments.quick and name in ("memory-50k", "list-10k"):
                continue
            if name in server.lacks:
                continue
            results[name] = await scenario(server, arguments.clients, arguments.seconds)
            show(server.name, name, results[name])
    finally:
        await server.stop()
    return results


def show(server: str, name: str, result: Result) -> None:
    figures = "  ".join(f"{key} {value:,.2f}" for key, value in result.figures.items())
    print(f"{server:<15} {name:<22} {figures}", flush=True)


def compare(ours: dict[str, Result], theirs: dict[str, Result]) -> None:
    print("\nratio of corral to kube-apiserver (in this run, on this machine)")
    for name, result in ours.items():
        figure, wanted = TARGETS.get(name, ("per_s" if "per_s" in result.figures else "p50_ms", 0.0))
        if name not in theirs or figure not in result.figures:
            continue
        ratio = result.figures[figure] / max(theirs[name].figures[figure], 1e-9)
        smaller = figure in ("p99_ms", "p50_ms", "rss_mb", "seconds")
        good = (ratio <= wanted if smaller else ratio >= wanted) if wanted else None
        verdict = "" if good is None else ("as wanted" if good else "FALLS SHORT")
        target = f"{'<=' if smaller else '>='} {wanted}" if wanted else ""
        print(f"  {name:<22} {figure:<8} {ratio:6.2f}x  {target:<8} {verdict}")


async def main(arguments: argparse.Namespace) -> None:
    corral = Corral(arguments.processes)
    corral.fronts = arguments.fronts
    servers: list[Server] = [corral]
    if assets() is not None and not arguments.alone:
        servers.append(KubeApiserver(arguments.processes))
    else:
        print("KUBEBUILDER_ASSETS is not set: measuring Corral alone (make kube-tools builds a real server)")
    everything: dict[str, dict[str, Result]] = {}
    for server in servers:
        with tempfile.TemporaryDirectory(prefix="api-bench-") as folder:
            everything[server.name] = await measure(server, arguments, Path(folder))
    if len(everything) == 2:
        compare(everything["corral"], everything["kube-apiserver"])
    if arguments.json:
        plain = {name: {test: each.figures for test, each in tests.items()} for name, tests in everything.items()}
        Path(arguments.json).write_text(json.dumps(plain, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each timed test")
    parser.add_argument("--clients", type=int, default=32, help="connections, each with one request outstanding")
    parser.add_argument("--processes", type=int, default=max(1, cores() // 4), help="of the client")
    parser.add_argument("--fronts", type=int, default=None, help="of Corral; as it finds right by default")
    parser.add_argument("--warm-up", type=float, default=0.0, help="seconds of requests before anything is timed")
    parser.add_argument("--alone", action="store_true", help="leave out the real server")
    parser.add_argument("--only", default="", help="comma-separated names of tests")
    parser.add_argument("--quick", action="store_true", help="leave out the tests that fill a server")
    parser.add_argument("--json", default="", help="also write the figures to this file")
    uvloop.install()
    asyncio.run(main(parser.parse_args()))
