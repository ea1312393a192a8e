"""Recordings of a real hub and members, replayed; `replay_kubefleet.py` does the same for any file in that format."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from replay_kubefleet import OTHER_WORLD, replay

DATA = Path(__file__).parents[1] / "data" / "kubefleet"


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.json") if path.stem not in OTHER_WORLD))
def test_a_recording_is_reproduced(name: str) -> None:
    assert replay(json.loads((DATA / f"{name}.json").read_text())) == []
