"""Variants of one workload on several flavors."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.testing.queueing import (
    QueueingWorld,
    make_assignment,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_workload,
    reserve,
)

ALLOWED = "kueue.x-k8s.io/workload-allowed-resource-flavors"


def variant(name: str, flavor: str) -> Obj:
    workload = make_workload(name, requests={"cpu": 1}, annotations={ALLOWED: flavor})
    workload["metadata"]["ownerReferences"] = [
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "parent", "uid": "parent-uid"}
    ]
    return workload


def running(name: str, flavor: str) -> Obj:
    return reserve(variant(name, flavor), "cq", make_assignment("main", {"cpu": flavor}, {"cpu": 1}))


def world(last: str = "") -> QueueingWorld:
    built = QueueingWorld(QueueingSettings(features=Features(concurrent_admission=True)))
    for flavor in ("reserved", "on-demand", "spot"):
        built.state.upsert_flavor(make_flavor(flavor))
    migration: Obj = {"mode": "TryPreferredFlavors"}
    if last:
        migration["constraints"] = {"lastAcceptableFlavorName": last}
    built.state.upsert_cluster_queue(
        make_cluster_queue(
            "cq",
            {flavor: {"cpu": 1} for flavor in ("reserved", "on-demand", "spot")},
            concurrentAdmissionPolicy={"migration": migration},
        )
    )
    built.state.upsert_local_queue(make_local_queue("lq", "cq"))
    return built


def test_more_favorable_variant_evicts_less_favorable_sibling() -> None:
    built = world()
    built.put(running("spot", "spot"), variant("reserved", "reserved"))
    plan = built.cycle()
    (eviction,) = plan.evictions
    assert (eviction.key.name, eviction.reason) == ("spot", "FlavorMigration")
    assert eviction.message == (
        "Evicted to accommodate a workload (UID: uid-default-reserved) due to migration to more favorable resource flavor"
    )
    (wait,) = plan.waiting
    assert wait.message == ". Pending the migration of 1 workload(s)"
    built.vacate()
    assert [admission.key.name for admission in built.cycle().admissions] == ["reserved"]


def test_less_favorable_variant_is_skipped_when_more_favorable_sibling_is_admitted() -> None:
    built = world()
    built.put(running("reserved", "reserved"), variant("spot", "spot"))
    plan = built.cycle()
    assert not list(plan.admissions)
    assert [wait.message for wait in plan.waiting] == ["A more favorable variant is already admitted"]


@pytest.mark.parametrize(("last", "moves"), [("reserved", False), ("on-demand", True)])
def test_migration_is_stopped_when_target_flavor_is_below_last_acceptable(last: str, moves: bool) -> None:
    built = world(last)
    built.put(running("spot", "spot"), variant("on-demand", "on-demand"))
    plan = built.cycle()
    assert bool(list(plan.evictions)) is moves
    if not moves:
        assert [wait.message for wait in plan.waiting] == ["Target flavor is below LastAcceptableFlavorName"]


def test_the_parent_is_not_queued_itself() -> None:
    built = world()
    labels = {"kueue.x-k8s.io/concurrent-admission-parent": "true"}
    built.put(make_workload("parent", requests={"cpu": 1}, labels=labels))
    assert not built.state.questions.pending("cq")


def test_variants_of_one_second_are_tried_in_the_order_of_flavors() -> None:
    built = world()
    built.put(*(variant(name, name) for name in ("spot", "on-demand", "reserved")))
    assert [view.key.name for view in built.state.questions.pending("cq")] == ["reserved", "on-demand", "spot"]


def test_a_worse_sibling_is_evicted_once_its_admission_is_written() -> None:
    built = world()
    early = variant("spot", "spot")
    early["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    built.put(early, variant("reserved", "reserved"))
    plan = built.state.plan_cycle(built.now)
    (admission,) = plan.admissions
    assert (admission.key.name, list(plan.evictions)) == ("spot", [])
    assert [wait.message for wait in plan.waiting] == [". Pending the migration of 1 workload(s)"]
    built._admit(admission)
    assert [eviction.key.name for eviction in built.cycle().evictions] == ["spot"]
    built.vacate()
    assert [admission.key.name for admission in built.cycle().admissions] == ["reserved"]


def test_a_workload_that_is_not_marked_yet_is_not_queued_either() -> None:
    built = world()
    built.put(make_workload("plain", requests={"cpu": 1}))
    assert not built.state.questions.pending("cq")


def test_what_a_parent_shows_is_not_counted_twice() -> None:
    built = world()
    labels = {"kueue.x-k8s.io/concurrent-admission-parent": "true"}
    parent = make_workload("parent", requests={"cpu": 1}, labels=labels)
    assignment = make_assignment("main", {"cpu": "spot"}, {"cpu": 1})
    built.put(running("spot", "spot"), reserve(parent, "cq", assignment))
    view = built.state.questions.cluster_queue("cq")
    assert view is not None
    assert (view.admitted, view.flavors_usage[2]["resources"][0]["total"]) == (1, "1")
