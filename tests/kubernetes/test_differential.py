"""A few scenarios on Kueue's own scheduler and on Corral: the same decisions. `make differential` plays many."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests import waiting
from tools.differential import compare, embedded, kueue
from tools.differential.player import Record
from tools.differential.scenario import scenario

SEEDS = (0, 2)
TURNS = 3
ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(bool(kueue.missing()), reason=kueue.missing() or "there"),
    pytest.mark.skipif(not kueue.built().exists(), reason="needs Kueue's scheduler: run `make differential` once"),
    pytest.mark.timeout(900),
]


async def _on_kueue(seeds: list[int]) -> list[Record]:
    return [record async for record in kueue.play("classical", map(scenario, seeds), at_once=len(seeds))]


def test_kueue_and_corral_decide_the_same() -> None:
    # On a machine that is busy for a moment Kueue may see two things in another order; then it is asked again, Corral is not.
    ours = {seed: embedded.play_seed(seed) for seed in SEEDS}
    differing = dict.fromkeys(SEEDS, "")
    for _ in range(TURNS):
        records = asyncio.run(_on_kueue(list(differing)))
        by_name = {record.name: record for record in records}
        found = {seed: compare.decisions(by_name[scenario(seed).name], ours[seed]) for seed in differing}
        differing = {seed: str(difference) for seed, difference in found.items() if difference is not None}
        if not differing:
            return
    raise AssertionError("\n".join(f"seed {seed}: {difference}" for seed, difference in differing.items()))


def test_nothing_keeps_running_when_the_comparison_is_ended() -> None:
    command = [sys.executable, "-m", "tools.differential", "--seeds", "0"]
    comparison = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        waiting.eventually(lambda: "kube-apiserver" in _session(comparison.pid), what="the start of the API server")
        comparison.send_signal(signal.SIGTERM)
        comparison.wait(waiting.PATIENCE_S)
        waiting.eventually(lambda: not _session(comparison.pid), what="the end of everything it had started")
    finally:
        comparison.kill()


def _session(leader: int) -> list[str]:
    """The names of the processes that live in a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = stat.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if rest.split()[3] == str(leader) and rest.split()[0] != "Z":
            found.append(head.partition("(")[2])
    return found
