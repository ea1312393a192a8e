"""Recordings of a real hub and members, replayed; `replay_kubefleet.py` does the same for any file in that format."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import replay_kubefleet
from fleet_replay.compare import differences
from fleet_replay.facts import Aspect, Value, histories, masked, recorded
from fleet_replay.loading import BadRecording, load
from fleet_replay.mode import MODES, Mode
from fleet_replay.situations import ACCEPTED
from fleet_replay.tolerance import DELIBERATE, PASSING, SHIPPED, SHIPPED_PASSING, Tolerance, tolerance_for
from replay_kubefleet import replay

DATA = Path(__file__).parents[1] / "data" / "kubefleet"


DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"
with_each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


@with_each_mode
@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.json")))
def test_a_recording_is_reproduced(name: str, mode: Mode) -> None:
    assert replay(load(DATA / f"{name}.json"), mode) == []


def test_every_tolerance_has_a_reason() -> None:
    assert all(len(rule.reason) > 15 for rule in [*DELIBERATE, *PASSING, *SHIPPED, *SHIPPED_PASSING])


def test_what_ships_otherwise_is_a_row_of_the_differences() -> None:
    assert all(rule.row for rule in [*SHIPPED, *SHIPPED_PASSING])
    named = set(ACCEPTED)
    for path in DATA.glob("*.json"):
        recording = load(path)
        named |= tolerance_for(recording, upstream=True).rows | tolerance_for(recording, upstream=False).rows
    rows = {line.split(" | ")[0].removeprefix("| ") for line in DIFFERENCES.read_text().splitlines()}
    assert sorted(named - rows) == []


# A recording that says something else than what happens is noticed


def changed(name: str, old: str, new: str) -> dict[str, Any]:
    text = (DATA / f"{name}.json").read_text()
    assert old in text
    return json.loads(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("06-taints", "cannot be tolerated", "can be tolerated"),
        ("06-taints", "SchedulingPolicyUnfulfilled", "SchedulingPolicyForgotten"),
        ("06-taints", "PlacementRolloutCompleted", "PlacementRolloutFinished"),
        ("06-taints", "scheduler-crb-cleanup", "scheduler-binding-cleanup"),
        ("06-taints", "is-latest-snapshot", "is-newest-snapshot"),
        ("12-takeover", "AllManifestsApplied", "EveryManifestApplied"),
        ("12-takeover", "appliedResources", "resourcesApplied"),
        ("01-join", "ControlPlaneHealthy", "ControlPlaneWell"),
        ("01-join", "fleet-rolebinding", "fleet-role-binding"),
    ],
)
@with_each_mode
def test_a_falsified_recording_fails_with_a_plain_difference(name: str, old: str, new: str, mode: Mode) -> None:
    found = replay(changed(name, old, new), mode)
    assert any(new in one for one in found), found[:1]


def test_other_names_and_numbers_are_replayed_as_well() -> None:
    recording = changed("05-placement-types", "s04-", "elsewhere-")
    assert replay(recording) == []
    scaled = copy.deepcopy(recording)
    for step in scaled["steps"]:
        if step["do"].startswith("scale 1 -> 3"):
            step["body"]["spec"]["policy"]["numberOfClusters"] = 2
    found = replay(scaled)
    assert any("elsewhere-scale" in one for one in found)


def test_an_object_that_is_missing_is_noticed() -> None:
    recording = load(DATA / "06-taints.json")
    recording["log"] = [
        entry
        for entry in recording["log"]
        if not entry["object"].get("metadata", {}).get("name", "").startswith("s06-pickall-cluster-1")
    ]
    assert any("ClusterResourceBinding s06-pickall-cluster-1" in one for one in replay(recording))


def test_a_member_that_nobody_described_takes_part() -> None:
    recording = load(DATA / "06-taints.json")
    recording["log"].append({"t": 1.0, "cluster": "cluster-9", "event": "DELETED", "object": _config_map("gone")})
    assert any("cluster-" in one for one in replay(recording))


@pytest.mark.parametrize("step", ["shake the cable of cluster-2", "apply on hub: Secret that-no-entry-has"])
def test_a_recording_with_a_step_that_is_not_understood_fails(step: str) -> None:
    recording = load(DATA / "06-taints.json")
    recording["steps"].append({"t": 3.0, "do": step})
    assert replay(recording) == [f"step not understood: {step}"]


def test_a_recording_that_shows_nothing_fails() -> None:
    recording = load(DATA / "06-taints.json")
    recording["log"] = [entry for entry in recording["log"] if entry["object"]["kind"] == "Event"][:1]
    assert any("which shows nothing" in one for one in replay(recording))


# Files that are no recordings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not JSON"),
        ("[]", "it has no name"),
        ('{"name": "x", "log": 3}', "'log' is not a list"),
        ('{"name": "x", "log": [{"t": 1}]}', "no object or no cluster"),
        ('{"name": "x", "steps": [{"do": "wait"}]}', "entry 0 of 'steps' has no time"),
        ('{"name": "x", "steps": [{"t": 1, "do": 3}]}', "does not say what was done"),
        ('{"name": "x", "setup": [{"t": 1, "cluster": "hub", "manifests": [{"kind": "X"}]}]}', "without a kind"),
        (
            '{"name": "x", "log": [{"t": 1, "cluster": "hub", "event": "MODIFIED", "object": {"kind": "X",'
            ' "metadata": {"name": "a"}, "status": {"conditions": [{"type": "A", "=": true}]}}}]}',
            "nothing to differ from",
        ),
    ],
)
def test_a_file_that_is_no_recording_is_told_in_a_sentence(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(BadRecording, match=expected):
        load(path)


def test_bad_files_count_as_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.json").write_text("{")
    monkeypatch.setattr(sys, "argv", ["replay", str(tmp_path / "bad.json"), str(tmp_path / "none.json")])
    assert replay_kubefleet.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert "is not JSON" in lines[0]
    assert "cannot be read" in lines[1]
    assert lines[-1] == "0 passed, 2 failed"


# How values are compared


def _config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a", "uid": "<uid-1>"}}


def compared(kind: str, what: str, wanted: list[tuple[float, str]], got: list[tuple[float, str]]) -> list[str]:
    aspect = Aspect("hub", kind, "a", what)
    expected, actual = [Value(*one) for one in wanted], [Value(*one) for one in got]
    return differences({aspect: expected}, {aspect: actual}, Tolerance(), 100.0)


def test_what_lasts_must_be_there_in_order() -> None:
    assert compared("Work", "data", [(1, "a"), (2, "b")], [(1, "a"), (1.5, "b")]) == []
    assert compared("Work", "data", [(1, "a"), (2, "b")], [(1, "b"), (2, "a")]) != []
    assert compared("Work", "data", [(1, "a"), (2, "b"), (3, "c")], [(1, "a"), (2, "c")]) != []


def test_sums_on_the_way_may_be_missed_but_not_for_long() -> None:
    unknown, true = "Unknown/RolloutStartedUnknown: x", "True/RolloutStarted: y"
    what = "condition ClusterResourcePlacementRolloutStarted"
    assert compared("ClusterResourcePlacement", what, [(1, unknown), (2, true)], [(1, true)]) == []
    assert compared("ClusterResourcePlacement", what, [(1, unknown), (20, true)], [(1, true)]) != []
    assert compared("ClusterResourceBinding", what, [(1, unknown), (2, true)], [(1, true)]) != []


def test_an_aspect_begins_as_absent() -> None:
    unknown = "Unknown/RolloutStartedUnknown: x"
    what = "condition ClusterResourcePlacementRolloutStarted"
    assert (
        compared("ClusterResourcePlacement", what, [(1, unknown), (2, "-"), (9, "True/a: b")], [(3, "True/a: b")]) == []
    )
    assert compared("ClusterResourcePlacement", what, [(1, "True/a: b"), (9, "-")], [(1, "True/a: b")]) != []


def test_an_event_may_be_repeated_but_not_missed() -> None:
    told = "Normal PlacementApplied: Resources have been applied to the selected cluster(s)"
    assert compared("Event", "events from placement-controller", [(1, told)], [(1, told), (2, told)]) == []
    assert compared("Event", "events from placement-controller", [(1, told)], []) != []


def test_differences_are_put_together() -> None:
    first = {"kind": "X", "apiVersion": "v1", "metadata": {"name": "a", "uid": "<uid-1>"}, "spec": {"a": 1, "b": 2}}
    second = {"kind": "X", "metadata": {"name": "a"}, "spec": {"a": 3, "<removed>": ["b"]}}
    log = [{"t": t, "cluster": "hub", "event": "MODIFIED", "object": obj} for t, obj in enumerate((first, second))]
    found = histories(recorded(log))
    assert [value.text for value in found[Aspect("hub", "X", "a", "spec.a")]] == ["1", "3"]
    assert [value.text for value in found[Aspect("hub", "X", "a", "spec.b")]] == ["2", "-"]


def test_masks() -> None:
    assert masked("at <t+5> by <uid-3>") == masked("at 2026-01-01T00:00:00Z by 12345678-1234-1234-1234-123456789012")
    assert masked("app-cluster-1-<rand-7>") == masked("app-cluster-1-0a1b2c3d")
