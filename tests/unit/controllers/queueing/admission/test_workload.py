"""Rules of Workloads that upstream keeps in its webhook."""

from __future__ import annotations

from typing import Any

import pytest

from corral.controllers.queueing.admission.denial import aggregate
from corral.controllers.queueing.admission.workload import validate_workload, validate_workload_update
from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.kinds.kueue import names
from corral.kinds.kueue.gates import FeatureGates

GATES = FeatureGates()
RESERVED = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}


def pod_set(name: str = "main", count: int = 1, **more: Any) -> Obj:
    spec: Obj = {"containers": [{"name": "c", "resources": more.pop("resources", {})}], **more.pop("pod", {})}
    return {"name": name, "count": count, "template": {"metadata": more.pop("metadata", {}), "spec": spec}, **more}


def assigned(**entry: Any) -> Obj:
    return {"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}, **entry}


def workload(*pod_sets: Obj, annotations: Obj | None = None, reserved: Obj | None = None, **status: Any) -> Obj:
    if reserved is not None:
        status = {"conditions": [RESERVED], "admission": reserved, **status}
    return {
        "metadata": {"name": "w", "annotations": annotations or {}},
        "spec": {"podSets": list(pod_sets or (pod_set(),))},
        "status": status,
    }


def admission(*entries: Obj) -> Obj:
    return {"clusterQueue": "cq", "podSetAssignments": list(entries or (assigned(),))}


def text(causes: list[Cause]) -> str:
    return aggregate(causes) if causes else ""


CONTAINER = "spec.podSets[0].template.spec.containers[0].resources"
CASES: dict[str, tuple[Obj, str]] = {
    "valid": (workload(reserved=admission()), ""),
    "reserved without admission": (
        workload(conditions=[RESERVED]),
        "status.admission: Required value: must be set while the QuotaReserved condition is true",
    ),
    "unknown pod set in the assignment": (
        workload(reserved=admission(assigned(name="x"))),
        'status.admission.podSetAssignments[0].name: Not found: "x"',
    ),
    "usage not divisible": (
        workload(pod_set(count=3), reserved=admission(assigned(count=3, resourceUsage={"cpu": "1"}))),
        'status.admission.podSetAssignments[0].resourceUsage[cpu]: Invalid value: "1": is not a multiple of 3',
    ),
    "pods are not a request": (
        workload(pod_set(resources={"requests": {"pods": "1"}})),
        f'{CONTAINER}.requests[pods]: Invalid value: "pods": the key is reserved for internal kueue use',
    ),
    "negative request": (
        workload(pod_set(resources={"requests": {"cpu": "-1"}})),
        f'{CONTAINER}.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "zero request": (workload(pod_set(resources={"requests": {"cpu": "0"}})), ""),
    "two variable pod sets": (
        workload(pod_set("a", 2, minCount=1), pod_set("b", 2, minCount=1)),
        "spec.podSets: Invalid value: 2: at most one podSet can use minCount",
    ),
    "variable and elastic": (
        workload(pod_set(count=2, minCount=1), annotations={names.ELASTIC_JOB: "true"}),
        "spec.podSets: Invalid value: 1: partial admission and elastic job cannot be used together",
    ),
    "slices need a size": (
        workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": "rack"})),
        "spec.podSets[0].topologyRequest.podSetSliceSize: Required value: must be set when podSetSliceRequiredTopology "
        "is specified",
    ),
    "reclaimable beyond the count": (
        workload(reclaimablePods=[{"name": "main", "count": 2}]),
        "status.reclaimablePods[main].count: Invalid value: 2: should be less or equal to 1",
    ),
    "update of an unknown pod set": (
        workload(admissionChecks=[{"name": "ac", "state": "Ready", "podSetUpdates": [{"name": "x"}]}]),
        'status.admissionChecks[0].podSetUpdates[0].name: Unsupported value: "x": supported values: "main"',
    ),
    "gates": (workload(annotations={names.ADMISSION_GATED_BY: "example.com/a,example.com/b"}), ""),
}


@pytest.mark.parametrize(("obj", "want"), CASES.values(), ids=list(CASES))
def test_workload(obj: Obj, want: str) -> None:
    assert text(validate_workload(obj, None, GATES)) == want


@pytest.mark.parametrize(
    "gates", ["nonsense", "a b/c", "example.com/a,example.com/a", " example.com/a", "example.com/a "]
)
def test_malformed_gates_are_refused(gates: str) -> None:
    assert validate_workload(workload(annotations={names.ADMISSION_GATED_BY: gates}), None, GATES)


def with_status(obj: Obj, **status: Any) -> Obj:
    return {**obj, "status": {**obj["status"], **status}}


BASE = workload(pod_set(count=3), reserved=admission(assigned(count=3, resourceUsage={"cpu": "3"})))
COUNT = [{"name": "main", "count": 2}]
READY = [{"name": "ac", "state": "Ready", "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}]}]

CHANGES: dict[str, tuple[Obj, Obj, str]] = {
    "count is frozen": (BASE, {**BASE, "spec": {"podSets": [pod_set(count=4)]}}, "field is immutable"),
    "count may shrink": (BASE, {**BASE, "spec": {"podSets": [pod_set(count=2)]}}, ""),
    "pod sets cannot be added": (
        BASE,
        {**BASE, "spec": {"podSets": [pod_set(count=3), pod_set("b")]}},
        "field is immutable",
    ),
    "reclaimable grows": (
        with_status(BASE, reclaimablePods=[{"name": "main", "count": 1}]),
        with_status(BASE, reclaimablePods=COUNT),
        "",
    ),
    "reclaimable does not shrink": (
        with_status(BASE, reclaimablePods=COUNT),
        with_status(BASE, reclaimablePods=[{"name": "main", "count": 1}]),
        "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2",
    ),
    "reclaimable does not vanish": (
        with_status(BASE, reclaimablePods=COUNT),
        BASE,
        "status.reclaimablePods[main]: Required value: cannot be removed",
    ),
    "reclaimable vanishes with the reservation": (
        with_status(BASE, reclaimablePods=COUNT),
        with_status(BASE, conditions=[], admission=None),
        "",
    ),
    "admission is frozen": (
        BASE,
        with_status(BASE, admission={**BASE["status"]["admission"], "clusterQueue": "other"}),
        "field is immutable",
    ),
    "admission may be unset": (BASE, with_status(BASE, conditions=[], admission=None), ""),
    "topology may be assigned later": (
        BASE,
        with_status(
            BASE, admission=admission(assigned(count=3, resourceUsage={"cpu": "3"}, topologyAssignment={"levels": []}))
        ),
        "",
    ),
    "updates of a ready check are frozen": (
        with_status(BASE, admissionChecks=READY),
        with_status(BASE, admissionChecks=[{**READY[0], "podSetUpdates": []}]),
        "field is immutable",
    ),
    "messages of a ready check are not": (
        with_status(BASE, admissionChecks=READY),
        with_status(BASE, admissionChecks=[{**READY[0], "message": "hi"}]),
        "",
    ),
    "cluster must have been nominated": (
        BASE,
        with_status(BASE, clusterName="w1"),
        'status.clusterName: Invalid value: "w1": when setting clusterName it must be one of the nominatedClusterNames',
    ),
    "nominated cluster": (
        with_status(BASE, nominatedClusterNames=["w1"]),
        with_status(BASE, clusterName="w1"),
        "",
    ),
    "gates cannot be added": (
        BASE,
        {**BASE, "metadata": {"annotations": {names.ADMISSION_GATED_BY: "example.com/a"}}},
        "cannot be added after creation",
    ),
    "a broken reservation stays removable": (
        workload(conditions=[RESERVED]),
        {**workload(conditions=[RESERVED]), "metadata": {"name": "w", "finalizers": []}},
        "",
    ),
}


@pytest.mark.parametrize(("old", "new", "want"), CHANGES.values(), ids=list(CHANGES))
def test_change_of_a_workload(old: Obj, new: Obj, want: str) -> None:
    found = text(validate_workload_update(new, old, GATES))
    assert want in found
    assert bool(want) == bool(found)
