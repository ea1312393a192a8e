"""Every rule of every role that is shipped is needed: without it a call is refused that a test, named here, makes.

`python -m tools.deployment.needs` records who calls for what in which test. Those tests run under the very identities that the roles
are made from, so that each fails without the rule; `python -m tools.deployment.proof` takes rules away and looks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.deployment.held import WHO, held_by, missed_without
from tools.deployment.needs import ROOT, recorded

from corral.controllers.placement.members import RULES

NEEDS = recorded()
GRANTED = [dict(rule) for rule in RULES]
"""What a hub gives to its members: RBAC lets nobody grant what they do not hold, and `tests/kubernetes/test_process.py` joins one."""


def cases() -> list[tuple[str, int]]:
    return [(role, number) for role in WHO for number in range(len(held_by(role)))]


def name_of(case: object) -> str:
    return str(case)


@pytest.mark.parametrize(("role", "number"), cases(), ids=name_of)
def test_without_a_rule_a_test_fails(role: str, number: int) -> None:
    rule = held_by(role)[number].rule
    if rule in GRANTED:
        return
    missed = missed_without(role, number, NEEDS)
    assert missed, f"nobody is known to need {rule} of {role}: use it in a test and record it, or take it out"


@pytest.mark.parametrize("test", sorted(set(NEEDS.values())))
def test_the_tests_that_show_a_need_exist(test: str) -> None:
    path, _, name = test.partition("::")
    assert (ROOT / path).exists(), f"{path} is gone: record the needs again"
    assert not name or f"def {name.rpartition('::')[2]}(" in (ROOT / path).read_text(), f"{test} is gone: record again"
