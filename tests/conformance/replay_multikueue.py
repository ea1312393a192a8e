"""Replays recordings of real MultiKueue clusters on a Corral fleet on virtual time, and compares what every object went through.

    python tests/conformance/replay_multikueue.py FILE...

prints one line per scenario, with the first difference where there is one, and ends with `N passed, M failed`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from multikueue.compare import Difference, anonymous, differences, swapped
from multikueue.corrected import expectation, without_brief_losers
from multikueue.facts import State, histories
from multikueue.steps import Refusal, perform
from multikueue.world import World

from corral.runtime.virtual import run_virtual

SETTLE_S = 3.0
FRAMEWORKS = [
    "batch/job", "jobset.x-k8s.io/jobset", "kubeflow.org/pytorchjob", "kubeflow.org/tfjob",
    "trainer.kubeflow.org/trainjob", "pod", "deployment", "statefulset",
]  # fmt: skip
"""What Kueue was told to queue when the recordings were made."""
AFTER_S = 10.0


def replay(recording: dict[str, Any]) -> str:
    """The first difference between a recording and a run of it; empty when there is none."""
    names = ["manager", "worker1", "worker2"]
    states, refusal = run_virtual(lambda: _run(recording, names))
    if refusal is not None:
        return str(refusal)
    found = nearest(recording, states)
    return str(found[0]) if found else ""


def nearest(recording: dict[str, Any], states: list[State]) -> list[Difference]:
    """How a run differs from a recording, read in the way that agrees longest: which of equal workers wins is chance."""
    recorded = [
        State(entry["cluster"], entry["event"], entry["kind"], entry["object"], entry["t"])
        for entry in recording["log"]
        if entry["t"] >= 0
    ]
    wanted = expectation(recorded, recording["steps"])
    readings = []
    for even_refused in (False, True):
        expected = histories(without_brief_losers(wanted.states, even_refused=even_refused))
        actual = histories(without_brief_losers(states, even_refused=even_refused))
        readings += [
            differences(wanted, expected, actual),
            differences(wanted, swapped(expected), actual),
            differences(wanted, anonymous(expected), anonymous(actual)),
        ]
    return min(readings, key=len)


async def _run(recording: dict[str, Any], names: list[str]) -> tuple[list[State], Refusal | None]:
    # Upstream collects news from workers for a second before it acts on them; states in between show only then.
    configuration = {
        "integrations": {"frameworks": FRAMEWORKS},
        **(recording.get("managerConfiguration") or {}),
        "corral": {"remoteEventBatch": "1s"},
    }
    world = World(names, configuration)
    await world.start()
    try:
        for entry in recording["setup"]:
            await world.create(entry["cluster"], entry["object"])
        await asyncio.sleep(SETTLE_S)
        world.log.clear()
        begin = asyncio.get_running_loop().time()
        for step in recording["steps"]:
            await asyncio.sleep(max(0.0, begin + step["t"] / 1000 - asyncio.get_running_loop().time()))
            refusal = await perform(world, step, recording)
            if refusal is not None:
                return world.log, refusal
        last = max([entry["t"] for entry in recording["log"]] or [0]) / 1000
        await asyncio.sleep(max(0.0, begin + last + AFTER_S - asyncio.get_running_loop().time()))
        return world.log, None
    finally:
        await world.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-v", "--verbose", action="store_true", help="show the controllers' log")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO if arguments.verbose else logging.CRITICAL)
    passed = failed = 0
    for path in arguments.files:
        recording = json.loads(path.read_text())
        if "steps" not in recording:
            continue
        difference = replay(recording)
        passed, failed = (passed, failed + 1) if difference else (passed + 1, failed)
        print(f"{'FAIL' if difference else 'ok  '} {recording['name']}{': ' + difference if difference else ''}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
