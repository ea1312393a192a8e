"""The recorded answers of a real server, as part of the suite."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from replay_errors import DELIBERATE, replay

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("name", ["kube-errors.json", "kube-kueue-crd-cases.json"])
async def test_answers_are_as_recorded(name: str) -> None:
    passed, failed = await replay(DATA / name)
    assert passed > 30
    assert failed == [], [case for case, _ in failed]


@pytest.mark.parametrize("name", ["kube-errors.json", "kube-kueue-crd-cases.json"])
async def test_answers_are_the_same_from_processes_in_front_of_the_server(name: str, tmp_path: Path) -> None:
    passed, failed = await replay(DATA / name, state=tmp_path, fronts=2)
    assert passed > 30
    assert failed == [], [case for case, _ in failed]


def test_deliberate_differences_are_few_and_explained() -> None:
    assert len(DELIBERATE) <= 5
    assert all(len(why) > 20 for why in DELIBERATE.values())
