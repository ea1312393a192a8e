"""What a queued Workload costs, in one process on virtual time: writes by kind and operation, reconciles, CPU, function calls.

    python bench/queueing/counts.py [baseline|large|topology] [--scale 0.1] [--apart] [--count] [--profile tottime]

The load of `cluster.py` against the same controllers, but in memory: no HTTPS, no disk, and nothing takes time, so that counts are
those of the code and not of the machine. Decisions come at once, which is the hardest case for evictions: whatever becomes free
is given away, and taken back when somebody of higher priority comes. With `--apart` nothing comes at the same moment.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from bench.counting import Counts
from cluster import run

from corral.controllers.queueing.setup import Queueing
from corral.runtime.virtual import run_virtual
from corral.server.gc_tuning import calm_collector
from corral.testing.cluster import VirtualCluster


async def measure(options: argparse.Namespace) -> None:
    queueing = Queueing()
    profile = cProfile.Profile() if options.profile else None
    async with VirtualCluster([queueing.setup], plugins=queueing.plugins) as cluster:
        counts = Counts()
        if options.count:
            counts.follow(cluster.api, cluster.manager)
        revision, begin = cluster.store.revision, time.process_time()
        if profile is not None:
            profile.enable()
        load = await run(
            options.name, options.scale, cluster.client, cluster.clock, Random(1) if options.apart else None
        )
        await asyncio.sleep(5)
        if profile is not None:
            profile.disable()
        took, written = time.process_time() - begin, cluster.store.revision - revision
        if options.count:
            counts.print(load.total)
        print(f"  {written / load.total:.2f} revisions and {took / load.total * 1000:.2f} ms of CPU for each")
    if profile is not None:
        stats = pstats.Stats(profile).sort_stats(options.profile)
        stats.print_stats(60)
        stats.print_callers("of .dict. obj")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="baseline", choices=("baseline", "large", "topology"))
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--count", action="store_true", help="print writes and reconciles of a Workload")
    parser.add_argument("--profile", choices=("tottime", "cumtime"), help="print where the time goes")
    options = parser.parse_args()
    calm_collector()
    run_virtual(lambda: measure(options))


if __name__ == "__main__":
    main()
