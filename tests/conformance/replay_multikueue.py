"""Replays recordings of real MultiKueue clusters on a Corral fleet on virtual time, and compares what every object went through.

    python tests/conformance/replay_multikueue.py FILE...

prints one line per scenario, with the first difference where there is one, and ends with `N passed, M failed`.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from multikueue.compare import Difference, anonymous, differences, swapped
from multikueue.corrected import MANAGER, Expectation, expectation, without_brief_losers
from multikueue.facts import State, histories
from multikueue.objects import whole
from multikueue.owners import other_owners
from multikueue.run import Run, play

from corral.runtime.virtual import run_virtual


def replay(recording: dict[str, Any]) -> str:
    """The first difference between a recording and a run of it; empty when there is none."""
    found = all_differences(recording)
    return found[0] if found else ""


def all_differences(recording: dict[str, Any]) -> list[str]:
    """Every difference between a recording and a run of it."""
    run = run_virtual(lambda: play(recording))
    wanted, before = wanted_of(recording, run)
    found = [*map(str, nearest(wanted, before, run)), *other_owners(recording, wanted, run)]
    return [*other_answers(run, wanted), *found]


def other_answers(run: Run, wanted: Expectation) -> list[str]:
    """Where steps were answered otherwise; what was read at the end of a halt that is a defect does not count."""
    return [answer.text for answer in run.answers if answer.part != "workload" or MANAGER not in wanted.goes_on]


def wanted_of(recording: dict[str, Any], run: Run) -> tuple[Expectation, list[State]]:
    """What a recording says should have happened, and the state of things before."""
    recorded = [
        State(entry["cluster"], entry["event"], entry["kind"], entry["object"], entry["t"])
        for entry in recording["log"]
    ]
    recorded = list(whole(recorded, run.set_up))
    wanted = expectation([state for state in recorded if state.t >= 0], recording["steps"])
    return wanted, [*run.set_up, *(state for state in recorded if state.t < 0)]


def nearest(wanted: Expectation, before: list[State], run: Run) -> list[Difference]:
    """How a run differs from what was wanted, read in the way that agrees best: which of equal workers wins is chance."""
    readings = []
    for even_refused in (False, True):
        expected = histories(without_brief_losers(wanted.states, even_refused=even_refused), before)
        actual = histories(without_brief_losers(run.states, even_refused=even_refused), run.set_up)
        readings += [
            differences(wanted, expected, actual),
            differences(wanted, swapped(expected), actual),
            differences(wanted, anonymous(expected), anonymous(actual)),
        ]
    return min(readings, key=len)


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
