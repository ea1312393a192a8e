"""Workloads as the scheduler sees them, from creation to the end."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.conditions import condition
from corral.core.meta import Key, Obj
from corral.core.timestamps import format_time
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.decide.queueing.model.values import FlavorResource
from corral.decide.queueing.model.workload import WorkloadDecoder
from corral.testing.queueing import EPOCH, make_assignment, make_pod_set, make_workload, reserve

CPU = FlavorResource("f", "cpu")


def decode(workload: Obj, **features: bool) -> Any:
    return WorkloadDecoder(QueueingSettings(features=Features(**features))).decode(workload)


def reclaim(workload: Obj, count: int) -> Obj:
    status = {**workload.get("status", {}), "reclaimablePods": [{"name": "main", "count": count}]}
    return {**workload, "status": status}


def test_a_pending_workload_asks_for_all_its_pods() -> None:
    info = decode(make_workload("w", requests={"cpu": 2}, count=3, priority=7))
    assert (info.pod_sets[0].requests, info.priority, info.reserving) == ({"cpu": 6000}, 7, False)
    assert info.usage == {}


def test_reclaimable_pods_need_nothing() -> None:
    workload = reclaim(make_workload("w", requests={"cpu": 1}, count=5), 2)
    assert decode(workload).pod_sets[0].requests == {"cpu": 3000}
    assert decode(workload, reclaimable_pods=False).pod_sets[0].requests == {"cpu": 5000}


def admitted(count: int = 5, usage: int = 5, assigned: int = 5) -> Obj:
    workload = make_workload("w", requests={"cpu": 1}, count=count)
    return reserve(workload, "cq", make_assignment("main", {"cpu": "f"}, {"cpu": usage}, assigned))


def test_an_admitted_workload_holds_what_its_admission_says() -> None:
    info = decode(admitted())
    assert (info.usage, info.cluster_queue, info.admitted, info.reserved_at) == ({CPU: 5000}, "cq", True, EPOCH)


def test_reclaimed_pods_shrink_what_is_held() -> None:
    assert decode(reclaim(admitted(), 2)).usage == {CPU: 3000}


def test_reclaimed_pods_above_the_count_leave_nothing() -> None:
    assert decode(reclaim(admitted(), 9)).usage == {CPU: 0}


def test_a_partially_admitted_workload_keeps_its_smaller_count() -> None:
    info = decode(reclaim(admitted(count=5, usage=3, assigned=3), 1))
    assert info.usage == {CPU: 3000}
    assert decode(reclaim(admitted(count=5, usage=3, assigned=3), 3)).usage == {CPU: 2000}


def with_condition(kind: str, status: str, reason: str, at: float = 50.0) -> Obj:
    entry = {**condition(kind, status, reason, ""), "lastTransitionTime": format_time(EPOCH + at)}
    return {**make_workload("w", requests={"cpu": 1}, created=5), "status": {"conditions": [entry]}}


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        pytest.param(make_workload("w", created=5), 5, id="no condition"),
        pytest.param(with_condition("Evicted", "True", "Preempted"), 5, id="evicted by preemption"),
        pytest.param(with_condition("Evicted", "True", "PodsReadyTimeout"), 50, id="evicted by PodsReady timeout"),
        pytest.param(with_condition("Evicted", "True", "AdmissionCheck"), 50, id="evicted by an admission check"),
        pytest.param(with_condition("Evicted", "False", "PodsReadyTimeout"), 5, id="after eviction"),
    ],
)
def test_order_time(workload: Obj, expected: float) -> None:
    assert decode(workload).order_time == EPOCH + expected


def test_gates_are_closed_until_opened() -> None:
    workload = make_workload("w")
    workload["spec"]["preemptionGates"] = [{"name": "a"}, {"name": "b"}]
    assert decode(workload).gated_preemption
    workload["status"] = {"preemptionGates": [{"name": "a", "position": "Open"}, {"name": "b", "position": "Open"}]}
    assert not decode(workload).gated_preemption


def placed_on(host: str, **status: Any) -> Obj:
    assignment = make_assignment("main", {"cpu": "f"}, {"cpu": 1})
    assignment["topologyAssignment"] = {
        "levels": ["kubernetes.io/hostname"],
        "domains": [{"values": [host], "count": 1}],
    }
    workload = reserve(make_workload("w", requests={"cpu": 1}), "cq", assignment)
    return {**workload, "status": {**workload["status"], **status}}


def delayed(state: str) -> Obj:
    assignment = {**make_assignment("main", {"cpu": "f"}, {"cpu": 1}), "delayedTopologyRequest": "Pending"}
    workload = reserve(make_workload("w", requests={"cpu": 1}), "cq", assignment, admitted=False)
    return {**workload, "status": {**workload["status"], "admissionChecks": [{"name": "c", "state": state}]}}


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        pytest.param(placed_on("x", unhealthyNodes=[{"name": "x"}]), True, id="admitted workload with unhealthy node"),
        pytest.param(placed_on("x"), False, id="admitted workload without unhealthy node"),
        pytest.param(placed_on("x", unhealthyNodes=[{"name": "y"}]), False, id="no such node in the assignment"),
        pytest.param(delayed("Ready"), True, id="checks ready while topology is pending"),
        pytest.param(delayed("Pending"), False, id="checks pending"),
        pytest.param(make_workload("w"), False, id="workload without quota"),
    ],
)
def test_second_pass(workload: Obj, expected: bool) -> None:
    assert decode(workload).needs_second_pass is expected


def test_finished_and_evicted_workloads_need_no_second_pass() -> None:
    for kind in ("Finished", "Evicted"):
        workload = placed_on("x", unhealthyNodes=[{"name": "x"}])
        workload["status"]["conditions"].append(condition(kind, "True", "X", ""))
        assert not decode(workload).needs_second_pass


def test_templates_are_decoded_once() -> None:
    decoder = WorkloadDecoder(QueueingSettings())
    one, two = (decoder.decode(make_workload(name, requests={"cpu": 1})) for name in ("a", "b"))
    assert one.pod_sets[0].per_pod is two.pod_sets[0].per_pod


def test_slices_name_the_one_they_replace() -> None:
    annotation = {"kueue.x-k8s.io/workload-slice-replacement-for": "default/old"}
    assert decode(make_workload("w", annotations=annotation)).replaces == Key("default", "old")
    assert decode(make_workload("w", annotations=annotation), elastic_slices=False).replaces is None


def test_shapes_see_placement_constraints() -> None:
    plain = decode(make_workload("w", "lq", make_pod_set("main", 1, {"cpu": 1})))
    selective = decode(make_workload("w", "lq", make_pod_set("main", 1, {"cpu": 1}, nodeSelector={"a": "b"})))
    assert plain.shape != selective.shape
