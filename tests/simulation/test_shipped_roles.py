"""The controllers run with the roles of `deploy/` and nothing else, as their pods do: they do all that these let them do, and without
any one of the rules to follow something they do not do their work.

What takes a job of some kind, or a rare turn, is recorded where it is needed (`python -m tools.deployment.needs`), in tests that run under the
identities that the roles are made from; `tests/docs/test_role_needs.py` looks that no rule is without such a test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.deployment.held import GRANTED, SHIPPED_WITH, WHO, Cell, cells, held_by
from tools.deployment.needs import recorded

from .shipped_roles import as_shipped, carried_out

FOLLOWING = ("list", "watch")


def following_rules() -> list[tuple[str, str, int]]:
    """Of each deployment the rules that let it follow something, by file and number; those of webhooks once, for a worker's."""
    return [
        (name, file, number)
        for name, files in SHIPPED_WITH.items()
        for file in files
        if (name, file) != ("manager", "webhooks")
        for number, held in enumerate(held_by(file))
        if set(FOLLOWING) & set(held.rule["verbs"]) and held.rule not in GRANTED
    ]


@pytest.mark.parametrize("name", SHIPPED_WITH)
def test_the_controllers_do_their_work_with_the_roles_that_are_shipped(name: str) -> None:
    outcome = as_shipped(name)
    assert outcome.refused == set()
    assert outcome.works


@pytest.mark.parametrize("name", SHIPPED_WITH)
def test_all_that_a_role_allows_is_done_by_somebody(name: str) -> None:
    """What may be followed is followed here; all else is done here or in a test that is recorded for it."""
    done = as_shipped(name).done
    idle = [
        f"{cell.verb} {cell.resource}.{cell.group} ({file})"
        for file in SHIPPED_WITH[name]
        for held in held_by(file)
        if held.rule not in GRANTED
        for cell in cells(held)
        if not any(_is_of(cell, each) for each in done | (set() if cell.verb in FOLLOWING else needed(file)))
    ]
    assert idle == [], "take these out of the identity, or show in a test what they are for and record it"


def needed(file: str) -> set[Cell]:
    return {Cell(need.verb, need.group, need.resource) for need in recorded() if need.who in WHO[file]}


def _is_of(cell: Cell, call: Cell) -> bool:
    return all(allowed in ("*", asked) for allowed, asked in zip(cell[:2], call[:2], strict=True)) and (
        cell.resource in ("*", call.resource) or (cell.resource == "*/status" and call.resource.endswith("/status"))
    )


@pytest.mark.parametrize(("name", "file", "number"), following_rules())
def test_without_a_rule_that_lets_it_follow_something_a_deployment_does_not_do_its_work(
    name: str, file: str, number: int
) -> None:
    held = held_by(file)[number]
    outcome = carried_out(name, without=held)
    assert not outcome.works, f"{held.rule} of {file} is not missed"
    assert any(_is_of(cell, each) for cell in cells(held) for each in outcome.refused)
