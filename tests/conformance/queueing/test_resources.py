"""What pods count for: limit ranges, requests above limits, transformations, and workloads that hold or gave back pods."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Key, Obj
from corral.core.timestamps import format_time
from corral.decide.queueing.cycle.plan import PodSetAssignment
from corral.decide.queueing.model.amounts import format_amount
from corral.decide.queueing.model.limit_ranges import namespace_limits, with_defaults
from corral.decide.queueing.model.settings import Features, QueueingSettings, Transformation
from corral.decide.queueing.model.values import FlavorResource, WorkloadInfo
from corral.decide.queueing.model.workload import BOOST_ANNOTATION, FLAVORS_ANNOTATION, WorkloadDecoder
from corral.decide.queueing.state import QueueingState
from corral.testing.queueing import (
    EPOCH,
    QueueingWorld,
    make_assignment,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_pod_set,
    make_workload,
    reserve,
)
from corral.workload.steps.step_api import with_requeue_at

GI, MI = 2**30, 2**20
Resources = dict[str, dict[str, str]]


def limit_range(kind: str, **bounds: dict[str, str]) -> Obj:
    return {"metadata": {"name": "limits"}, "spec": {"limits": [{"type": kind, **bounds}]}}


def decode(workload: Obj, *limits: Obj, settings: QueueingSettings | None = None) -> WorkloadInfo:
    decoder = WorkloadDecoder(settings or QueueingSettings())
    if limits:
        decoder.pod_sets.set_limits("default", namespace_limits(limits))
    return decoder.decode(workload)


def pods(spec: Obj, name: str = "main", count: int = 1) -> Obj:
    return {"name": name, "count": count, "template": {"spec": spec}}


def container(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **extra: str) -> Obj:
    given = {"requests": requests, "limits": limits}
    return {"resources": {name: value for name, value in given.items() if value is not None}, **extra}


# -- limit ranges and limits ------------------------------------------------------------------------------------------

BOUNDS = {"default": {"cpu": "4"}, "defaultRequest": {"cpu": "3"}, "max": {"cpu": "5"}, "min": {"cpu": "2"}}
POD_DEFAULTS = {
    "default": {"cpu": "4", "memory": "1Gi"},
    "defaultRequest": {"cpu": "3", "memory": "512Mi"},
}
DEFAULTED: Resources = {"limits": {"cpu": "4"}, "requests": {"cpu": "3"}}

# Limit range, pod spec, resources of init container, container and pod after defaults, what one pod counts for.
ADJUSTED: dict[str, tuple[Obj | None, Obj, list[Resources | None], dict[str, int]]] = {
    "RES-03 Handle container limit range: nothing given": (
        limit_range("Container", **BOUNDS),
        {"initContainers": [{}], "containers": [{}]},
        [DEFAULTED, DEFAULTED, None],
        {"cpu": 3000},
    ),
    "container limit range: a limit given": (
        limit_range("Container", **BOUNDS),
        {"initContainers": [{}], "containers": [container(limits={"cpu": "6"})]},
        [DEFAULTED, {"limits": {"cpu": "6"}, "requests": {"cpu": "3"}}, None],
        {"cpu": 3000},
    ),
    "container limit range: a request given": (
        limit_range("Container", **BOUNDS),
        {"initContainers": [{}], "containers": [container({"cpu": "1"})]},
        [DEFAULTED, {"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}, None],
        {"cpu": 3000},
    ),
    "RES-04 Handle pod limit range": (
        limit_range("Pod", **BOUNDS),
        {"containers": [container({"cpu": "1"}, {"cpu": "6"})]},
        [None, {"limits": {"cpu": "6"}, "requests": {"cpu": "1"}}, None],
        {"cpu": 1000},
    ),
    "pod limit range: nothing given": (
        limit_range("Pod", **BOUNDS),
        {"containers": [container()]},
        [None, {}, None],
        {},
    ),
    "RES-05 Handle pod-level resources with pod limit range: a limit given": (
        limit_range("Pod", **POD_DEFAULTS),
        {"containers": [container()], "resources": {"limits": {"memory": "2Gi"}}},
        [None, {}, {"limits": {"cpu": "4", "memory": "2Gi"}, "requests": {"cpu": "3", "memory": "512Mi"}}],
        {"cpu": 3000, "memory": 512 * MI},
    ),
    "pod-level resources with pod limit range: both given": (
        limit_range("Pod", **POD_DEFAULTS),
        {"containers": [container()], "resources": {"limits": {"cpu": "6"}, "requests": {"cpu": "1"}}},
        [None, {}, {"limits": {"cpu": "6", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "512Mi"}}],
        {"cpu": 1000, "memory": 512 * MI},
    ),
    "RES-06 Handle empty container limit range": (
        limit_range("Container"),
        {"containers": [container({"cpu": "1"}, {"cpu": "6"})]},
        [None, {"limits": {"cpu": "6"}, "requests": {"cpu": "1"}}, None],
        {"cpu": 1000},
    ),
    "RES-07 Apply pod-level limits to requests": (
        None,
        {"containers": [container()], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        [None, {}, {"limits": {"cpu": "1", "memory": "1Gi"}}],
        {"cpu": 1000, "memory": GI},
    ),
    "pod-level limits only where requests are missing": (
        None,
        {
            "containers": [container()],
            "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "1Gi"}},
        },
        [None, {}, {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "1Gi"}}],
        {"cpu": 2000, "memory": GI},
    ),
}


@pytest.mark.parametrize("name", ADJUSTED, ids=list(ADJUSTED))
def test_adjusted_resources(name: str) -> None:
    limits, spec, (init, main, whole), counted = ADJUSTED[name]
    given = [limits] if limits else []
    adjusted = with_defaults(spec, namespace_limits(given))
    if init is not None:
        assert adjusted["initContainers"][0]["resources"] == init
    assert adjusted["containers"][0]["resources"] == main
    assert adjusted.get("resources") == whole
    assert decode(make_workload("w", "lq", pods(spec)), *given).pod_sets[0].per_pod == counted


SMALL = container({"cpu": "100m"}, {"cpu": "200m"})
ABOVE = container({"cpu": "300m"}, {"cpu": "200m"})
MEMORY_ABOVE = container({"memory": "200Mi", "cpu": "100m"}, {"memory": "100Mi", "cpu": "200m"})
PLACE = "spec.podSets[{}].template.spec{}: Invalid value: {}: requests must not exceed its limits"

VALIDATED: dict[str, tuple[list[Obj], list[Obj], str]] = {
    "RES-09 valid workload": (
        [],
        [
            pods({"containers": [container({"cpu": "100m", "memory": "1Mi"}, {"cpu": "200m", "memory": "2Mi"})]}, "a"),
            pods({"initContainers": [SMALL], "containers": [container()]}, "b"),
        ],
        "",
    ),
    "RES-10 valid workload with pod-level resources": (
        [],
        [pods({"containers": [container()], **SMALL})],
        "",
    ),
    "RES-11 invalid workload; pod-level requests exceed limits": (
        [],
        [pods({"containers": [container()], **ABOVE})],
        "resources validation failed: " + PLACE.format(0, ".resources", '["cpu"]'),
    ),
    "RES-12 invalid workload; multiple PodSet has invalid initContainers and containers": (
        [],
        [
            pods({"initContainers": [MEMORY_ABOVE], "containers": [ABOVE]}, "a"),
            pods({"initContainers": [ABOVE], "containers": [SMALL]}, "b"),
        ],
        "resources validation failed: [{}, {}, {}]".format(
            PLACE.format(0, ".initContainers[0]", '["memory"]'),
            PLACE.format(0, ".containers[0]", '["cpu"]'),
            PLACE.format(1, ".initContainers[0]", '["cpu"]'),
        ),
    ),
    "RES-13 valid case with LimitRange": (
        [limit_range("Pod", max={"cpu": "1"})],
        [pods({"containers": [container({"cpu": "1"})]}, "a"), pods({"containers": [container({"cpu": "1m"})]}, "b")],
        "",
    ),
    "RES-14 valid case without LimitRange": (
        [],
        [pods({"containers": [container({"cpu": "1001m"})]})],
        "",
    ),
    "one thousandth above the LimitRange is too much": (
        [limit_range("Pod", max={"cpu": "1"})],
        [pods({"containers": [container({"cpu": "1001m"})]})],
        "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec: "
        'Invalid value: ["cpu"]: requests must not be above the limitRange max',
    ),
}


@pytest.mark.parametrize("name", VALIDATED, ids=list(VALIDATED))
def test_validated_resources(name: str) -> None:
    limits, pod_sets, problem = VALIDATED[name]
    assert decode(make_workload("w", "lq", *pod_sets), *limits).invalid == problem


# -- what a workload counts for ---------------------------------------------------------------------------------------


def test_res_20_totals_beyond_64_bits_are_exact_and_cut_off_in_print() -> None:
    info = decode(make_workload("w", "lq", make_pod_set("main", 2**31 - 1, {"cpu": "4300000"})))
    total = info.pod_sets[0].requests["cpu"]
    assert total == 4_300_000_000 * (2**31 - 1) > 2**63
    assert format_amount("cpu", total) == "9223372036854775807m"


GPU = Transformation("gpu", {"logical": "1"}, retain=False)


def test_res_22_an_admitted_workload_counts_transformed_for_quota_and_real_for_nodes() -> None:
    requests = {"cpu": 1, "memory": "1Gi", "gpu": 1, "net/vpc": 1}
    flavors = {"cpu": "tas", "memory": "tas", "logical": "quota"}
    assignment = make_assignment("main", flavors, {"cpu": 2, "memory": "2Gi", "logical": 2}, 2)
    domains = [{"values": ["node-a"], "count": 2}]
    assignment["topologyAssignment"] = {"levels": ["kubernetes.io/hostname"], "domains": domains}
    pod_set = make_pod_set("main", 2, requests, topology={"required": "kubernetes.io/hostname"})
    settings = QueueingSettings(transformations=(GPU,), excluded_prefixes=("net/",))
    info = decode(reserve(make_workload("w", "lq", pod_set), "cq", assignment), settings=settings)
    (entry,) = info.pod_sets
    assert (info.cluster_queue, entry.count, entry.flavors) == ("cq", 2, flavors)
    assert entry.requests == {"cpu": 2000, "memory": 2 * GI, "logical": 2}
    assert entry.pod_requests == {"cpu": 1000, "memory": GI, "gpu": 1, "net/vpc": 1}
    assert entry.topology_assignment is not None
    assert [(domain.values, domain.pods) for domain in entry.topology_assignment.domains] == [(("node-a",), 2)]


# Pods in the spec, in the admission, given back; the gate; pods that still count.
RECLAIMED = {
    "RES-23 admitted with reclaim; reclaimablePods on": (5, 3, 2, True, 3),
    "RES-24 admitted with reclaim; reclaimablePods off": (5, 5, 2, False, 5),
    "RES-25 admitted with reclaim and increased reclaim": (5, 3, 3, True, 2),
}


@pytest.mark.parametrize("name", RECLAIMED, ids=list(RECLAIMED))
def test_reclaimed_pods(name: str) -> None:
    count, admitted, given_back, enabled, left = RECLAIMED[name]
    requests = {"cpu": "10m", "memory": "10Ki"}
    usage = {"cpu": f"{10 * admitted}m", "memory": f"{10 * admitted}Ki"}
    assignment = make_assignment("main", {"cpu": "f", "memory": "f"}, usage, admitted)
    workload = reserve(make_workload("w", "lq", make_pod_set("main", count, requests)), "cq", assignment)
    workload["status"]["reclaimablePods"] = [{"name": "main", "count": given_back}]
    info = decode(workload, settings=QueueingSettings(features=Features(reclaimable_pods=enabled)))
    assert (info.pod_sets[0].count, info.pod_sets[0].requests) == (left, {"cpu": 10 * left, "memory": 10240 * left})
    assert info.usage == {FlavorResource("f", "cpu"): 10 * left, FlavorResource("f", "memory"): 10240 * left}


OVERAGE = (
    Transformation("gpumem", {"overage": "1"}, retain=False, multiply_by="gpu"),
    Transformation("gpu", {"overage": "-1024"}),
)
TWO_FOLD = Transformation("gpumem", {"quota": "1"}, multiply_by="cpu")
SAME_NAME = Transformation("gpu", {"gpu": "1"}, multiply_by="node")
PAST = Transformation("credit", {"gpu": "10000000000"}, retain=False)

TRANSFORMED: dict[str, tuple[dict[str, str], tuple[Transformation, ...], dict[str, int]]] = {
    "RES-30 transformAllowanceAboveIt": ({"gpumem": "2048", "gpu": "2"}, OVERAGE, {"overage": 2048, "gpu": 2}),
    "RES-31 transformAllowanceExactlyAtIt": ({"gpumem": "1024", "gpu": "2"}, OVERAGE, {"overage": 0, "gpu": 2}),
    "RES-32 transformAllowanceUnderIt": ({"gpumem": "512", "gpu": "2"}, OVERAGE, {"overage": 0, "gpu": 2}),
    "RES-35 transformOutputSharingANameWithItsRetainedInputIsAdded": (
        {"gpu": "1"},
        (Transformation("gpu", {"gpu": "5"}),),
        {"gpu": 6},
    ),
    "RES-37 transformRetainWithMultiplyByUnderOne": (
        {"gpumem": "1024", "cpu": "500m"},
        (TWO_FOLD,),
        {"gpumem": 1024, "quota": 512, "cpu": 500},
    ),
    "RES-38 transformOutputSharingANameWithItsRetainedInputIsAddedToTheAmountRequested": (
        {"gpu": "1", "node": "2"},
        (SAME_NAME,),
        {"gpu": 3, "node": 2},
    ),
    "RES-39 transformProductPastTheRangeIsNotFlooredAway": ({"credit": "10000000000"}, (PAST,), {"gpu": 10**20}),
}


@pytest.mark.parametrize("name", TRANSFORMED, ids=list(TRANSFORMED))
def test_transformed_requests(name: str) -> None:
    requests, transformations, expected = TRANSFORMED[name]
    info = decode(make_workload("w", requests=requests), settings=QueueingSettings(transformations=transformations))
    assert info.pod_sets[0].requests == expected


def test_what_no_quantity_can_hold_is_refused_with_the_largest_number() -> None:
    world = QueueingWorld(QueueingSettings(transformations=(PAST,)))
    world.state.upsert_flavor(make_flavor("f"))
    world.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"gpu": 10}}))
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))
    world.put(make_workload("w", requests={"credit": "10000000000"}))
    (wait,) = world.cycle().waiting
    assert "current podset request (9223372036854775807) > maximum capacity (10)" in wait.message


def test_res_62_a_workload_on_hold_needs_no_second_pass() -> None:
    assignment = make_assignment("main", {"cpu": "f"}, {"cpu": 1})
    domains = [{"values": ["x"], "count": 1}]
    assignment["topologyAssignment"] = {"levels": ["kubernetes.io/hostname"], "domains": domains}
    workload = reserve(make_workload("w", requests={"cpu": 1}), "cq", assignment)
    workload["status"]["unhealthyNodes"] = [{"name": "x"}]
    assert decode(workload).needs_second_pass
    held = [entry for entry in workload["status"]["conditions"] if entry["type"] != "QuotaReserved"]
    on_hold = {"type": "QuotaReserved", "status": "False", "reason": "OnHold", "message": "On hold"}
    workload["status"]["conditions"] = [*held, on_hold]
    info = decode(workload)
    assert (info.needs_second_pass, info.on_hold) == (False, "OnHold")


# -- admission checks by flavor ---------------------------------------------------------------------------------------

CHECKS: dict[str, tuple[list[tuple[str, list[str]]], dict[str, str], tuple[str, ...]]] = {
    "RES-49 AdmissionCheckStrategy with only a non-existent flavor": ([("ac1", ["gone"])], {"cpu": "f1"}, ()),
    "RES-50 AdmissionCheckStrategy with an additional non-existent flavor": (
        [("ac1", ["f1", "gone"])],
        {"cpu": "f1"},
        ("ac1",),
    ),
    "RES-51 Two AdmissionCheckStrategies, one covering one flavor, one covering another": (
        [("ac1", ["f1"]), ("ac2", ["f2"])],
        {"cpu": "f1", "memory": "f2"},
        ("ac1", "ac2"),
    ),
    "only the one of the flavor in use": ([("ac1", ["f1"]), ("ac2", ["f2"])], {"cpu": "f2"}, ("ac2",)),
}


@pytest.mark.parametrize("name", CHECKS, ids=list(CHECKS))
def test_checks_of_flavors(name: str) -> None:
    rules, flavors, expected = CHECKS[name]
    strategy = {"admissionChecks": [{"name": check, "onFlavors": on} for check, on in rules]}
    state = QueueingState()
    groups = [{"f1": {"cpu": 1}}, {"f2": {"memory": 1}}]
    state.upsert_cluster_queue(make_cluster_queue("cq", *groups, admissionChecksStrategy=strategy))
    assert state.questions.required_checks("cq", [PodSetAssignment("main", 1, flavors, {})]) == expected


# -- the next try -----------------------------------------------------------------------------------------------------

# Minutes until the next try and count so far, minutes asked for; then what is noted.
TRIES = {
    "RES-64 should initialize and set time and count when requeue state is nil with increment": (None, None, (5, 1)),
    "RES-67 should increment count but keep later requeue time": (10, 3, (10, 4)),
    "RES-68 should increment count when requeue time is same": (5, 1, (5, 2)),
    "RES-69 should increment from zero count": (-5, 0, (5, 1)),
}


@pytest.mark.parametrize("name", TRIES, ids=list(TRIES))
def test_a_counted_try(name: str) -> None:
    at, count, expected = TRIES[name]
    workload = make_workload("w")
    if at is not None:
        state = {"requeueAt": format_time(EPOCH + at * 60), "count": count}
        workload["status"] = {"requeueState": state}
    due, counted = expected
    found = with_requeue_at(workload, EPOCH + 5 * 60, counted=True)["status"]["requeueState"]
    assert found == {"requeueAt": format_time(EPOCH + due * 60), "count": counted}


# -- changes that matter to others ------------------------------------------------------------------------------------


def ranked(kind: str = "", name: str = "", value: int = 0) -> dict[str, Any]:
    group = {"WorkloadPriorityClass": "kueue.x-k8s.io", "PriorityClass": "scheduling.k8s.io"}
    reference = {"priorityClassRef": {"group": group[kind], "kind": kind, "name": name}} if kind else {}
    return {"priority": value, **reference}


WPC, PPC = "WorkloadPriorityClass", "PriorityClass"
PRIORITIES = {
    "RES-71 no priority class on either workload": (ranked(), ranked(), False),
    "RES-72 same priority class on both workloads": (ranked(WPC, "a"), ranked(WPC, "a"), False),
    "RES-73 priority class changed from one to another": (ranked(WPC, "a"), ranked(WPC, "b"), True),
    "RES-74 priority class added (none -> some)": (ranked(), ranked(WPC, "a"), True),
    "RES-75 priority class removed (some -> none) - blocked by validation": (ranked(WPC, "a"), ranked(), False),
    "RES-76 PodPriorityClass (not WorkloadPriorityClass) changed - should not trigger": (
        ranked(PPC, "a"),
        ranked(PPC, "b"),
        False,
    ),
    "RES-77 PodPriorityClass added (none -> some) - should not trigger": (ranked(), ranked(PPC, "a"), False),
    "RES-78 priority value changed": (ranked(value=500), ranked(value=100), False),
    "RES-79 priority value decreased with WPC": (ranked(WPC, "a", 500), ranked(WPC, "a", 100), True),
    "RES-80 priority value decreased with PPC": (ranked(PPC, "a", 500), ranked(PPC, "a", 100), False),
}


@pytest.mark.parametrize("name", PRIORITIES, ids=list(PRIORITIES))
def test_a_changed_priority_of_a_running_workload_gives_others_another_chance(name: str) -> None:
    before, after, triggers = PRIORITIES[name]
    world = QueueingWorld()
    world.state.upsert_flavor(make_flavor("f"))
    world.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 1}}))
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))
    running = make_workload("running", requests={"cpu": 1})
    assignment = make_assignment("main", {"cpu": "f"}, {"cpu": 1})
    running["spec"].update(before)
    world.put(reserve(running, "cq", assignment))
    world.put(make_workload("waiting", requests={"cpu": 1}))
    world.cycle()
    pending, key = world.state.world.pending["cq"], Key("default", "waiting")
    assert pending.is_parked(key)
    spec = {field: value for field, value in running["spec"].items() if field != "priorityClassRef"}
    world.put(reserve({**running, "spec": {**spec, **after}}, "cq", assignment))
    world.state.settle()
    assert pending.is_parked(key) is not triggers


def shape(settings: QueueingSettings, **annotations: str) -> Any:
    return decode(
        make_workload("w", requests={"cpu": 1}, priority=100, annotations=annotations), settings=settings
    ).shape


SHAPES = {
    "RES-85 same raw priority but different effective priority": (
        Features(priority_boost=True),
        {BOOST_ANNOTATION: "10"},
        {},
    ),
    "RES-86 same spec, different allowed flavors annotation, concurrent admission enabled": (
        Features(concurrent_admission=True),
        {FLAVORS_ANNOTATION: "one"},
        {FLAVORS_ANNOTATION: "two"},
    ),
}


@pytest.mark.parametrize("name", SHAPES, ids=list(SHAPES))
def test_shapes_differ_only_while_the_gate_is_open(name: str) -> None:
    features, one, other = SHAPES[name]
    settings = QueueingSettings(features=features)
    assert shape(settings, **one) != shape(settings, **other)
    assert shape(settings, **one) == shape(settings, **one)
    assert shape(QueueingSettings(), **one) == shape(QueueingSettings(), **other)
