"""Every feature gate that is called honoured has an effect: something that can be seen differs with it on and off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gate_actions import ACTIONS
from gate_decisions import DECISIONS, Observe
from stuck_gates import SHOWN_BY

from corral.kinds.kueue.gates import INERT, LOCKED, OFF_BY_DEFAULT, ON_BY_DEFAULT

HERE = Path(__file__).parent
EFFECTS = {**DECISIONS, **ACTIONS}


def test_every_honoured_gate_is_shown_once() -> None:
    assert sorted([*EFFECTS, *SHOWN_BY]) == sorted((ON_BY_DEFAULT | OFF_BY_DEFAULT) - LOCKED - set(INERT))


@pytest.mark.parametrize(
    ("gate", "observe", "off", "on"), [(gate, *effect) for gate, effect in EFFECTS.items()], ids=list(EFFECTS)
)
def test_what_is_seen_with_a_gate_differs_from_what_is_seen_without(
    gate: str, observe: Observe, off: Any, on: Any
) -> None:
    assert (observe({gate: False}), observe({gate: True})) == (off, on)
    assert off != on


def test_the_tests_that_show_a_gate_fail_when_it_is_stuck_at_its_default() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-p", "stuck_gates"]
    ran = subprocess.run(
        [*command, *SHOWN_BY.values()],
        cwd=HERE.parents[2],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout.splitlines()[-1].split(" in ")[0]) == (0, f"{len(SHOWN_BY)} xfailed"), ran.stdout
