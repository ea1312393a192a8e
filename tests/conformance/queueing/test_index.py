"""SCENARIOS.md tells the truth: every test it names exists, and its sums add up."""

from __future__ import annotations

import re

import index

NAMED = re.compile(r"^- ([A-Z]{3}-\d+): `(.*)`$", re.MULTILINE)
ROW = re.compile(r"^\| (.+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def test_every_named_test_exists() -> None:
    text = index.OUTPUT.read_text()
    named = dict(NAMED.findall(text))
    claimed = index.read_claims((index.HERE / "scenarios.toml").read_text())
    assert named
    assert set(claimed.tests) <= set(named)
    assert index.missing(named.values(), index.collect()) == []


def test_sums_add_up() -> None:
    *chapters, total = [list(map(int, row[1:])) for row in ROW.findall(index.OUTPUT.read_text())]
    assert [sum(column) for column in zip(*chapters, strict=True)] == total
    assert all(count == tested + refused + still for count, tested, refused, still in (*chapters, total))
    assert total[1] == len(NAMED.findall(index.OUTPUT.read_text()))


def test_ranges_stand_for_scenarios() -> None:
    assert list(index.expand(["ABC-08..10", "ABC-99"])) == ["ABC-08", "ABC-09", "ABC-10", "ABC-99"]
