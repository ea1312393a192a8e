"""What may be stored of the Kueue kinds and what is refused, with upstream's field paths and texts.

Ids are those of the upstream scenario list. Schemas, CEL rules and admission plug-ins act together here, as they do in an
installation with its webhooks.
"""

from __future__ import annotations

from typing import Any

import pytest
from validation import (
    ADMISSION,
    IMMUTABLE,
    RESERVED,
    TEMPLATE,
    Change,
    Start,
    check,
    check_change,
    check_create,
    cluster,
    cohort,
    config,
    group,
    make_cluster,
    parameters,
    pod_set,
    quota,
    workload,
)

from corral.core.meta import Obj
from corral.kinds.kueue import LOCAL_QUEUES
from corral.runtime.virtual import run_virtual

WPC = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
POD_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}

CREATED: dict[str, tuple[Start, str]] = {
    "WEB-134 kubeconfig in a Secret": (cluster(kubeConfig={"location": "s", "locationType": "Secret"}), ""),
    "WEB-135 kubeconfig at a path": (cluster(kubeConfig={"location": "/p", "locationType": "Path"}), ""),
    "WEB-136 cluster profile": (cluster(clusterProfileRef={"name": "p"}), ""),
    "WEB-137 no source": (cluster(), "spec.clusterSource: Required value"),
    "WEB-138 two sources": (
        cluster(kubeConfig={"location": "s"}, clusterProfileRef={"name": "p"}),
        "exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
    ),
    "WEB-139 empty location": (cluster(kubeConfig={"location": ""}), "should be at least 1 chars long"),
    "WEB-140 long location": (cluster(kubeConfig={"location": "x" * 257}), "Too long: may not be more than 256 bytes"),
    "WEB-141 bad location type": (
        cluster(kubeConfig={"location": "s", "locationType": "X"}),
        'Unsupported value: "X": supported values: "Secret", "Path"',
    ),
    "WEB-142 empty profile": (cluster(clusterProfileRef={"name": ""}), "should be at least 1 chars long"),
    "WEB-143 long profile": (
        cluster(clusterProfileRef={"name": "x" * 257}),
        "Too long: may not be more than 256 bytes",
    ),
    "WEB-146 one cluster": (config("a"), ""),
    "WEB-147 several clusters": (config("a", "b"), ""),
    "WEB-148 no clusters": (config(), "spec.clusters in body should have at least 1 items"),
    "WEB-149 duplicate clusters": (config("a", "a"), "must be unique"),
    "WEB-150 too many clusters": (config(*(f"c{i}" for i in range(101))), "Too many: 101: must have at most 100 items"),
    "WEB-151 long cluster name": (config("x" * 257), "Too long: may not be more than 256 bytes"),
    "WEB-153 no controller name": (check(), "spec.controllerName: Required value"),
    "WEB-154 bad API group": (check(**parameters(apiGroup="@ref")), "spec.parameters.apiGroup in body should match"),
    "WEB-155 no API group": (check(**parameters(apiGroup="")), "should be at least 1 chars long"),
    "WEB-156 bad kind": (check(**parameters(kind="@Kind")), "spec.parameters.kind in body should match"),
    "WEB-157 no kind": (check(**parameters(kind="")), "should be at least 1 chars long"),
    "WEB-158 bad name": (check(**parameters(name="@ref")), "spec.parameters.name in body should match"),
    "WEB-159 no name": (check(**parameters(name="")), "should be at least 1 chars long"),
    "WEB-160 no parameters": (check(controllerName="c"), ""),
    "WEB-161 parameters": (check(**parameters()), ""),
    "WEB-166 default cohort": (cohort(), ""),
    "WEB-167 parent": (cohort(parentName="p"), ""),
    "WEB-168 bad parent": (cohort(parentName="@p"), "spec.parentName in body should match"),
    "WEB-169 no flavor": (
        cohort(resourceGroups=[{"coveredResources": ["cpu"], "flavors": []}]),
        "flavors in body should have at least 1 items",
    ),
    "WEB-170 no resource": (
        cohort(resourceGroups=[group({"name": "f", "resources": []})]),
        "resources in body should have at least 1 items",
    ),
    "WEB-171 bad flavor": (
        cohort(resourceGroups=[group({"name": "@f", "resources": [quota()]})]),
        "name in body should match",
    ),
    "WEB-172 resource": (cohort(resourceGroups=[group()]), ""),
    "WEB-173 too many flavors": (
        cohort(resourceGroups=[group(*({"name": f"f{i}", "resources": [quota()]} for i in range(65)))]),
        "Too many: 65: must have at most 64 items",
    ),
    "WEB-180 negative quota": (
        cohort(resourceGroups=[group({"name": "f", "resources": [quota(nominalQuota="-1")]})]),
        'nominalQuota: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "WEB-183 borrowing limit without parent": (
        cohort(resourceGroups=[group({"name": "f", "resources": [quota(borrowingLimit="1")]})]),
        "must be nil when parent is empty",
    ),
    "WEB-184 borrowing limit 0 with parent": (
        cohort(parentName="p", resourceGroups=[group({"name": "f", "resources": [quota(borrowingLimit="0")]})]),
        "",
    ),
    "WEB-186 lending limit without parent": (
        cohort(resourceGroups=[group({"name": "f", "resources": [quota(lendingLimit="1")]})]),
        "must be nil when parent is empty",
    ),
    "WEB-189 lending limit above quota": (
        cohort(parentName="p", resourceGroups=[group({"name": "f", "resources": [quota(lendingLimit="50")]})]),
        "",
    ),
    "WEB-192 missing resource": (
        cohort(resourceGroups=[group(covered=("cpu", "memory"))]),
        "flavors must have the same number of resources as the coveredResources",
    ),
    "WEB-194 resource in two groups": (
        cohort(resourceGroups=[group(), group({"name": "g", "resources": [quota()]})]),
        'Duplicate value: "cpu"',
    ),
    "WEB-196 weight": (cohort(fairSharing={"weight": "1"}), ""),
    "WEB-197 zero weight": (cohort(fairSharing={"weight": "0"}), ""),
    "WEB-198 negative weight": (cohort(fairSharing={"weight": "-1"}), "must be greater than or equal to 0"),
    "WEB-199 fractional weight": (cohort(fairSharing={"weight": "0.5"}), ""),
    "WEB-202 smallest weight": (cohort(fairSharing={"weight": "2n"}), ""),
    "WEB-203 threshold weight": (cohort(fairSharing={"weight": "1n"}), "value must be greater than 10^-9"),
    "WEB-215 no pod sets": (workload(podSets=[]), "spec.podSets in body should have at least 1 items"),
    "WEB-216 as many pod sets as allowed": (workload(podSets=[pod_set(f"p{i}") for i in range(18)]), ""),
    "WEB-217 too many pod sets": (
        workload(podSets=[pod_set(f"p{i}") for i in range(19)]),
        "Too many: 19: must have at most 18 items",
    ),
    "WEB-218 count 0": (workload(podSets=[pod_set(count=0)]), ""),
    "WEB-220 valid": (workload(), ""),
    "WEB-221 bad pod set name": (workload(podSets=[pod_set("@main")]), "name in body should match"),
    "WEB-222 bad class name": (
        workload(priority=1, priorityClassRef={**WPC, "name": "@"}),
        "priorityClassRef.name in body should match",
    ),
    "WEB-223 bad class group": (
        workload(priority=1, priorityClassRef={**WPC, "group": "x"}),
        'Unsupported value: "x": supported values: "kueue.x-k8s.io", "scheduling.k8s.io"',
    ),
    "WEB-224 bad class kind": (
        workload(priority=1, priorityClassRef={**WPC, "kind": "x"}),
        'Unsupported value: "x": supported values: "WorkloadPriorityClass", "PriorityClass"',
    ),
    "WEB-225 wrong kind for scheduling.k8s.io": (
        workload(priority=1, priorityClassRef={**POD_CLASS, "kind": "WorkloadPriorityClass"}),
        "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
    ),
    "WEB-226 wrong kind for kueue.x-k8s.io": (
        workload(priority=1, priorityClassRef={**WPC, "kind": "PriorityClass"}),
        "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
    ),
    "WEB-228 class without priority": (
        workload(priorityClassRef=WPC),
        "priority should not be nil when priorityClassRef is set",
    ),
    "WEB-229 bad queue": (workload(queueName="@q"), "spec.queueName in body should match"),
    "WEB-236 negative minCount": (
        workload(podSets=[pod_set(count=3, minCount=-1)]),
        "minCount in body should be greater than or equal to 1",
    ),
    "WEB-237 minCount too big": (
        workload(podSets=[pod_set(count=3, minCount=4)]),
        "minCount should be positive and less or equal to count",
    ),
    "WEB-238 two variable pod sets": (
        workload(podSets=[pod_set("a", 3, minCount=1), pod_set("b", 3, minCount=1)]),
        "at most one podSet can use minCount",
    ),
    "WEB-239 no execution time": (
        workload(maximumExecutionTimeSeconds=0),
        "maximumExecutionTimeSeconds in body should be greater than or equal to 1",
    ),
    "WEB-240 execution time": (workload(maximumExecutionTimeSeconds=1), ""),
}


@pytest.mark.parametrize("name", CREATED)
def test_create(name: str) -> None:
    check_create(*CREATED[name])


# Changes


def reserved(patch: Obj, want: str = "", *, admitted: bool = False, subresource: str = "", **spec: Any) -> Change:
    held = RESERVED if admitted else RESERVED[:1]
    return Change(workload(**spec), patch, want, {"conditions": held, "admission": ADMISSION}, subresource)


def pending(patch: Obj, want: str = "", **spec: Any) -> Change:
    return Change(workload(**spec), patch, want)


LOCAL_QUEUE = (LOCAL_QUEUES, {"metadata": {"name": "x", "namespace": "default"}, "spec": {"clusterQueue": "cq"}})
CONDITIONS = [{**RESERVED[0], "type": f"C{number}"} for number in range(17)]
USAGE = [{"name": f"f{number}", "resources": []} for number in range(257)]

CHANGED: dict[str, Change] = {
    "WEB-144 as many conditions as allowed": Change(
        cluster(kubeConfig={"location": "s"}), {"status": {"conditions": CONDITIONS[:16]}}, subresource="status"
    ),
    "WEB-145 too many conditions": Change(
        cluster(kubeConfig={"location": "s"}),
        {"status": {"conditions": CONDITIONS}},
        "Too many: 17: must have at most 16 items",
        subresource="status",
    ),
    "WEB-162 check parameters may change": Change(check(**parameters()), {"spec": {"parameters": {"name": "other"}}}),
    "WEB-163 check parameters may go": Change(check(**parameters()), {"spec": {"parameters": None}}),
    "WEB-164 check parameters must stay valid": Change(
        check(**parameters()), {"spec": {"parameters": {"name": ""}}}, "should be at least 1 chars long"
    ),
    "WEB-205 cohort gets a parent": Change(cohort(), {"spec": {"parentName": "p"}}),
    "WEB-206 cohort gets a bad parent": Change(cohort(), {"spec": {"parentName": "@p"}}, "should match"),
    "WEB-208 bad ClusterQueue": Change(LOCAL_QUEUE, {"spec": {"clusterQueue": "@cq"}}, "should match"),
    "WEB-209 another ClusterQueue": Change(LOCAL_QUEUE, {"spec": {"clusterQueue": "other"}}, IMMUTABLE),
    "WEB-210 many flavors": Change(
        LOCAL_QUEUE, {"status": {"flavorsReservation": USAGE[:256], "flavorsUsage": USAGE[:256]}}, subresource="status"
    ),
    "WEB-211 too many flavors reserved": Change(
        LOCAL_QUEUE, {"status": {"flavorsReservation": USAGE}}, "Too many: 257", subresource="status"
    ),
    "WEB-212 too many flavors used": Change(
        LOCAL_QUEUE, {"status": {"flavorsUsage": USAGE}}, "Too many: 257", subresource="status"
    ),
    "WEB-254 count while reserved": reserved({"spec": {"podSets": [pod_set(count=2)]}}, IMMUTABLE),
    "WEB-256 queue while pending": pending({"spec": {"queueName": "q2"}}),
    "WEB-258 queue while reserved": reserved(
        {"spec": {"queueName": "q2"}}, "queueName is immutable while workload quota reserved"
    ),
    "WEB-287 queue removed while reserved": reserved(
        {"spec": {"queueName": None}}, "queueName is immutable while workload quota reserved"
    ),
    "WEB-261 admission unset": reserved({"status": {"admission": None, "conditions": []}}, subresource="status"),
    "WEB-263 pod sets while pending": pending({"spec": {"podSets": [pod_set(count=5)]}}),
    "WEB-267 execution time while pending": pending(
        {"spec": {"maximumExecutionTimeSeconds": 2}}, maximumExecutionTimeSeconds=1
    ),
    "WEB-268 execution time added while admitted": reserved(
        {"spec": {"maximumExecutionTimeSeconds": 2}}, "maximumExecutionTimeSeconds is immutable", admitted=True
    ),
    "WEB-271 priority while reserved": reserved({"spec": {"priority": 9}}, priority=1),
    "WEB-274 class while pending": pending({"spec": {"priority": 1, "priorityClassRef": WPC}}),
    "WEB-275 class added while reserved": reserved(
        {"spec": {"priority": 1, "priorityClassRef": WPC}},
        "priorityClassRef is immutable while workload quota reserved",
    ),
    "WEB-277 another workload class while reserved": reserved(
        {"spec": {"priorityClassRef": {"name": "low"}}}, priority=1, priorityClassRef=WPC
    ),
    "WEB-279 class removed while reserved": reserved(
        {"spec": {"priorityClassRef": None}},
        "priorityClassRef is immutable while workload quota reserved",
        priority=1,
        priorityClassRef=WPC,
    ),
    "WEB-283 another pod class while reserved": reserved(
        {"spec": {"priorityClassRef": {"name": "low"}}},
        "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved",
        priority=1,
        priorityClassRef=POD_CLASS,
    ),
    "WEB-288 admission changed": reserved(
        {"status": {"admission": {**ADMISSION, "clusterQueue": "other"}}}, IMMUTABLE, subresource="status"
    ),
    "WEB-253 reserved without admission": Change(
        workload(),
        {"status": {"conditions": RESERVED[:1]}},
        "status.admission: Required value: must be set while the QuotaReserved condition is true",
        subresource="status",
    ),
    "WEB-243 assignments for other pod sets": Change(
        workload(),
        {
            "status": {
                "conditions": RESERVED[:1],
                "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "other", "count": 1}]},
            }
        },
        'Not found: "other"',
        subresource="status",
    ),
    "WEB-301 cluster that was not nominated": Change(
        workload(),
        {"status": {"clusterName": "w1"}},
        "when setting clusterName it must be one of the nominatedClusterNames",
        subresource="status",
    ),
    "WEB-302 cluster and nominations": Change(
        workload(),
        {"status": {"clusterName": "w1", "nominatedClusterNames": ["w1"]}},
        "clusterName and nominatedClusterNames are mutually exclusive",
        subresource="status",
    ),
    "WEB-296 count never grows": reserved({"spec": {"podSets": [pod_set(count=9)]}}, IMMUTABLE),
}


@pytest.mark.parametrize("name", CHANGED)
def test_change(name: str) -> None:
    check_change(CHANGED[name])


def test_defaults_of_a_pod_set() -> None:
    """WEB-213: a lone pod set is called main and has one pod."""

    async def main() -> None:
        async with make_cluster() as cluster_:
            created = await cluster_.client.create(*workload(podSets=[{"template": TEMPLATE}]))
            (entry,) = created["spec"]["podSets"]
            assert (entry["name"], entry["count"], created["spec"]["active"]) == ("main", 1, True)

    run_virtual(main)
