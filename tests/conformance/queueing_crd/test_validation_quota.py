"""What may be stored of ClusterQueues and Cohorts: quotas, resource groups, weights, references to flavors."""

from __future__ import annotations

from typing import Any

import pytest
from validation import IMMUTABLE, Change, Start, check_change, check_create, cluster_queue, cohort, flavor, group, quota

from corral.core.meta import Obj

QUALIFIED = "name part must consist of alphanumeric characters"
RECLAIM = {"reclaimWithinCohort": "LowerPriority"}
PREFERENCE = "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor"
NEGATIVE = "must be greater than or equal to 0"


def with_quota(**amounts: Any) -> Obj:
    return group(flavor("f", quota(**amounts)))


def fungibility(preference: str, borrow: str = "TryNextFlavor", preempt: str = "TryNextFlavor") -> Start:
    rules = {"preference": preference, "whenCanBorrow": borrow, "whenCanPreempt": preempt}
    return cluster_queue(flavorFungibility=rules)


def checked(*flavors: str, name: str = "ac") -> Obj:
    return {"admissionChecks": [{"name": name, "onFlavors": list(flavors)}]}


def concurrent(*groups: Obj, mode: str = "TryPreferredFlavors", last: str = "", **spec: Any) -> Start:
    constraints = {"constraints": {"lastAcceptableFlavorName": last}} if last else {}
    policy = {"migration": {"mode": mode, **constraints}}
    return cluster_queue(*groups, concurrentAdmissionPolicy=policy, **spec)


def many_flavors(count: int) -> Obj:
    return group(*(flavor(f"f{number}") for number in range(count)))


def many_resources(count: int) -> Obj:
    names = tuple(f"r{number}" for number in range(count))
    return group(flavor("f", *(quota(name) for name in names)), covered=names)


TWO = [group(), group(flavor("g", quota("memory")), covered=("memory",))]
SWAPPED = group(flavor("f", quota("memory"), quota("cpu")), covered=("cpu", "memory"))
SAME_FLAVOR = [group(), group(flavor("f", quota("memory")), covered=("memory",))]

CREATED: dict[str, tuple[Start, str]] = {
    "WEB-01 built-in resources": (
        cluster_queue(group(flavor("f", quota("cpu"), quota("memory")), covered=("cpu", "memory"))),
        "",
    ),
    "WEB-02 bad resource name": (cluster_queue(group(flavor("f", quota("@cpu")), covered=("@cpu",))), QUALIFIED),
    "WEB-03 checks": (cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "ac"}]}), ""),
    "WEB-04 check on a known flavor": (cluster_queue(admissionChecksStrategy=checked("f")), ""),
    "WEB-05 check on an unknown flavor": (
        cluster_queue(admissionChecksStrategy=checked("g")),
        'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "g": supported values: "f"',
    ),
    "WEB-06 in a cohort": (cluster_queue(cohortName="team"), ""),
    "WEB-07 extended resources": (
        cluster_queue(group(flavor("f", quota("nvidia.com/gpu")), covered=("nvidia.com/gpu",))),
        "",
    ),
    "WEB-08 flavor name": (cluster_queue(group(flavor("x86.example.com"))), ""),
    "WEB-09 negative quota": (
        cluster_queue(with_quota(nominalQuota="-1")),
        f'nominalQuota: Invalid value: "-1": {NEGATIVE}',
    ),
    "WEB-10 quota 0": (cluster_queue(with_quota(nominalQuota="0")), ""),
    "WEB-11 borrowing limit 0": (cluster_queue(with_quota(borrowingLimit="0"), cohortName="c"), ""),
    "WEB-12 negative borrowing limit": (
        cluster_queue(with_quota(borrowingLimit="-1"), cohortName="c"),
        f'borrowingLimit: Invalid value: "-1": {NEGATIVE}',
    ),
    "WEB-13 lending limit 0": (cluster_queue(with_quota(lendingLimit="0"), cohortName="c"), ""),
    "WEB-14 negative lending limit": (
        cluster_queue(with_quota(lendingLimit="-1"), cohortName="c"),
        f'lendingLimit: Invalid value: "-1": {NEGATIVE}',
    ),
    "WEB-15 lending limit without cohort": (
        cluster_queue(with_quota(lendingLimit="1")),
        'lendingLimit: Invalid value: "1": must be nil when cohort is empty',
    ),
    "WEB-16 lending limit above quota": (
        cluster_queue(with_quota(lendingLimit="6"), cohortName="c"),
        'lendingLimit: Invalid value: "6": must be less than or equal to the nominalQuota',
    ),
    "WEB-17 no strategy": (cluster_queue(), ""),
    "WEB-18 bad selector labels": (
        cluster_queue(namespaceSelector={"matchLabels": {"nospecialchars^=@": "bar"}}),
        "spec.namespaceSelector.matchLabels",
    ),
    "WEB-19 bad selector expressions": (
        cluster_queue(namespaceSelector={"matchExpressions": [{"key": "key", "operator": "In"}]}),
        "spec.namespaceSelector.matchExpressions[0].values: Required value",
    ),
    "WEB-20 several groups": (cluster_queue(*TWO), ""),
    "WEB-21 another order": (
        cluster_queue(SWAPPED),
        'resources[0].name: Invalid value: "memory": must match the name in coveredResources',
    ),
    "WEB-22 resource in two groups": (
        cluster_queue(group(), group(flavor("g"))),
        'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
    ),
    "WEB-23 flavor in two groups": (
        cluster_queue(*SAME_FLAVOR),
        'spec.resourceGroups[1].flavors[0].name: Duplicate value: "f"',
    ),
    "WEB-24 borrowing preemption": (
        cluster_queue(preemption={**RECLAIM, "borrowWithinCohort": {"policy": "LowerPriority"}}),
        "",
    ),
    "WEB-25 no word on borrowing preemption": (cluster_queue(preemption=RECLAIM), ""),
    "WEB-26 preference, preemption stops": (
        fungibility("BorrowingOverPreemption", preempt="MayStopSearch"),
        PREFERENCE,
    ),
    "WEB-27 preference, borrowing stops": (fungibility("BorrowingOverPreemption", borrow="MayStopSearch"), PREFERENCE),
    "WEB-28 prefer borrowing": (fungibility("BorrowingOverPreemption"), ""),
    "WEB-29 prefer preemption": (fungibility("PreemptionOverBorrowing"), ""),
    "WEB-30 prefer preemption, borrowing stops": (
        fungibility("PreemptionOverBorrowing", borrow="MayStopSearch"),
        PREFERENCE,
    ),
    "WEB-31 concurrent": (concurrent(), ""),
    "WEB-32 concurrent and strict": (concurrent(queueingStrategy="StrictFIFO"), "must be BestEffortFIFO when"),
    "WEB-33 concurrent in two groups": (concurrent(*TWO), "must have exactly one resource group"),
    "WEB-34 concurrent with many flavors": (concurrent(many_flavors(17)), "must have at most 16 flavors"),
    "WEB-35 concurrent without groups": (concurrent(resourceGroups=[]), "must have exactly one resource group"),
    "WEB-36 last acceptable flavor": (concurrent(last="f"), ""),
    "WEB-37 last acceptable flavor of those who stay": (
        concurrent(mode="RetainFirstAdmission", last="f"),
        'Forbidden: may only be set when migration.mode is "TryPreferredFlavors" (got "RetainFirstAdmission")',
    ),
    "WEB-39 unknown last acceptable flavor": (
        concurrent(last="g"),
        "must be one of the flavors defined in the ClusterQueue: [f]",
    ),
    "WEB-165 cohort without a name": (
        (cohort()[0], {"metadata": {"name": ""}, "spec": {}}),
        "name or generateName is required",
    ),
    "WEB-174 too many resources": (
        cohort(resourceGroups=[many_resources(65)]),
        "Too many: 65: must have at most 64 items",
    ),
    "WEB-175 resource name": (cohort(resourceGroups=[group(flavor("f", quota("memory")), covered=("memory",))]), ""),
    "WEB-176 bad resource name": (
        cohort(resourceGroups=[group(flavor("f", quota("@cpu")), covered=("@cpu",))]),
        QUALIFIED,
    ),
    "WEB-177 extended resource": (
        cohort(resourceGroups=[group(flavor("f", quota("nvidia.com/gpu")), covered=("nvidia.com/gpu",))]),
        "",
    ),
    "WEB-178 flavor name": (cohort(resourceGroups=[group(flavor("x86.example.com"))]), ""),
    "WEB-179 bad flavor name": (cohort(resourceGroups=[group(flavor("invalid_name"))]), "name in body should match"),
    "WEB-181 negative borrowing limit": (
        cohort(parentName="p", resourceGroups=[with_quota(borrowingLimit="-1")]),
        f'borrowingLimit: Invalid value: "-1": {NEGATIVE}',
    ),
    "WEB-182 negative lending limit": (
        cohort(parentName="p", resourceGroups=[with_quota(lendingLimit="-1")]),
        f'lendingLimit: Invalid value: "-1": {NEGATIVE}',
    ),
    "WEB-185 borrowing limit with parent": (
        cohort(parentName="p", resourceGroups=[with_quota(borrowingLimit="1")]),
        "",
    ),
    "WEB-187 lending limit with parent": (cohort(parentName="p", resourceGroups=[with_quota(lendingLimit="1")]), ""),
    "WEB-188 lending limit 0 with parent": (cohort(parentName="p", resourceGroups=[with_quota(lendingLimit="0")]), ""),
    "WEB-190 several groups": (cohort(resourceGroups=TWO), ""),
    "WEB-191 another order": (cohort(resourceGroups=[SWAPPED]), "must match the name in coveredResources"),
    "WEB-193 resource that is not covered": (
        cohort(resourceGroups=[group(flavor("f", quota("memory")))]),
        'Invalid value: "memory": must match the name in coveredResources',
    ),
    "WEB-195 flavor in two groups": (cohort(resourceGroups=SAME_FLAVOR), 'Duplicate value: "f"'),
    "WEB-200 small weight": (cohort(fairSharing={"weight": "1e-3"}), ""),
    "WEB-201 even smaller weight": (cohort(fairSharing={"weight": "1e-6"}), ""),
    "WEB-204 weight that is lost in rounding": (
        cohort(fairSharing={"weight": "0.0000000001"}),
        "value must be greater than 10^-9",
    ),
}


@pytest.mark.parametrize("name", CREATED)
def test_create(name: str) -> None:
    check_create(*CREATED[name])


GONE = {"spec": {"resourceGroups": [group(flavor("g"))]}}
POLICY = {"migration": {"mode": "RetainFirstAdmission"}}


def strategy(*flavors: str, name: str = "ac") -> Obj:
    return {"spec": {"admissionChecksStrategy": checked(*flavors, name=name)}}


CHANGED: dict[str, Change] = {
    "WEB-40 another strategy": Change(cluster_queue(), {"spec": {"queueingStrategy": "StrictFIFO"}}),
    "WEB-41 the same strategy": Change(
        cluster_queue(queueingStrategy="StrictFIFO"), {"spec": {"queueingStrategy": "StrictFIFO"}}
    ),
    "WEB-44 a good rule": Change(cluster_queue(), strategy("f")),
    "WEB-45 a bad rule": Change(cluster_queue(), strategy("g"), 'Unsupported value: "g": supported values: "f"'),
    "WEB-46 the flavor of a rule goes": Change(
        cluster_queue(admissionChecksStrategy=checked("f")), GONE, 'Unsupported value: "f": supported values: "g"'
    ),
    "WEB-47 a rule turns bad": Change(
        cluster_queue(admissionChecksStrategy=checked("f")), strategy("g"), 'Unsupported value: "g"'
    ),
    "WEB-48 another check with a bad flavor": Change(
        cluster_queue(admissionChecksStrategy=checked("f")), strategy("g", name="other"), 'Unsupported value: "g"'
    ),
    "WEB-49 concurrency cannot be added": Change(
        cluster_queue(), {"spec": {"concurrentAdmissionPolicy": POLICY}}, IMMUTABLE
    ),
    "WEB-50 concurrency cannot be removed": Change(
        concurrent(), {"spec": {"concurrentAdmissionPolicy": None}}, IMMUTABLE
    ),
    "WEB-207 cohort gets a negative limit": Change(
        cohort(parentName="p", resourceGroups=[with_quota(borrowingLimit="1")]),
        {"spec": {"resourceGroups": [with_quota(borrowingLimit="-1")]}},
        f'borrowingLimit: Invalid value: "-1": {NEGATIVE}',
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_change(name: str) -> None:
    check_change(CHANGED[name])
