"""Every recording of real MultiKueue clusters, replayed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from replay_multikueue import replay

RECORDINGS = sorted((Path(__file__).parent.parent / "data" / "multikueue").glob("*.json"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_fleet_goes_through_what_was_recorded(path: Path) -> None:
    recording = json.loads(path.read_text())
    if "steps" not in recording:
        pytest.skip("measurements, not a scenario")
    assert replay(recording) == ""
