"""Replays recordings of real MultiKueue clusters on a Corral fleet on virtual time, and compares what every object went through.

    python tests/conformance/replay_multikueue.py [--settings shipped] FILE...

prints one line per scenario, with the first difference where there is one, and ends with `N passed, M failed`. Settings are
those of upstream, `shipped`, or `both`.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from multikueue.answers import Answer
from multikueue.compare import Difference, anonymous, differences, renamed
from multikueue.corrected import MANAGER, Expectation, without_brief_losers
from multikueue.ends import other_ends
from multikueue.facts import State, histories
from multikueue.mode import MODES, UPSTREAM, Mode
from multikueue.owners import other_owners
from multikueue.recording import Measurements, Unusable, load
from multikueue.run import Run, play, wanted_of
from multikueue.sooner import Overtaken, is_passing, lasting

from corral.runtime.virtual import run_virtual


def replay(recording: dict[str, Any], mode: Mode = UPSTREAM) -> str:
    """The first difference between a recording and a run of it; empty when there is none."""
    found = all_differences(recording, mode)
    return found[0] if found else ""


def all_differences(recording: dict[str, Any], mode: Mode = UPSTREAM) -> list[str]:
    """Every difference between a recording and a run of it."""
    return compared(recording, run_virtual(lambda: play(recording, mode)), mode)


def compared(recording: dict[str, Any], run: Run, mode: Mode = UPSTREAM) -> list[str]:
    """Every difference between a recording and what happened here."""
    wanted, before = wanted_of(recording, run.set_up)
    answers, owners = other_answers(run, wanted), other_owners(recording, wanted, run)
    if mode.is_upstream:
        found = nearest(wanted, before, run)
    else:
        overtaken = Overtaken(recording)
        found = nearest_lasting(wanted, before, run, overtaken)
        answers = [answer for answer in answers if not overtaken.excuses(answer)]
        owners = [text for text in owners if not overtaken.is_told_of(text)]
    return [*(answer.text for answer in answers), *map(str, found), *other_ends(wanted, run), *owners]


def other_answers(run: Run, wanted: Expectation) -> list[Answer]:
    """Where steps were answered otherwise; what was read at the end of a halt that is a defect does not count."""
    return [answer for answer in run.answers if answer.part != "workload" or MANAGER not in wanted.goes_on]


def nearest(wanted: Expectation, before: list[State], run: Run) -> list[Difference]:
    """How a run differs from what was wanted, read in the way that agrees best: which of equal workers wins is chance."""
    return min(readings(wanted, before, run, list), key=len)


def nearest_lasting(wanted: Expectation, before: list[State], run: Run, overtaken: Overtaken) -> list[Difference]:
    """The same where the manager acts sooner than upstream's: without what is over in a moment, or came too late."""
    pairs = zip(readings(wanted, before, run, list), readings(wanted, before, run, lasting), strict=True)
    return min((still_there(one, other, overtaken) for one, other in pairs), key=len)


def still_there(strict: list[Difference], lasting: list[Difference], overtaken: Overtaken) -> list[Difference]:
    """Differences that are there in either view."""
    differs = {one.aspect for one in strict}
    return [one for one in lasting if one.aspect in differs and not is_passing(one) and not overtaken.covers(one)]


def readings(
    wanted: Expectation, before: list[State], run: Run, seen: Callable[[list[State]], list[State]]
) -> list[list[Difference]]:
    """The differences by each way to tell workers apart."""
    workers = [name for name in run.clusters if name != MANAGER]
    found = []
    for even_refused in (False, True):
        expected = histories(seen(without_brief_losers(wanted.states, even_refused=even_refused)), before)
        actual = histories(seen(without_brief_losers(run.states, even_refused=even_refused)), run.set_up)
        found += [
            differences(_told_of_others(wanted, names), renamed(expected, names), actual)
            for names in _exchanges(workers)
        ]
        found.append(differences(wanted, anonymous(expected, workers), anonymous(actual, workers)))
    return found


def _told_of_others(wanted: Expectation, names: dict[str, str]) -> Expectation:
    return replace(wanted, lost_kind=frozenset(names.get(name, name) for name in wanted.lost_kind))


def _exchanges(workers: list[str]) -> list[dict[str, str]]:
    """The ways to take one worker for another: none, or any two exchanged."""
    pairs = itertools.combinations(workers, 2)
    return [{}, *({one: other, other: one} for one, other in pairs)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-v", "--verbose", action="store_true", help="show the controllers' log, and every difference")
    parser.add_argument("--settings", choices=[*MODES, "both"], default="upstream", help="how the manager is set")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO if arguments.verbose else logging.CRITICAL)
    modes = [mode for mode in MODES.values() if arguments.settings in (mode.name, "both")]
    passed = failed = 0
    for path, mode in itertools.product(arguments.files, modes):
        try:
            recording = load(path)
        except Measurements:
            print(f"skip {path.stem}: measurements, not a scenario")
            continue
        except Unusable as problem:
            found, name = [str(problem)], path.stem
        else:
            found, name = _found(recording, mode), str(recording["name"])
        name += f" ({mode.name})" if len(modes) > 1 else ""
        passed, failed = (passed, failed + 1) if found else (passed + 1, failed)
        print(f"{'FAIL' if found else 'ok  '} {name}{': ' + found[0] if found else ''}", flush=True)
        if arguments.verbose:
            print("".join(f"     {text}\n" for text in found[1:]), end="")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _found(recording: dict[str, Any], mode: Mode) -> list[str]:
    try:
        return all_differences(recording, mode)
    except Exception as error:  # one recording that cannot be played must not end the others
        logging.getLogger(__name__).info("the replay failed", exc_info=True)
        return [f"could not be replayed: {type(error).__name__}: {error}"]


if __name__ == "__main__":
    sys.exit(main())
