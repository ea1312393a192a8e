"""Rules of ClusterQueues, Cohorts and ResourceFlavors that upstream keeps in webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from corral.controllers.queueing.admission.denial import aggregate
from corral.controllers.queueing.admission.flavor import validate_flavor, validate_flavor_update
from corral.controllers.queueing.admission.quota import (
    validate_cluster_queue,
    validate_cluster_queue_update,
    validate_cohort,
)
from corral.core.meta import Obj

RESOURCES = "spec.resourceGroups[0].flavors[0].resources[0]"


def group(*flavors: Obj, covered: tuple[str, ...] = ("cpu",)) -> Obj:
    return {"coveredResources": list(covered), "flavors": list(flavors)}


def quota(name: str = "cpu", **amounts: str) -> Obj:
    return {"name": name, "nominalQuota": "1", **amounts}


def flavor(name: str, *resources: Obj) -> Obj:
    return {"name": name, "resources": list(resources or (quota(),))}


def queue(*groups: Obj, **spec: Any) -> Obj:
    return {"metadata": {"name": "cq"}, "spec": {"resourceGroups": list(groups), **spec}}


def checks(*flavors: str) -> Obj:
    return {"admissionChecks": [{"name": "ac", "onFlavors": list(flavors)}]}


def many(count: int, covered: int = 1) -> Obj:
    names = tuple(f"r{index}" for index in range(covered))
    flavors = [flavor(f"f{index}", *(quota(name) for name in names)) for index in range(count)]
    return group(*flavors, covered=names)


CASES: dict[str, tuple[Obj, str]] = {
    "built-in resources": (queue(group(flavor("x", quota("cpu"), quota("memory")), covered=("cpu", "memory"))), ""),
    "extended resources": (queue(group(flavor("x", quota("nvidia.com/gpu")), covered=("nvidia.com/gpu",))), ""),
    "negative quota": (
        queue(group(flavor("x", quota(nominalQuota="-1")))),
        f'{RESOURCES}.nominalQuota: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "zero quota": (queue(group(flavor("x", quota(nominalQuota="0")))), ""),
    "borrowing limit 0 in a cohort": (queue(group(flavor("x", quota(borrowingLimit="0"))), cohortName="c"), ""),
    "negative borrowing limit": (
        queue(group(flavor("x", quota(borrowingLimit="-1"))), cohortName="c"),
        f'{RESOURCES}.borrowingLimit: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "lending limit without cohort": (
        queue(group(flavor("x", quota(lendingLimit="1")))),
        f'{RESOURCES}.lendingLimit: Invalid value: "1": must be nil when cohort is empty',
    ),
    "lending limit above quota": (
        queue(group(flavor("x", quota(lendingLimit="2"))), cohortName="c"),
        f'{RESOURCES}.lendingLimit: Invalid value: "2": must be less than or equal to the nominalQuota',
    ),
    "different order": (
        queue(group(flavor("x", quota("memory"), quota("cpu")), covered=("cpu", "memory"))),
        '[spec.resourceGroups[0].flavors[0].resources[0].name: Invalid value: "memory": must match the name in '
        'coveredResources, spec.resourceGroups[0].flavors[0].resources[1].name: Invalid value: "cpu": must match the '
        "name in coveredResources]",
    ),
    "resource in two groups": (
        queue(group(flavor("x")), group(flavor("y"))),
        'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
    ),
    "flavor in two groups": (
        queue(group(flavor("x")), group(flavor("x", quota("memory")), covered=("memory",))),
        'spec.resourceGroups[1].flavors[0].name: Duplicate value: "x"',
    ),
    "check on an unknown flavor": (
        queue(group(flavor("x")), admissionChecksStrategy=checks("y")),
        'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "y": supported values: "x"',
    ),
    "check on a known flavor": (queue(group(flavor("x")), admissionChecksStrategy=checks("x")), ""),
    "too many combinations": (
        queue(many(60, 9)),
        "spec.resourceGroups[0]: Invalid value: 540: number of flavor-resource combinations in a resourceGroup must be "
        "≤ 512, got 540",
    ),
    "negative weight": (
        queue(fairSharing={"weight": "-1"}),
        'spec.fairSharing.weight: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "smallest weight is not enough": (
        queue(fairSharing={"weight": "1n"}),
        'spec.fairSharing.weight: Invalid value: "1n": When not 0, value must be greater than 10^-9',
    ),
    "weight zero": (queue(fairSharing={"weight": "0"}), ""),
    "concurrent admission needs best effort": (
        queue(
            group(flavor("x")),
            queueingStrategy="StrictFIFO",
            concurrentAdmissionPolicy={"migration": {"mode": "RetainFirstAdmission"}},
        ),
        'spec.queueingStrategy: Invalid value: "StrictFIFO": must be BestEffortFIFO when concurrentAdmissionPolicy is set',
    ),
    "constraints need the right mode": (
        queue(
            group(flavor("x")),
            concurrentAdmissionPolicy={
                "migration": {"mode": "RetainFirstAdmission", "constraints": {"lastAcceptableFlavorName": "x"}}
            },
        ),
        "spec.concurrentAdmissionPolicy.migration.constraints: Forbidden: may only be set when migration.mode is "
        '"TryPreferredFlavors" (got "RetainFirstAdmission")',
    ),
}


@pytest.mark.parametrize(("obj", "want"), CASES.values(), ids=list(CASES))
def test_cluster_queue(obj: Obj, want: str) -> None:
    causes = validate_cluster_queue(obj)
    assert (aggregate(causes) if causes else "") == want


def test_old_wrong_flavors_are_tolerated_until_something_about_them_changes() -> None:
    old = queue(group(flavor("x")), admissionChecksStrategy=checks("ghost"))
    assert validate_cluster_queue_update({**old, "metadata": {"labels": {}}}, old, strict_on_flavors=False) == []
    assert validate_cluster_queue_update(old, old, strict_on_flavors=True)
    assert validate_cluster_queue_update(
        queue(group(flavor("z")), admissionChecksStrategy=checks("ghost")), old, strict_on_flavors=False
    )


def test_concurrent_admission_cannot_be_added_later() -> None:
    policy = {"migration": {"mode": "RetainFirstAdmission"}}
    old, new = queue(group(flavor("x"))), queue(group(flavor("x")), concurrentAdmissionPolicy=policy)
    for before, after in ((old, new), (new, old)):
        (cause,) = validate_cluster_queue_update(after, before, strict_on_flavors=False)
        assert cause.field == "spec.concurrentAdmissionPolicy"
        assert cause.message.endswith("field is immutable")


COHORTS: dict[str, tuple[Obj, str]] = {
    "limits need a parent": (
        {"resourceGroups": [group(flavor("x", quota(borrowingLimit="1")))]},
        f'{RESOURCES}.borrowingLimit: Invalid value: "1": must be nil when parent is empty',
    ),
    "lending may exceed the quota": (
        {"parentName": "p", "resourceGroups": [group(flavor("x", quota(lendingLimit="5")))]},
        "",
    ),
    "fractional weight": ({"fairSharing": {"weight": "500m"}}, ""),
}


@pytest.mark.parametrize(("spec", "want"), COHORTS.values(), ids=list(COHORTS))
def test_cohort(spec: Obj, want: str) -> None:
    causes = validate_cohort({"metadata": {"name": "c"}, "spec": spec})
    assert (aggregate(causes) if causes else "") == want


def test_flavor_taints_are_unique_by_key_and_effect() -> None:
    taint = {"key": "gpu", "value": "y", "effect": "NoSchedule"}
    assert validate_flavor({"spec": {"nodeTaints": [taint]}}) == []
    (cause,) = validate_flavor({"spec": {"nodeTaints": [taint, {**taint, "value": "z"}]}})
    assert cause.field == "spec.nodeTaints[1]"
    assert cause.message.endswith("taints must be unique by key and effect pair")


def test_a_topology_flavor_is_frozen() -> None:
    old = {"spec": {"nodeLabels": {"a": "b"}, "topologyName": "t"}}
    (cause,) = validate_flavor_update({"spec": {"nodeLabels": {"a": "c"}, "topologyName": "t"}}, old)
    assert cause.field == "spec.nodeLabels"
