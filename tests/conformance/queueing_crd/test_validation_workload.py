"""What may be stored of Workloads: pod sets and annotations at first, then what may change in which phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from validation import (
    ADMISSION,
    CONTAINER,
    IMMUTABLE,
    RESERVED,
    TEMPLATE,
    Change,
    Start,
    check_change,
    check_create,
    make_cluster,
    pod_set,
    workload,
)

from corral.core.admission import SERVER
from corral.core.errors import Invalid
from corral.core.meta import Obj
from corral.kinds.kueue import ADMISSION_CHECKS, MULTI_KUEUE_CLUSTERS, WORKLOADS, names
from corral.runtime.virtual import run_virtual
from corral.server.verbs.options import WriteOptions

WPC = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
POD_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}
NEGATIVE = "must be greater than or equal to 0"
RESERVED_KEY = "the key is reserved for internal kueue use"
SPEC = "spec.podSets[0].template.spec"
BOOST_ON = {"PriorityBoost": True}
METADATA_OFF = {"WorkloadValidationForPodSetMetadata": False}


class New(NamedTuple):
    """A new object and the answer to it."""

    start: Start
    want: str = ""
    gates: Mapping[str, bool] = {}


def with_pod(**spec: Any) -> Start:
    return workload(podSets=[pod_set(template={"spec": {**TEMPLATE["spec"], **spec}})])


def with_metadata(**metadata: Any) -> Obj:
    return pod_set(template={**TEMPLATE, "metadata": metadata})


def container(**resources: Any) -> list[Obj]:
    return [{**CONTAINER, "resources": resources}]


def boosted(value: str) -> Start:
    return workload(annotations={names.PRIORITY_BOOST: value})


def gated(value: str) -> Start:
    return workload(annotations={names.ADMISSION_GATED_BY: value})


def sliced(**request: Any) -> Start:
    return workload(podSets=[pod_set(count=4, topologyRequest=request)])


BAD_LABEL = {"labels": {"k": "@v"}}
BAD_KEY = {"annotations": {"@k": "v"}}
SUBDOMAIN_PATH = "must be of the form subdomain/path"

CREATED: dict[str, New] = {
    "WEB-51 valid": New(workload(podSets=[pod_set("driver"), pod_set("workers", 100)])),
    "WEB-55 requests pods": New(with_pod(containers=container(requests={"pods": "1"})), RESERVED_KEY),
    "WEB-56 limits pods": New(
        with_pod(containers=container(requests={"pods": "1"}, limits={"pods": "1"})),
        f'{SPEC}.containers[0].resources.limits[pods]: Invalid value: "pods": {RESERVED_KEY}',
    ),
    "WEB-57 negative request": New(
        with_pod(containers=container(requests={"cpu": "-1"})),
        f'{SPEC}.containers[0].resources.requests[cpu]: Invalid value: "-1": {NEGATIVE}',
    ),
    "WEB-58 negative request of an init container": New(
        with_pod(initContainers=container(requests={"cpu": "-1"})),
        f'{SPEC}.initContainers[0].resources.requests[cpu]: Invalid value: "-1": {NEGATIVE}',
    ),
    "WEB-59 bad metadata, not looked at": New(workload(podSets=[with_metadata(**BAD_LABEL)]), gates=METADATA_OFF),
    "WEB-60 bad label": New(
        workload(podSets=[with_metadata(**BAD_LABEL)]), "spec.podSets[0].template.metadata.labels: Invalid value"
    ),
    "WEB-61 bad annotation": New(
        workload(podSets=[with_metadata(**BAD_KEY)]), "spec.podSets[0].template.metadata.annotations: Invalid value"
    ),
    "WEB-62 negative limit": New(
        with_pod(containers=container(limits={"cpu": "-1"})),
        f'{SPEC}.containers[0].resources.limits[cpu]: Invalid value: "-1": {NEGATIVE}',
    ),
    "WEB-63 one negative among many": New(
        with_pod(containers=container(requests={"cpu": "1", "memory": "-1Gi"}, limits={"cpu": "1"})),
        f'{SPEC}.containers[0].resources.requests[memory]: Invalid value: "-1Gi": {NEGATIVE}',
    ),
    "WEB-64 negative request of the pod": New(
        with_pod(resources={"requests": {"cpu": "-1"}}),
        f'{SPEC}.resources.requests[cpu]: Invalid value: "-1": {NEGATIVE}',
    ),
    "WEB-65 negative limit of the pod": New(
        with_pod(resources={"limits": {"cpu": "-1"}}), f'{SPEC}.resources.limits[cpu]: Invalid value: "-1": {NEGATIVE}'
    ),
    "WEB-66 negative request, not looked at": New(
        with_pod(containers=container(requests={"cpu": "-1"})),
        gates={"WorkloadValidateResourcesAreNonNegative": False},
    ),
    "WEB-67 request 0": New(with_pod(containers=container(requests={"cpu": "0"}))),
    "WEB-68 no slice size": New(
        sliced(podSetSliceRequiredTopology="rack", podSetSliceSize=0), "podSetSliceSize in body should be greater than"
    ),
    "WEB-69 slice size without topology": New(
        sliced(podSetSliceSize=2),
        "podSetSliceSize: Forbidden: may not be set when podSetSliceRequiredTopology is not specified",
    ),
    "WEB-70 no size of a layer": New(
        sliced(podsetSliceRequiredTopologyConstraints=[{"topology": "rack", "size": 0}]),
        "size in body should be greater than",
    ),
    "WEB-80 two variable pod sets": New(
        workload(podSets=[pod_set("a", 3, minCount=1), pod_set("b", 3, minCount=1)]),
        "spec.podSets: Invalid value: 2: at most one podSet can use minCount",
    ),
    "WEB-81 boost": New(boosted("10"), gates=BOOST_ON),
    "WEB-82 boost 0": New(boosted("0"), gates=BOOST_ON),
    "WEB-83 negative boost": New(boosted("-5"), gates=BOOST_ON),
    "WEB-84 bad boost": New(boosted("high"), "must be a valid signed integer", BOOST_ON),
    "WEB-85 empty boost": New(boosted(""), "empty string is not allowed", BOOST_ON),
    "WEB-86 no boost": New(workload(), gates=BOOST_ON),
    "WEB-87 bad boost, not looked at": New(boosted("high")),
    "WEB-88 one gate": New(gated("example.com/a")),
    "WEB-89 two gates": New(gated("example.com/a,example.com/b")),
    "WEB-90 leading space": New(gated(" example.com/a"), SUBDOMAIN_PATH),
    "WEB-91 space before the comma": New(gated("example.com/a ,example.com/b"), SUBDOMAIN_PATH),
    "WEB-92 space after the comma": New(gated("example.com/a, example.com/b"), SUBDOMAIN_PATH),
    "WEB-93 trailing space": New(gated("example.com/a "), SUBDOMAIN_PATH),
    "WEB-94 gate without a domain": New(gated("gate"), SUBDOMAIN_PATH),
    "WEB-95 the same gate twice": New(gated("example.com/a,example.com/a"), 'duplicate gate "example.com/a"'),
    "WEB-96 space in the path": New(gated("example.com/a b"), SUBDOMAIN_PATH),
    "WEB-97 space in the domain": New(gated("exam ple.com/a"), SUBDOMAIN_PATH),
    "WEB-98 space in one of two": New(gated("example.com/a,example.com/b c"), SUBDOMAIN_PATH),
    "WEB-99 variable and elastic": New(
        workload(annotations={names.ELASTIC_JOB: "true"}, podSets=[pod_set(count=3, minCount=1)]),
        "partial admission and elastic job cannot be used together",
    ),
    "WEB-214 two pod sets without a name": New(
        workload(podSets=[{"template": TEMPLATE}, {"template": TEMPLATE}]), "Duplicate value"
    ),
    "WEB-219 pod set": New(workload(podSets=[pod_set(count=3)])),
    "WEB-227 no class": New(workload(priority=5)),
    "WEB-230 requests pods": New(with_pod(containers=container(requests={"pods": "1"})), RESERVED_KEY),
    "WEB-231 limits pods": New(with_pod(containers=container(limits={"pods": "1"})), RESERVED_KEY),
    "WEB-232 negative request": New(with_pod(containers=container(requests={"cpu": "-1"})), NEGATIVE),
    "WEB-233 negative request of the pod": New(with_pod(resources={"requests": {"cpu": "-1"}}), NEGATIVE),
}


@pytest.mark.parametrize("name", CREATED)
def test_create(name: str) -> None:
    check_create(*CREATED[name])


# Changes

NOW = "2026-01-01T00:00:00Z"
ELASTIC = {names.ELASTIC_JOB: "true"}


def assigned(count: int = 1, name: str = "main", **more: Any) -> Obj:
    usage = {"cpu": str(count)}
    return {"name": name, "count": count, "flavors": {"cpu": "f"}, "resourceUsage": usage, **more}


def admission(*assignments: Obj) -> Obj:
    return {"clusterQueue": "cq", "podSetAssignments": list(assignments or (assigned(),))}


def held(*assignments: Obj, admitted: bool = False, **status: Any) -> Obj:
    conditions = RESERVED if admitted else RESERVED[:1]
    return {"conditions": conditions, "admission": admission(*assignments), **status}


def spec(want: str = "", start: Start | None = None, status: Obj | None = None, **values: Any) -> Change:
    """A change of the spec."""
    return Change(start or workload(), {"spec": values}, want, status or {})


def status(
    want: str = "",
    start: Start | None = None,
    before: Obj | None = None,
    gates: Mapping[str, bool] | None = None,
    **values: Any,
) -> Change:
    """A change of the status."""
    return Change(start or workload(), {"status": values}, want, before or {}, "status", gates or {})


def check_state(state: str = "Pending", **more: Any) -> list[Obj]:
    return [{"name": "ac", "state": state, "message": "", "lastTransitionTime": NOW, **more}]


def updates(**update: Any) -> list[Obj]:
    return check_state(podSetUpdates=[{"name": "main", **update}])


def reclaimable(count: int, name: str = "main") -> list[Obj]:
    return [{"name": name, "count": count}]


def topology(**slice_: Any) -> Obj:
    piece = {
        "domainCount": 2,
        "podCounts": {"universal": 1},
        "valuesPerLevel": [{"individual": {"roots": ["a", "b"]}}],
        **slice_,
    }
    return held(assigned(2, topologyAssignment={"levels": ["rack"], "slices": [piece]}))


def annotate(before: str, after: str | None, want: str = "") -> Change:
    start = gated(before) if before else workload()
    return Change(start, {"metadata": {"annotations": {names.ADMISSION_GATED_BY: after}}}, want)


THREE = workload(podSets=[pod_set(count=3)])
TWO_PODS = workload(podSets=[pod_set(count=2)])
ELASTIC_THREE = workload(annotations=ELASTIC, podSets=[pod_set(count=3)])
ELASTIC_ONE = workload(annotations=ELASTIC, podSets=[pod_set(count=1)])
ELASTIC_TWO = workload(annotations=ELASTIC, podSets=[pod_set(count=2)])
HELD_THREE = held(assigned(3))
READY = check_state("Ready", podSetUpdates=[{"name": "main", "labels": {"a": "b"}}])
QUEUE = "queueName is immutable while workload quota reserved"
CLASS = "priorityClassRef is immutable while workload quota reserved"
POD_CLASS_NAME = "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"
EXECUTION = "maximumExecutionTimeSeconds is immutable while workload quota reserved"
NOMINATED = "when setting clusterName it must be one of the nominatedClusterNames"
classed = workload(priority=1, priorityClassRef=WPC)
pod_classed = workload(priority=1, priorityClassRef=POD_CLASS)

CHANGED: dict[str, Change] = {
    "WEB-52 reserved without admission": status(
        "status.admission: Required value: must be set while the QuotaReserved condition is true",
        conditions=RESERVED[:1],
    ),
    "WEB-53 assignment of an unknown pod set": status('Not found: "other"', **held(assigned(name="other"))),
    "WEB-54 usage that cannot be divided": status(
        'status.admission.podSetAssignments[0].resourceUsage[cpu]: Invalid value: "1": is not a multiple of 3',
        THREE,
        **held(assigned(3, resourceUsage={"cpu": "1"})),
    ),
    "WEB-72 no updates": status(admissionChecks=check_state()),
    "WEB-73 updates of some pod sets": status(
        start=workload(podSets=[pod_set("main"), pod_set("other")]), admissionChecks=updates(labels={"a": "b"})
    ),
    "WEB-74 updates of an unknown pod set": status(
        'status.admissionChecks[0].podSetUpdates[0].name: Unsupported value: "other": supported values: "main"',
        admissionChecks=updates(name="other"),
    ),
    "WEB-75 updates of all pod sets": status(admissionChecks=updates(labels={"a": "b"})),
    "WEB-76 bad label key in an update": status(
        "podSetUpdates[0].labels: Invalid value", admissionChecks=updates(labels={"@": "b"})
    ),
    "WEB-77 bad node selector in an update": status(
        "podSetUpdates[0].nodeSelector: Invalid value", admissionChecks=updates(nodeSelector={"@": "b"})
    ),
    "WEB-78 bad label value in an update": status(
        "podSetUpdates[0].labels: Invalid value", admissionChecks=updates(labels={"a": "@"})
    ),
    "WEB-79 too many reclaimable": status(
        "status.reclaimablePods[main].count: Invalid value: 2: should be less or equal to 1",
        reclaimablePods=reclaimable(2),
    ),
    "WEB-102 reserved without admission": status(
        "status.admission: Required value", start=THREE, conditions=RESERVED[:1]
    ),
    "WEB-104 more reclaimable": status(
        start=THREE, before={**HELD_THREE, "reclaimablePods": reclaimable(1)}, reclaimablePods=reclaimable(2)
    ),
    "WEB-105 bad metadata, not looked at": Change(
        workload(), {"spec": {"podSets": [with_metadata(**BAD_LABEL)]}}, gates=METADATA_OFF
    ),
    "WEB-106 bad label": spec("template.metadata.labels: Invalid value", podSets=[with_metadata(**BAD_LABEL)]),
    "WEB-107 less reclaimable": status(
        "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2",
        THREE,
        {**HELD_THREE, "reclaimablePods": reclaimable(2)},
        reclaimablePods=reclaimable(1),
    ),
    "WEB-108 elastic shrinks below what is reclaimable": spec(
        start=ELASTIC_THREE, status={**HELD_THREE, "reclaimablePods": reclaimable(2)}, podSets=[pod_set(count=1)]
    ),
    "WEB-109 elastic, more reclaimable than pods": status(
        "should be less or equal to 1", ELASTIC_ONE, HELD_THREE, reclaimablePods=reclaimable(2)
    ),
    "WEB-110 elastic, less reclaimable after shrinking": status(
        start=ELASTIC_ONE, before={**HELD_THREE, "reclaimablePods": reclaimable(1)}, reclaimablePods=reclaimable(0)
    ),
    "WEB-111 elastic, less reclaimable though there are more pods": status(
        start=ELASTIC_TWO, before={**HELD_THREE, "reclaimablePods": reclaimable(1)}, reclaimablePods=reclaimable(0)
    ),
    "WEB-112 elastic, less reclaimable without shrinking": status(
        "cannot be less than 2",
        ELASTIC_THREE,
        {**HELD_THREE, "reclaimablePods": reclaimable(2)},
        reclaimablePods=reclaimable(1),
    ),
    "WEB-113 elastic, nothing reclaimable after shrinking": status(
        start=ELASTIC_ONE, before={**HELD_THREE, "reclaimablePods": reclaimable(1)}, reclaimablePods=None
    ),
    "WEB-114 elastic, nothing reclaimable without shrinking": status(
        "status.reclaimablePods[main]: Required value: cannot be removed",
        ELASTIC_THREE,
        {**HELD_THREE, "reclaimablePods": reclaimable(2)},
        reclaimablePods=None,
    ),
    "WEB-115 shrinks below what is reclaimable": spec(
        "should be less or equal to 1",
        THREE,
        {**HELD_THREE, "reclaimablePods": reclaimable(2)},
        podSets=[pod_set(count=1)],
    ),
    "WEB-116 nothing reclaimable once suspended": status(
        start=THREE,
        before={**HELD_THREE, "reclaimablePods": reclaimable(1)},
        conditions=[],
        admission=None,
        reclaimablePods=None,
    ),
    "WEB-117 updates of a ready check": status(
        IMMUTABLE, before=held(admissionChecks=READY), admissionChecks=check_state("Ready")
    ),
    "WEB-118 the rest of a ready check": status(
        before=held(admissionChecks=READY), admissionChecks=[{**READY[0], "message": "hi"}]
    ),
    "WEB-119 topology": status(start=TWO_PODS, before=held(assigned(2)), **topology()),
    "WEB-120 assignments cannot go": status(
        "podSetAssignments must have the same number of podSets as the spec",
        before=held(),
        admission={"clusterQueue": "cq", "podSetAssignments": []},
    ),
    "WEB-121 assignments cannot come": status(
        "podSetAssignments must have the same number of podSets as the spec",
        before=held(),
        admission=admission(assigned(), assigned(name="other")),
    ),
    "WEB-122 count": Change(
        THREE,
        {"spec": {"podSets": [pod_set(count=2)]}},
        IMMUTABLE,
        HELD_THREE,
        gates={"ElasticJobsViaWorkloadSlices": False},
    ),
    "WEB-123 count of an elastic one": spec(start=ELASTIC_THREE, status=HELD_THREE, podSets=[pod_set(count=2)]),
    "WEB-124 cluster of a slice that replaces": status(
        start=workload(annotations={names.WORKLOAD_SLICE_REPLACEMENT_FOR: "default/old"}),
        before=held(),
        clusterName="w1",
    ),
    "WEB-125 gate after creation": annotate("", "example.com/a", "cannot be added after creation"),
    "WEB-126 the gate goes": annotate("example.com/a", None),
    "WEB-127 both gates go": annotate("example.com/a,example.com/b", None),
    "WEB-128 one of two gates goes": annotate("example.com/a,example.com/b", "example.com/b"),
    "WEB-129 another gate": annotate(
        "example.com/a", "example.com/a,example.com/b", 'cannot add gate "example.com/b" after creation'
    ),
    "WEB-130 another order of gates": annotate("example.com/a,example.com/b", "example.com/b,example.com/a"),
    "WEB-234 no updates": status(admissionChecks=check_state()),
    "WEB-235 updates": status(admissionChecks=updates(annotations={"a": "b"})),
    "WEB-241 bad ClusterQueue": status(
        "clusterQueue in body should match", conditions=RESERVED[:1], admission={**ADMISSION, "clusterQueue": "@cq"}
    ),
    "WEB-242 bad pod set in an assignment": status("name in body should match", **held(assigned(name="@main"))),
    "WEB-244 usage that cannot be divided": status(
        "is not a multiple of 3", THREE, **held(assigned(3, resourceUsage={"cpu": "1"}))
    ),
    "WEB-245 topology pending": status(**held(assigned(delayedTopologyRequest="Pending"))),
    "WEB-246 topology ready": status(**held(assigned(delayedTopologyRequest="Ready"))),
    "WEB-247 topology in an unknown state": status(
        'Unsupported value: "x": supported values: "Pending", "Ready"', **held(assigned(delayedTopologyRequest="x"))
    ),
    "WEB-248 updates of an unknown pod set": status(
        'Unsupported value: "other": supported values: "main"', admissionChecks=updates(name="other")
    ),
    "WEB-249 bad label key in an update": status("labels: Invalid value", admissionChecks=updates(labels={"@": "b"})),
    "WEB-250 bad node selector in an update": status(
        "nodeSelector: Invalid value", admissionChecks=updates(nodeSelector={"@": "b"})
    ),
    "WEB-251 bad label value in an update": status("labels: Invalid value", admissionChecks=updates(labels={"a": "@"})),
    "WEB-252 reclaimable of an unknown pod set": status(
        'Unsupported value: "other": supported values: "main"', reclaimablePods=reclaimable(1, "other")
    ),
    "WEB-255 pod template while reserved": spec(
        IMMUTABLE, status=held(), podSets=[pod_set(template={"spec": {**TEMPLATE["spec"], "hostNetwork": True}})]
    ),
    "WEB-257 queue together with the reservation": Change(workload(), {"spec": {"queueName": "q2"}, "status": held()}),
    "WEB-259 queue once the admission is reset": spec(
        status={"conditions": [{**RESERVED[0], "status": "False"}]}, queueName="q2"
    ),
    "WEB-260 admission": status(**held()),
    "WEB-262 the rest of a ready check": status(
        before=held(admissionChecks=READY), admissionChecks=[{**READY[0], "message": "other"}]
    ),
    "WEB-264 pod sets while reserved": spec(IMMUTABLE, status=held(), podSets=[pod_set("other")]),
    "WEB-265 nothing reclaimable once suspended": status(
        start=THREE,
        before={**HELD_THREE, "reclaimablePods": reclaimable(1)},
        conditions=[{**RESERVED[0], "status": "False"}],
        admission=None,
        reclaimablePods=reclaimable(0),
    ),
    "WEB-266 execution time while pending": spec(maximumExecutionTimeSeconds=1),
    "WEB-269 execution time while admitted": spec(
        EXECUTION, workload(maximumExecutionTimeSeconds=1), held(admitted=True), maximumExecutionTimeSeconds=2
    ),
    "WEB-270 priority while pending": spec(start=workload(priority=1), priority=2),
    "WEB-272 priority with a class while pending": spec(start=classed, priority=2),
    "WEB-273 priority with a class while reserved": spec(start=classed, status=held(), priority=2),
    "WEB-276 another class while pending": spec(start=classed, priorityClassRef={"name": "low"}),
    "WEB-278 no class while pending": spec(start=classed, priorityClassRef=None),
    "WEB-280 pod class while pending": spec(priority=1, priorityClassRef=POD_CLASS),
    "WEB-281 pod class while reserved": spec(CLASS, status=held(), priority=1, priorityClassRef=POD_CLASS),
    "WEB-282 another pod class while pending": spec(start=pod_classed, priorityClassRef={"name": "low"}),
    "WEB-284 no pod class while pending": spec(start=pod_classed, priorityClassRef=None),
    "WEB-285 no pod class while reserved": spec(CLASS, pod_classed, held(), priorityClassRef=None),
    "WEB-286 queue while admitted": spec(QUEUE, status=held(admitted=True), queueName="q2"),
    "WEB-289 class without priority": spec(
        "priority should not be nil when priorityClassRef is set", classed, priority=None
    ),
    "WEB-290 priority of a workload class": spec(start=classed, status=held(), priority=7),
    "WEB-291 priority of a pod class": spec(start=pod_classed, status=held(), priority=7),
    "WEB-292 admission stays": status(
        IMMUTABLE, before=held(), admission=admission(assigned(flavors={"cpu": "other"}))
    ),
    "WEB-293 more reclaimable": status(
        start=THREE, before={**HELD_THREE, "reclaimablePods": reclaimable(1)}, reclaimablePods=reclaimable(3)
    ),
    "WEB-294 less reclaimable": status(
        "cannot be less than 2",
        THREE,
        {**HELD_THREE, "reclaimablePods": reclaimable(2)},
        reclaimablePods=reclaimable(1),
    ),
    "WEB-295 updates of a ready check": status(
        IMMUTABLE, before=held(admissionChecks=READY), admissionChecks=check_state("Ready")
    ),
    "WEB-297 elastic shrinks": spec(start=ELASTIC_THREE, status=HELD_THREE, podSets=[pod_set(count=1)]),
    "WEB-298 elastic, less reclaimable after shrinking": status(
        start=ELASTIC_ONE, before={**HELD_THREE, "reclaimablePods": reclaimable(1)}, reclaimablePods=reclaimable(0)
    ),
    "WEB-299 nominated cluster": status(
        before={"nominatedClusterNames": ["w1"]}, clusterName="w1", nominatedClusterNames=None
    ),
    "WEB-300 cluster that was not nominated": status(
        NOMINATED, before={"nominatedClusterNames": ["w1"]}, clusterName="w2", nominatedClusterNames=None
    ),
    "WEB-303 neither cluster nor nominations": status(before=held(), requeueState={"count": 1}),
    "WEB-305 cluster of a slice that replaces": status(
        start=workload(annotations={names.WORKLOAD_SLICE_REPLACEMENT_FOR: "default/old"}), clusterName="w1"
    ),
    "WEB-306 topology": status(
        start=TWO_PODS,
        **topology(valuesPerLevel=[{"individual": {"prefix": "p", "roots": ["a", "b"], "suffix": "s"}}]),
    ),
    "WEB-307 wrong number of levels": status(
        "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
        TWO_PODS,
        **topology(valuesPerLevel=[{"universal": "a"}, {"universal": "b"}]),
    ),
    "WEB-308 wrong number of counts": status(
        "podCounts.individual must have length equal to domainCount",
        TWO_PODS,
        **topology(podCounts={"individual": [2]}),
    ),
    "WEB-309 wrong number of values": status(
        "valuesPerLevel.individual, if set, must have roots of length equal to domainCount",
        TWO_PODS,
        **topology(valuesPerLevel=[{"individual": {"roots": ["a"]}}]),
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_change(name: str) -> None:
    check_change(CHANGED[name])


# The older version

OLD = WORKLOADS.at("v1beta1")
BY_WORKLOAD = "kueue.x-k8s.io/workloadpriorityclass"
BY_POD = "scheduling.k8s.io/priorityclass"


def old(**spec: Any) -> Start:
    return OLD, workload(**spec)[1]


def old_class(source: str) -> Start:
    return old(priority=1, priorityClassName="high", priorityClassSource=source)


INACTIVE: Obj = {"spec": {"active": False}}
SOURCE = "priorityClassSource is immutable while workload quota reserved"
NAME = "priorityClassName is immutable while workload quota reserved and priorityClassSource is not equal to"

CHANGED_OLD: dict[str, Change] = {
    "WEB-310 stop without a class while reserved": Change(old(), INACTIVE, status=held()),
    "WEB-311 stop without a class while pending": Change(old(), INACTIVE),
    "WEB-312 stop with a pod class while reserved": Change(old_class(BY_POD), INACTIVE, status=held()),
    "WEB-313 source while reserved": Change(
        old_class(BY_POD), {"spec": {"priorityClassSource": BY_WORKLOAD}}, SOURCE, held()
    ),
    "WEB-314 source while pending": Change(old_class(BY_POD), {"spec": {"priorityClassSource": BY_WORKLOAD}}),
    "WEB-315 stop with a workload class while reserved": Change(old_class(BY_WORKLOAD), INACTIVE, status=held()),
    "WEB-316 pod class while reserved": Change(old_class(BY_POD), {"spec": {"priorityClassName": "low"}}, NAME, held()),
    "WEB-317 workload class while reserved": Change(
        old_class(BY_WORKLOAD), {"spec": {"priorityClassName": "low"}}, status=held()
    ),
}


@pytest.mark.parametrize("name", CHANGED_OLD)
def test_change_in_the_older_version(name: str) -> None:
    check_change(CHANGED_OLD[name])


def test_cluster_name_stays() -> None:
    """WEB-304"""
    nominated = {"nominatedClusterNames": ["w1", "w2"]}

    async def main() -> None:
        async with make_cluster() as cluster:
            created = await cluster.client.create(*workload())
            given = await cluster.client.update(WORKLOADS, {**created, "status": nominated}, subresource="status")
            await cluster.client.update(WORKLOADS, {**given, "status": {"clusterName": "w1"}}, subresource="status")
            patch = {"status": {"clusterName": "w2"}}
            with pytest.raises(Invalid, match="clusterName is immutable once set"):
                await cluster.client.patch(WORKLOADS, "x", "default", patch, subresource="status")

    run_virtual(main)


def test_defaults_of_other_kinds() -> None:
    """WEB-133, WEB-152"""

    async def main() -> None:
        async with make_cluster() as cluster:
            source = {"clusterSource": {"kubeConfig": {"location": "s"}}}
            made = await cluster.client.create(MULTI_KUEUE_CLUSTERS, {"metadata": {"name": "x"}, "spec": source})
            assert made["spec"]["clusterSource"]["kubeConfig"]["locationType"] == "Secret"
            spec = {"controllerName": "c"}
            check = await cluster.client.create(ADMISSION_CHECKS, {"metadata": {"name": "x"}, "spec": spec})
            assert check["spec"] == spec

    run_virtual(main)


DEPRECATED = (
    "spec.podSets[0].topologyRequest.subGroupCount: negative value -1 is deprecated and will be rejected in a future "
    "release"
)


# The count at first, the count after a change; what is warned of at each.
WARNED: dict[str, tuple[int, int | None, list[str]]] = {
    "WEB-100 subgroups": (0, None, []),
    "WEB-101 negative subgroups": (-1, None, [DEPRECATED]),
    "WEB-131 subgroups become negative": (2, -1, [DEPRECATED]),
}


@pytest.mark.parametrize("name", WARNED)
def test_warnings(name: str) -> None:
    first, then, want = WARNED[name]
    warnings: list[str] = []

    async def main() -> int:
        async with make_cluster() as cluster:
            api, options = cluster.api, WriteOptions(warn=warnings.append)
            resource, obj = sliced(required="rack", subGroupCount=first)
            stored = await api.create(SERVER, resource, "default", obj, options)
            if then is not None:
                _, changed = sliced(required="rack", subGroupCount=then)
                changed = {**stored.obj, "spec": {**stored.obj["spec"], "podSets": changed["spec"]["podSets"]}}
                stored, _ = await api.update(SERVER, resource, "default", "x", changed, options)
            return int(stored.obj["spec"]["podSets"][0]["topologyRequest"]["subGroupCount"])

    assert run_virtual(main) == (first if then is None else then)
    assert warnings == want
