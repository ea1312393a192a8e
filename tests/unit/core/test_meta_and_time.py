"""Metadata helpers never mutate; conditions keep their transition time; times and durations read and print as Go's do."""

from __future__ import annotations

import copy

import pytest

from corral.core import conditions, meta, timestamps

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "1"}, "finalizers": ["x"]},
}


def test_changes_build_new_objects_and_leave_the_old_alone() -> None:
    before = copy.deepcopy(POD)
    changed = meta.with_labels(
        meta.without_finalizer(meta.with_annotations(POD, {"k": "v"}), "x"), {"a": None, "b": "2"}
    )
    assert before == POD
    assert changed["metadata"] == {
        "name": "p", "namespace": "n", "uid": "u", "labels": {"b": "2"}, "annotations": {"k": "v"}
    }  # fmt: skip


def test_an_owner_reference_names_its_owner_and_is_found_again() -> None:
    child = meta.with_metadata({"metadata": {"name": "c"}}, ownerReferences=[meta.owner_ref(POD)])
    assert meta.controller_of(child) == {
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True, "blockOwnerDeletion": True
    }  # fmt: skip
    assert meta.is_owned_by(child, "u")


def test_a_condition_keeps_its_transition_time_while_its_status_stays() -> None:
    first = conditions.set_condition([], conditions.condition("Ready", True, "A", "a"), "T1")
    second = conditions.set_condition(first, conditions.condition("Ready", True, "B", "b"), "T2")
    third = conditions.set_condition(second, conditions.condition("Ready", False, "C", "c"), "T3")
    assert [entry[0]["lastTransitionTime"] for entry in (first, second, third)] == ["T1", "T1", "T3"]
    assert second[0]["reason"] == "B"


@pytest.mark.parametrize(
    ("text", "seconds", "canonical"),
    [
        ("300s", 300, "5m0s"),
        ("1h", 3600, "1h0m0s"),
        ("1.5s", 1.5, "1.5s"),
        ("250ms", 0.25, "250ms"),
        ("0", 0, "0s"),
        ("-1m", -60, "-1m0s"),
        ("1h2m3s", 3723, "1h2m3s"),
    ],
)
def test_durations_are_gos(text: str, seconds: float, canonical: str) -> None:
    assert timestamps.parse_duration(text) == seconds
    assert timestamps.format_duration(seconds) == canonical


@pytest.mark.parametrize("text", ["", "5", "h", "5x", "1h-2m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        timestamps.parse_duration(text)


def test_times_print_seconds_and_parse_offsets_and_fractions() -> None:
    assert (
        timestamps.format_time(timestamps.parse_time("2026-11-16T05:28:37.123456789+02:00")) == "2026-11-16T03:28:37Z"
    )
    assert timestamps.format_micro(1.5) == "1970-01-01T00:00:01.500000Z"
