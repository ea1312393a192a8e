"""Every recording of real MultiKueue clusters, replayed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from multikueue.facts import histories
from multikueue.mode import MODES, Mode
from multikueue.run import wanted_of
from multikueue.sooner import Overtaken
from replay_multikueue import replay

RECORDINGS = sorted((Path(__file__).parent.parent / "data" / "multikueue").glob("*.json"))
SCENARIOS = [path for path in RECORDINGS if "steps" in json.loads(path.read_text())]


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_fleet_goes_through_what_was_recorded(path: Path, mode: Mode) -> None:
    assert replay(json.loads(path.read_text()), mode) == ""


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_something_of_every_recording_is_compared(path: Path) -> None:
    wanted, before = wanted_of(json.loads(path.read_text()), [])
    assert [*histories(wanted.states, before), *wanted.ends] != []


def test_few_recordings_have_steps_that_come_too_late_with_what_ships() -> None:
    overtaken = [path.stem for path in SCENARIOS if Overtaken(json.loads(path.read_text())).is_any]
    assert len(overtaken) == 1


@pytest.mark.parametrize(
    ("start", "old", "new"),
    [
        ("01-", "was admitted on", "was taken by"),
        ("04b", "pytorchjob-p-own", "pytorchjob-p-other"),
        ("14-", "Preempted to accommodate", "Preempted in favour of"),
        ("17c", "The admission check is active", "The admission check works"),
    ],
)
def test_a_falsified_recording_fails_with_what_ships_too(start: str, old: str, new: str) -> None:
    (path,) = [path for path in SCENARIOS if path.stem.startswith(start)]
    text = path.read_text()
    assert old in text
    assert replay(json.loads(text.replace(old, new)), MODES["shipped"]) != ""
