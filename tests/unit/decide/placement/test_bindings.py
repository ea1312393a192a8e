"""Bindings are decoded once; what was said of an earlier generation no longer counts."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.core.timestamps import parse_time
from corral.decide.placement.bindings import Binding, Overrides, Readiness, binding_of
from corral.kinds.fleet.names import PREVIOUS_STATE

FULL: Obj = {
    "metadata": {
        "name": "app-one-1",
        "generation": 2,
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {PREVIOUS_STATE: "Bound"},
    },
    "spec": {
        "state": "Unscheduled",
        "targetCluster": "one",
        "resourceSnapshotName": "app-0-snapshot",
        "schedulingPolicySnapshotName": "app-0",
        "clusterDecision": {"clusterName": "one"},
        "applyStrategy": {"type": "ReportDiff"},
        "clusterResourceOverrideSnapshots": ["wide-0"],
        "resourceOverrideSnapshots": [{"name": "narrow-0", "namespace": "app"}],
    },
    "status": {
        "conditions": [
            {"type": "Applied", "status": "True", "observedGeneration": 1},
            {"type": "RolloutStarted", "status": "False", "observedGeneration": 2},
        ]
    },
}


def test_everything_a_binding_says_is_decoded() -> None:
    found = binding_of(FULL)
    assert (found.name, found.cluster, found.generation, found.deleting) == ("app-one-1", "one", 2, True)
    assert (found.state, found.previous_state) == ("Unscheduled", "Bound")
    assert (found.snapshot, found.policy, found.decision) == ("app-0-snapshot", "app-0", {"clusterName": "one"})
    assert found.overrides == Overrides(("wide-0",), (("app", "narrow-0"),))
    assert found.reports_diff
    assert found.obj is FULL


def test_a_binding_that_says_nothing_has_nothing() -> None:
    found = binding_of({"metadata": {"name": "bare"}})
    assert (found.cluster, found.state, found.previous_state, found.snapshot, found.policy) == ("",) * 5
    assert (found.apply_strategy, found.overrides, found.conditions) == (None, Overrides(), {})
    assert not found.reports_diff
    assert not found.is_held


def test_only_what_is_said_of_the_current_generation_is_fresh() -> None:
    found = binding_of(FULL)
    assert found.fresh("Applied") is None
    assert not found.is_fresh("Applied", "True")
    assert found.fresh("RolloutStarted") is found.conditions["RolloutStarted"]
    assert found.is_held


def reporting(**conditions: str) -> Binding:
    """A binding with these conditions, given as status and perhaps reason."""
    entries = [
        {"type": kind, "status": said.split()[0], "reason": said.split()[-1], "lastTransitionTime": STAMP}
        for kind, said in conditions.items()
    ]
    return binding_of({"metadata": {"name": "app-one-1"}, "status": {"conditions": entries}})


STAMP = "2026-01-01T00:00:00Z"


def test_what_cannot_be_watched_counts_as_running_after_a_while() -> None:
    untracked = reporting(Available="True NotAllWorkAreAvailabilityTrackable")
    since = parse_time(STAMP)
    assert untracked.readiness(since + 10, 60) == Readiness(False, 50)
    assert untracked.readiness(since + 60, 60) == Readiness(True)
    assert reporting(Available="True AllWorkAreAvailable").readiness(since, 60) == Readiness(True)
    assert reporting(Available="False").readiness(since + 100, 60) == Readiness(False)
    assert reporting(DiffReported="True").readiness(since, 60) == Readiness(True)
    assert reporting().readiness(since, 60) == Readiness(False)


def test_a_step_that_is_not_there_yet_counts_as_failed() -> None:
    assert reporting(Applied="True", Available="False").has_failed
    assert reporting(Overridden="False").has_failed
    assert not reporting(Applied="True", RolloutStarted="False").has_failed
    assert not reporting().has_failed
