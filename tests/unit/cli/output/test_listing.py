"""The one place that shows lists: columns, order, emptiness, and what changed since."""

from __future__ import annotations

from typing import Any

import click
import pytest

from corral.cli.output.formats import parse_format
from corral.cli.output.listing import Listing, Output, Shower, _changed, in_order


def listing(*entries: tuple[str, str, str], version: str = "1") -> Listing:
    objects: list[dict[str, Any]] = [
        {"metadata": {"name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z", "resourceVersion": version}}
        for name, _, day in entries
    ]
    rows = [(name, status, f"{day}d") for name, status, day in entries]
    return Listing(("NAME", "STATUS", "AGE"), rows, objects, frozenset({1}), "No pods found.")


def names(found: Listing) -> list[object]:
    return [row[0] for row in found.rows]


def test_columns_of_low_priority_are_for_wide_tables(capsys: pytest.CaptureFixture[str]) -> None:
    Shower(Output()).show([listing(("a", "Running", "1"))])
    assert capsys.readouterr().out.splitlines() == ["NAME   AGE", "a      1d"]
    Shower(Output(parse_format("wide"))).show([listing(("a", "Running", "1"))])
    assert "Running" in capsys.readouterr().out


def test_later_rows_stand_below_earlier_ones_without_another_header(capsys: pytest.CaptureFixture[str]) -> None:
    shower = Shower(Output(parse_format("wide")))
    shower.show([listing(("a-long-name", "Running", "1"))])
    shower.show([listing(("b", "Failed", "1"))])
    assert [line.index(word) for line, word in zip(capsys.readouterr().out.splitlines(), ("STATUS", "Running", "Failed"), strict=True)] == [14, 14, 14]  # fmt: skip


def test_nothing_is_said_to_be_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Shower(Output()).show([listing()])
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "No pods found.\n")


def test_custom_columns_are_read_from_the_objects(capsys: pytest.CaptureFixture[str]) -> None:
    Shower(Output(parse_format("custom-columns=WHO:.metadata.name,X:.x"))).show([listing(("a", "Running", "1"))])
    assert capsys.readouterr().out.splitlines() == ["WHO   X", "a     <none>"]


def test_lists_are_sorted_by_column_by_age_and_by_path() -> None:
    given = listing(("b", "Pending", "1"), ("a", "Running", "3"), ("c", "Failed", "2"))
    assert names(in_order(given, "name")) == ["a", "b", "c"]
    assert names(in_order(given, "status")) == ["c", "b", "a"]
    assert names(in_order(given, "age")) == ["a", "c", "b"]
    assert names(in_order(given, ".metadata.creationTimestamp")) == ["b", "c", "a"]
    with pytest.raises(click.UsageError, match="there is no such column; there are name, status, age"):
        in_order(given, "nmae")
    with pytest.raises(click.UsageError, match="is not a path"):
        in_order(given, "..x")


def test_amounts_are_sorted_by_their_size() -> None:
    objects: list[dict[str, Any]] = [{"metadata": {"name": amount}, "cpu": amount} for amount in ("10", "500m", "2")]
    given = Listing(("NAME",), [(obj["cpu"],) for obj in objects], objects)
    assert names(in_order(given, ".cpu")) == ["500m", "2", "10"]


def test_time_that_passes_is_no_change() -> None:
    before = listing(("a", "Running", "1"), ("b", "Running", "1"))
    older = listing(("a", "Running", "2"), ("b", "Failed", "2"))
    assert names(_changed(before, older)) == ["b"]
    assert names(_changed(before, listing(("a", "Running", "1"), version="2"))) == ["a"]
