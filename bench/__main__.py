"""Runs the benchmarks one after the other, each in a process of its own: python -m bench [NAME ...].

What they print is recorded by hand in RESULTS.md, with the command and the machine; what it replaces goes to HISTORY.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = {
    "api": ["api/run.py"],
    "owner": ["api/owner.py"],
    "decide": ["queueing/decide.py"],
    "baseline": ["queueing/cluster.py", "baseline"],
    "large": ["queueing/cluster.py", "large"],
    "topology": ["queueing/cluster.py", "topology"],
    "kueue-runner": ["queueing/upstream_runner.py"],
    "pods": ["node/simulated_pods.py"],
    "jobs": ["node/real_jobs.py"],
    "start": ["start/run.py"],
    "submit": ["submit/run.py"],
    "dispatch": ["dispatch/run.py"],
    "late-binding": ["dispatch/run.py", "--dispatcher", "late-binding"],
    "incremental": ["dispatch/run.py", "--dispatcher", "incremental"],
    "dispatch-10": ["dispatch/run.py", "--workers", "10", "--jobs", "500"],
    "late-binding-10": ["dispatch/run.py", "--workers", "10", "--jobs", "500", "--dispatcher", "late-binding"],
    "late-binding-40": ["dispatch/run.py", "--workers", "40", "--jobs", "500", "--dispatcher", "late-binding"],
    "fleet": ["fleet/placements.py"],
    "fleet-1000": ["fleet/placements.py", "--members", "1000"],
    "fleet-burst": ["fleet/burst.py"],
    "beside-kueue": ["real/beside_kueue.py"],
    "growth": ["growth/run.py"],
    "stalls": ["stalls/run.py"],
}


def main() -> int:
    wanted = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in wanted if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    failed = []
    for name in wanted:
        script, *arguments = BENCHMARKS[name]
        if not (HERE / script).exists():
            continue
        print(f"\n=== {name}: python bench/{script} {' '.join(arguments)}", flush=True)
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        if subprocess.run([sys.executable, str(HERE / script), *arguments], env=environment, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
