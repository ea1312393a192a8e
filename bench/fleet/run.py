"""Every figure of fleet placement, one after the other, each beside its target:

    python bench/fleet/run.py [--placements 1000]

simulated members first, 100 and then 1,000, in CPU seconds of one process; then a burst on a real fleet of three over HTTPS.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def show(name: str, *options: str) -> None:
    print(f"\n{name} {' '.join(options)}, load {os.getloadavg()[0]:.1f}", flush=True)
    subprocess.run([sys.executable, str(HERE / name), *options], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--placements", type=int, default=1000)
    options = parser.parse_args()
    for members in (100, 1000):
        show("placements.py", "--members", str(members), "--placements", str(options.placements))
    show("burst.py", "--members", "3", "--placements", "100")
    show("burst.py", "--members", "3", "--placements", "1000")


if __name__ == "__main__":
    main()
