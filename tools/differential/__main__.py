"""Corral beside Kueue's own scheduler: the same random scenarios on both, and whatever they decide differently.

    python -m tools.differential --seeds 0-499
    python -m tools.differential --seeds 0-499 --alone 100

Each scenario is played once on each side, Corral with the settings that make it go at Kueue's pace, and at the very times
Kueue took where usage that grows with time decides (admission fair sharing). What differs is played more
often on both: it is a difference when Kueue decides the same each time, or never as Corral does, chance when one of Kueue's own
ways is Corral's, and no more than a busy moment when each further play is. A scenario ends where a Workload is evicted for the same other again and again. Corral must decide the same
each time, in whatever order its tasks run; `--alone` asks only that. Needs a real kube-apiserver and etcd (`make kube-tools`), and
Go for the first run; `--alone` needs neither.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import signal
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import FrameType

from tools.differential import compare, embedded, kueue
from tools.differential.records import Records
from tools.differential.scenario import scenario

AT_ONCE = 60
REPEATS = 5


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tools.differential", description=__doc__.partition("\n")[0])
    options.add_argument("--seeds", default="0-499", help="0-499, or 3,17,41")
    options.add_argument("--at-once", type=int, default=AT_ONCE, help="scenarios in the real cluster at a time")
    options.add_argument("--keep", type=Path, help="folder for records; those of Kueue found there are used again")
    options.add_argument("--repeats", type=int, default=REPEATS, help="how often what differs is played again")
    options.add_argument("--alone", type=int, metavar="TIMES", help="only play each scenario so often on Corral")
    options.add_argument("--reasons", action="store_true", help="also print where only reasons or words differ")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, _end)
    if chosen.alone:
        return _alone(_seeds(chosen.seeds), chosen.alone)
    if lack := kueue.missing():
        print(f"cannot compare: {lack}", file=sys.stderr)
        return 2
    return asyncio.run(_compare(chosen))


def _end(number: int, _: FrameType | None) -> None:
    """As an exception, so that what was started is stopped on the way out."""
    raise SystemExit(128 + number)


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _alone(seeds: list[int], times: int) -> int:
    """Whether Corral decides the same each time."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        varying = [
            f"seed {seed} ({scenario(seed).family}) {found}"
            for seed, found in zip(seeds, pool.map(embedded.first_variation, seeds, [times] * len(seeds)), strict=True)
            if found
        ]
    print(*varying, sep="\n", end="\n" if varying else "")
    print(
        f"{len(seeds)} scenarios, each {times} times on Corral: {len(seeds) - len(varying)} decided the same each time"
    )
    return 1 if varying else 0


async def _compare(chosen: argparse.Namespace) -> int:
    seeds = _seeds(chosen.seeds)
    records = Records(chosen.keep, chosen.at_once)
    await records.play(seeds, [0])
    left = [seed for seed in seeds if records.difference(seed)]
    await records.play(left, range(1, 1 + chosen.repeats))
    verdicts = {seed: records.verdict(seed) for seed in left}
    for seed, verdict in verdicts.items():
        print(f"{verdict}: seed {seed} ({scenario(seed).family}) {records.difference(seed)}")
    words = {seed: found for seed in seeds if seed not in verdicts and (found := records.words(seed))}
    for seed, list_ in words.items() if chosen.reasons else ():
        print(f"words: seed {seed} ({scenario(seed).family}) {len(list_)} times, first {list_[0]}")
    counts = Counter(verdicts.values())
    print(
        f"{len(seeds)} scenarios ({records.evicting()} with evictions, {records.restless()} never at rest): "
        f"{counts[compare.ONCE]} decided differently the first time only, {counts[compare.CHANCE]} by chance, "
        f"{sum(counts[verdict] for verdict in compare.DEFECTS)} not by chance; "
        f"in {len(words)} of the others a Workload waits with another reason or other words"
    )
    return 1 if any(counts[verdict] for verdict in compare.DEFECTS) else 0


if __name__ == "__main__":
    sys.exit(main())
