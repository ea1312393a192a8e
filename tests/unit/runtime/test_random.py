"""Uids that keep the order in which things were born."""

from __future__ import annotations

import uuid

from corral.runtime.random import Random


def test_uids_of_one_moment_and_of_later_ones_sort_as_they_were_made() -> None:
    source = Random(1)
    made = [source.uid_at(now) for now in [1000.0] * 5000 + [1000.5, 999.0, 1001.0]]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_uids_are_of_version_7() -> None:
    found = uuid.UUID(Random(1).uid_at(1_700_000_000.123))
    assert (found.version, found.variant) == (7, uuid.RFC_4122)
    assert found.int >> 80 == 1_700_000_000_123


def test_after_a_restart_uids_go_on() -> None:
    before, after = Random().uid_at(1000.0), Random().uid_at(1000.002)
    assert before < after


def test_nobody_can_compute_the_next_one() -> None:
    ends = {Random().uid_at(1000.0)[-12:] for _ in range(20)}
    assert len(ends) == 20
