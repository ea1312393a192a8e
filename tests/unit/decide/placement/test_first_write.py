"""What new objects of a placement are born with, with and without coalesced writes."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj, finalizers_of, spec_of
from corral.decide.placement.bindings import Binding, Overrides, binding_of
from corral.decide.placement.first_write import (
    BindingDraft,
    Release,
    adopted_placement,
    is_released,
    may_release_at_once,
    new_binding,
    new_work,
    released_binding,
)
from corral.kinds.fleet.names import (
    BINDING_CLEANUP,
    PLACEMENT_CLEANUP,
    SCHEDULER_CLEANUP,
    SNAPSHOT_COUNT,
    WORK_CLEANUP,
)

PLACEMENT: Obj = {"metadata": {"name": "app", "namespace": "team"}, "spec": {}}
EXTERNAL: Obj = {"metadata": {"name": "app"}, "spec": {"strategy": {"type": "External"}}}
MASTER: Obj = {"metadata": {"name": "app-0-snapshot", "annotations": {SNAPSHOT_COUNT: "1"}}, "spec": {}}
FIRST_OF_TWO: Obj = {"metadata": {"name": "app-0-snapshot", "annotations": {SNAPSHOT_COUNT: "2"}}, "spec": {}}
DECISION: Obj = {"clusterName": "one", "selected": True}
RELEASE = Release("app-0-snapshot", Overrides(("wide-0",), (("team", "narrow-0"),)))


def draft(placement: Obj = PLACEMENT) -> BindingDraft:
    return BindingDraft("app-one-1", placement, "app-0", DECISION)


def test_a_placement_gets_both_finalizers_only_where_writes_are_coalesced() -> None:
    assert finalizers_of(adopted_placement(PLACEMENT, coalesce=True)) == [PLACEMENT_CLEANUP, SCHEDULER_CLEANUP]
    assert finalizers_of(adopted_placement(PLACEMENT, coalesce=False)) == [PLACEMENT_CLEANUP]


def test_a_work_gets_the_finalizer_of_its_agent_only_where_writes_are_coalesced() -> None:
    work: Obj = {"metadata": {"name": "app-work"}}
    assert finalizers_of(new_work(work, coalesce=True)) == [WORK_CLEANUP]
    assert new_work(work, coalesce=False) == work


def test_a_binding_is_scheduled_unless_it_is_released_with_the_write_that_makes_it() -> None:
    scheduled, released = new_binding(draft()), new_binding(draft(), RELEASE)
    assert scheduled["metadata"] == {
        "name": "app-one-1",
        "namespace": "team",
        "labels": {"kubernetes-fleet.io/parent-CRP": "app"},
        "finalizers": [BINDING_CLEANUP],
    }
    assert (spec_of(scheduled)["state"], spec_of(scheduled)["resourceSnapshotName"]) == ("Scheduled", "")
    assert (spec_of(released)["state"], spec_of(released)["resourceSnapshotName"]) == ("Bound", "app-0-snapshot")
    assert finalizers_of(released) == [BINDING_CLEANUP, WORK_CLEANUP]
    assert binding_of(released).overrides == RELEASE.overrides


def test_a_binding_released_later_says_what_one_released_at_once_says() -> None:
    assert released_binding(new_binding(draft()), RELEASE) == new_binding(draft(), RELEASE)


def test_only_bindings_that_no_update_run_serves_come_with_an_apply_strategy() -> None:
    assert spec_of(new_binding(draft()))["applyStrategy"]["type"] == "ClientSideApply"
    assert "applyStrategy" not in spec_of(new_binding(draft(EXTERNAL)))


@pytest.mark.parametrize(
    ("placement", "snapshots", "bindings", "coalesce", "expected"),
    [
        pytest.param(PLACEMENT, [MASTER], [], True, True, id="the first of a whole snapshot"),
        pytest.param(PLACEMENT, [MASTER], [], False, False, id="writes one by one"),
        pytest.param(
            PLACEMENT,
            [MASTER],
            [binding_of({"metadata": {"name": "there"}})],
            True,
            False,
            id="a budget counts what is there",
        ),
        pytest.param(PLACEMENT, [FIRST_OF_TWO], [], True, False, id="half a snapshot"),
        pytest.param(PLACEMENT, [], [], True, False, id="no snapshot"),
        pytest.param(EXTERNAL, [MASTER], [], True, False, id="an update run decides"),
    ],
)
def test_first_bindings_are_released_at_once(
    placement: Obj, snapshots: list[Obj], bindings: list[Binding], coalesce: bool, expected: bool
) -> None:
    assert may_release_at_once(placement, snapshots, bindings, coalesce=coalesce) is expected


def test_a_binding_with_the_latest_snapshot_counts_as_released_before_anybody_says_so() -> None:
    binding = binding_of(new_binding(draft(), RELEASE))
    assert is_released(binding, PLACEMENT, MASTER)
    assert not is_released(binding, PLACEMENT, {"metadata": {"name": "app-1-snapshot"}})
    assert not is_released(binding, EXTERNAL, MASTER)
    assert not is_released(binding, None, MASTER)


@pytest.mark.parametrize("status", ["True", "False"])
def test_a_binding_that_rollouts_spoke_of_is_served_whether_it_may_go_on_or_has_to_wait(status: str) -> None:
    said = {"type": "RolloutStarted", "status": status, "observedGeneration": 2}
    binding = new_binding(draft(), RELEASE)
    current = {**binding, "metadata": {**binding["metadata"], "generation": 2}, "status": {"conditions": [said]}}
    edited = {**current, "metadata": {**current["metadata"], "generation": 3}}
    newer: Obj = {"metadata": {"name": "app-1-snapshot"}}
    assert is_released(binding_of(current), PLACEMENT, newer)
    assert not is_released(binding_of(edited), PLACEMENT, newer)
