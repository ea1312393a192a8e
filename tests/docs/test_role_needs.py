"""Every rule of every role that is shipped is needed: without it a call is refused that a test, named here, makes.

What is followed (`list`, `watch`) is shown by running the controllers with these roles: `tests/simulation/test_shipped_roles.py`. For all else
`python -m tools.deployment.needs` records who calls for what in which test. Those tests run under the very identities that the roles are made
from, so that each fails without the rule; `python -m tools.deployment.proof` takes rules away and looks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.deployment.held import GRANTED, SHIPPED_WITH, WHO, held_by, missed_without
from tools.deployment.needs import ROOT, Need, recorded

NEEDS = recorded()
FROM_OUTSIDE = ("sweeps.example.com", "studio.example.com")
"""Kinds of jobs that tests bring along: who adds one adds its rights."""


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


@pytest.mark.parametrize("role", SHIPPED_WITH)
def test_what_controllers_were_seen_to_need_is_in_the_roles_of_their_deployment(role: str) -> None:
    """Of a process it is not known for which of its roles it called: all together have it."""
    held = [each for file in SHIPPED_WITH[role] for each in held_by(file)]
    acting = set(WHO[role]) - {"process"}
    needed = [need for need in NEEDS if need.who in acting and need.group not in FROM_OUTSIDE and need != OUTSIDE]
    refused = [need for need in needed if not any(each.allows(need) for each in held)]
    assert refused == [], "these calls are made, and no rule allows them"


def test_what_a_process_was_seen_to_need_is_in_the_roles_of_some_deployment() -> None:
    held = [each for role in WHO for each in held_by(role)]
    needed = [need for need in NEEDS if need.who == "process"]
    assert [need for need in needed if not any(each.allows(need) for each in held)] == []


OUTSIDE = Need("hub", "patch", "", "services", "fleet-system")
"""A process outside of the cluster makes the Service that leads to its webhooks (`tests/kubernetes/accounts.py`)."""


@pytest.mark.parametrize("test", sorted(set(NEEDS.values())))
def test_the_tests_that_show_a_need_exist(test: str) -> None:
    path, _, name = test.partition("::")
    assert (ROOT / path).exists(), f"{path} is gone: record the needs again"
    assert not name or f"def {name.rpartition('::')[2]}(" in (ROOT / path).read_text(), f"{test} is gone: record again"
