"""Devices of dynamic resource allocation: what claims and extended resources count for, and why some cannot be counted."""

from __future__ import annotations

from typing import Any

import pytest

from corral.configuration.part import ConfigurationError
from corral.configuration.queueing import load_config
from corral.core.meta import Key, Obj
from corral.decide.queueing.model.settings import CounterSource, DeviceMapping, Features, QueueingSettings
from corral.decide.queueing.state import QueueingState
from corral.testing.queueing import (
    EPOCH,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_workload,
)

GPUS = DeviceMapping("gpus", ("gpu.example.com", "old-gpu"))
MEMORY = DeviceMapping(
    "gpu-memory",
    ("mig.example.com",),
    (CounterSource("gpu.example.com", "memory", 'device.attributes["gpu.example.com"].model == "A100"'),),
)
SETTINGS = QueueingSettings(device_mappings=(GPUS, MEMORY))
KEY = Key("default", "w")
CLAIMS = "spec.podSets[0].template.spec.resourceClaims[0]"
REQUEST = f"{CLAIMS}.devices.requests[0]"


def exactly(device_class: str = "gpu.example.com", count: int | None = None, **more: Any) -> Obj:
    counted = {} if count is None else {"count": count}
    return {"name": "gpu", "exactly": {"deviceClassName": device_class, **counted, **more}}


def selecting(*texts: str) -> Obj:
    return {"selectors": [{"cel": {"expression": text}} for text in texts]}


def template(*requests: Obj, name: str = "gpus", namespace: str = "default") -> Obj:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def device_class(name: str, *selectors: str, provides: str = "", created: str = "2026-01-01T00:00:00Z") -> Obj:
    spec: Obj = selecting(*selectors) if selectors else {}
    if provides:
        spec["extendedResourceName"] = provides
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


def device(name: str, model: str, memory: str = "10Gi") -> Obj:
    return {
        "name": name,
        "attributes": {"model": {"string": model}, "version": {"version": "1.2.3"}},
        "capacity": {"memory": {"value": memory}},
        "consumesCounters": [{"counterSet": f"{name}-set", "counters": {"memory": {"value": memory}}}],
    }


def published(*devices: Obj, pool: str = "pool", generation: int = 1, of: int = 1, name: str = "slice") -> Obj:
    shape = {"name": pool, "generation": generation, "resourceSliceCount": of}
    spec = {"driver": "gpu.example.com", "pool": shape, "devices": list(devices)}
    return {"metadata": {"name": name}, "spec": spec}


def claiming(*templates: str, count: int = 1, requests: Obj | None = None, **claim: Any) -> Obj:
    claims = [{"name": f"c{at}", "resourceClaimTemplateName": name} for at, name in enumerate(templates)]
    if claim:
        claims.append({"name": "plain", **claim})
    container = {"name": "c", "resources": {"requests": requests or {"cpu": "1"}}}
    spec: Obj = {"containers": [container], **({"resourceClaims": claims} if claims else {})}
    return make_workload("w", "lq", {"name": "main", "count": count, "template": {"spec": spec}})


def state(*known: Obj, settings: QueueingSettings = SETTINGS) -> QueueingState:
    built = QueueingState(settings)
    built.upsert_flavor(make_flavor("f"))
    covered = {"cpu": 10, "gpus": 10, "gpu-memory": "100Gi", "example.com/gpu": 10, "example.com/fpga": 10}
    built.upsert_cluster_queue(make_cluster_queue("cq", {"f": covered}))
    built.upsert_local_queue(make_local_queue("lq", "cq"))
    for obj in known:
        put(built, obj)
    return built


def put(built: QueueingState, obj: Obj) -> None:
    if "driver" in obj["spec"]:
        built.set_resource_slice(obj)
    elif "spec" in obj["spec"]:
        built.set_claim_template(obj)
    else:
        built.set_device_class(obj)


def asked_for(built: QueueingState, workload: Obj) -> dict[str, int] | str:
    """What the workload asks for in all, or why that is not known."""
    built.upsert_workload(workload)
    info = built.world.workloads[KEY]
    return info.uncounted or info.pod_sets[0].requests


A100 = 'device.attributes["gpu.example.com"].model == "A100"'
LARGE = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("20Gi")) >= 0'
RECENT = 'device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.0.0"))'
GPU_CLASS, MIG_CLASS = (
    device_class("gpu.example.com"),
    device_class("mig.example.com", 'device.driver == "gpu.example.com"'),
)
SLICE = published(device("a", "A100"), device("b", "A100", "40Gi"), device("c", "T4"))

COUNTED: dict[str, tuple[list[Obj], Obj, dict[str, int]]] = {
    "one device": ([template(exactly())], claiming("gpus"), {"cpu": 1000, "gpus": 1}),
    "several, for every pod": ([template(exactly(count=2))], claiming("gpus", count=3), {"cpu": 3000, "gpus": 6}),
    "classes of one name are added": (
        [template(exactly(count=2), exactly("old-gpu", 1))],
        claiming("gpus"),
        {"cpu": 1000, "gpus": 3},
    ),
    "templates are added": (
        [template(exactly()), template(exactly(count=4), name="more")],
        claiming("gpus", "more"),
        {"cpu": 1000, "gpus": 5},
    ),
    "selectors that enough devices match": (
        [template(exactly(count=2, **selecting(A100, RECENT))), GPU_CLASS, SLICE],
        claiming("gpus"),
        {"cpu": 1000, "gpus": 2},
    ),
    "an extended resource under the name of its class": (
        [device_class("gpu.example.com", provides="example.com/gpu")],
        claiming(requests={"cpu": "1", "example.com/gpu": "2"}, count=2),
        {"cpu": 2000, "gpus": 4},
    ),
    "an extended resource of a class without name keeps its own": (
        [device_class("fpga", provides="example.com/fpga")],
        claiming(requests={"example.com/fpga": "2"}),
        {"example.com/fpga": 2},
    ),
    "an extended resource nobody provides is as always": (
        [device_class("gpu.example.com", provides="example.com/other")],
        claiming(requests={"example.com/gpu": "2"}),
        {"example.com/gpu": 2},
    ),
    "claims and extended resources together": (
        [template(exactly()), device_class("gpu.example.com", provides="example.com/gpu")],
        claiming("gpus", requests={"example.com/gpu": "2"}),
        {"gpus": 3},
    ),
    "the class created last provides": (
        [
            device_class("fpga", provides="example.com/gpu", created="2026-02-01T00:00:00Z"),
            device_class("gpu.example.com", provides="example.com/gpu", created="2026-03-01T00:00:00Z"),
        ],
        claiming(requests={"example.com/gpu": "2"}),
        {"gpus": 2},
    ),
    "the largest partition that could be taken": (
        [template(exactly("mig.example.com", 2)), MIG_CLASS, SLICE],
        claiming("gpus"),
        {"cpu": 1000, "gpu-memory": 2 * 40 * 2**30},
    ),
    "only partitions the claim selects": (
        [template(exactly("mig.example.com", 1, **selecting(f"!({LARGE})"))), MIG_CLASS, SLICE],
        claiming("gpus"),
        {"cpu": 1000, "gpu-memory": 10 * 2**30},
    ),
    "only the newest generation of a pool": (
        [
            template(exactly("mig.example.com", 1)),
            MIG_CLASS,
            published(device("old", "A100", "80Gi"), name="old"),
            published(device("new", "A100", "5Gi"), generation=2, name="new"),
        ],
        claiming("gpus"),
        {"cpu": 1000, "gpu-memory": 5 * 2**30},
    ),
}


@pytest.mark.parametrize("name", COUNTED, ids=list(COUNTED))
def test_devices_count(name: str) -> None:
    known, workload, expected = COUNTED[name]
    assert asked_for(state(*known), workload) == expected


def refused(where: str, value: str, detail: str) -> str:
    return f'{REQUEST}{where}: Invalid value: "{value}": ResourceClaimTemplate gpus: {detail}'


UNCOUNTED: dict[str, tuple[list[Obj], Obj, str]] = {
    "claims of their own": (
        [],
        claiming(resourceClaimName="mine"),
        "KueueDRAIntegration feature does not support use of resource claims",
    ),
    "no template": (
        [],
        claiming("gpus"),
        f"{CLAIMS}: Internal error: failed to get claim spec for ResourceClaimTemplate gpus in podset main: "
        'resourceclaimtemplates.resource.k8s.io "gpus" not found',
    ),
    "a template of another namespace": (
        [template(exactly(), namespace="other")],
        claiming("gpus"),
        f"{CLAIMS}: Internal error: failed to get claim spec for ResourceClaimTemplate gpus in podset main: "
        'resourceclaimtemplates.resource.k8s.io "gpus" not found',
    ),
    "no name for the class": (
        [template(exactly("tpu"))],
        claiming("gpus"),
        f'{CLAIMS}.resourceClaimTemplateName: Not found: "DeviceClass tpu is not mapped in DRA configuration for '
        'podset main"',
    ),
    "alternatives": (
        [template({"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu.example.com"}]})],
        claiming("gpus"),
        refused("", "null", "FirstAvailable device selection is not supported"),
    ),
    "nothing asked for": (
        [template({"name": "gpu"})],
        claiming("gpus"),
        refused("", "null", "Exactly must be set if FirstAvailable is nil"),
    ),
    "all devices": (
        [template(exactly(allocationMode="All"))],
        claiming("gpus"),
        refused(".exactly.allocationMode", "All", "AllocationMode 'All' is not supported"),
    ),
    "administrators": (
        [template(exactly(adminAccess=True))],
        claiming("gpus"),
        refused(".exactly.adminAccess", "null", "AdminAccess is not supported"),
    ),
    "too few devices match": (
        [template(exactly(count=3, **selecting(A100))), GPU_CLASS, SLICE],
        claiming("gpus"),
        f"{REQUEST}.exactly.selectors: Internal error: ResourceClaimTemplate gpus: insufficient matching devices for CEL "
        "selector in DeviceClass gpu.example.com: 2 device(s) match in the cluster but 3 requested",
    ),
    "half a device": (
        [device_class("gpu.example.com", provides="example.com/gpu")],
        claiming(requests={"example.com/gpu": "500m"}),
        "spec.podSets[0].template.spec.containers[0].resources.requests.example.com/gpu: "
        'Invalid value: "500m": extended resource quantity must be an integer',
    ),
    "an extended resource of partitions": (
        [device_class("mig.example.com", provides="example.com/gpu")],
        claiming(requests={"example.com/gpu": "1"}),
        'spec.podSets[0].template.spec.containers[0]: Invalid value: "example.com/gpu": extended resource '
        "example.com/gpu resolves to DeviceClass mig.example.com with counters configured; use "
        "ResourceClaimTemplates with CEL selectors for counter-based quota",
    ),
    "too few partitions": (
        [template(exactly("mig.example.com", 3)), MIG_CLASS, SLICE],
        claiming("gpus"),
        f"{REQUEST}: Internal error: insufficient matching devices for counter driver: 2 device(s) match but 3 requested",
    ),
    "a pool that is not complete": (
        [template(exactly("mig.example.com", 1)), MIG_CLASS, published(device("a", "A100"), of=2)],
        claiming("gpus"),
        f"{REQUEST}: Internal error: insufficient matching devices for counter driver: 0 device(s) match but 1 requested",
    ),
}


@pytest.mark.parametrize("name", UNCOUNTED, ids=list(UNCOUNTED))
def test_devices_that_cannot_be_counted(name: str) -> None:
    known, workload, problem = UNCOUNTED[name]
    built = state(*known)
    assert asked_for(built, workload) == problem
    found = built.questions.explain(KEY)
    assert found is not None
    assert (found.state, found.reason, found.message) == ("inadmissible", "Inadmissible", problem)
    assert not list(built.plan_cycle(EPOCH).decisions)


def test_a_broken_selector_says_so() -> None:
    text = asked_for(state(template(exactly(**selecting("device.driver ==")))), claiming("gpus"))
    assert isinstance(text, str)
    assert text.startswith(f"{REQUEST}.exactly.selectors[0].cel.expression: Invalid value: ")
    assert "CEL compilation failed: " in text


def test_a_template_that_comes_later_lets_its_workload_in() -> None:
    built = state()
    built.upsert_workload(claiming("gpus"))
    assert not built.questions.pending("cq")
    built.set_claim_template(template(exactly(count=2)))
    (admission,) = built.plan_cycle(EPOCH).admissions
    assert admission.pod_sets[0].requests == {"cpu": 1000, "gpus": 2}


def test_devices_use_quota() -> None:
    built = state(template(exactly(count=11)))
    built.upsert_workload(claiming("gpus"))
    (wait,) = built.plan_cycle(EPOCH).waiting
    assert "insufficient quota for gpus in flavor f" in wait.message
    built.set_claim_template(template(exactly(count=10)))
    assert list(built.plan_cycle(EPOCH).admissions)


def test_a_class_that_comes_later_renames_an_extended_resource() -> None:
    built = state()
    workload = claiming(requests={"example.com/gpu": "2"})
    assert asked_for(built, workload) == {"example.com/gpu": 2}
    built.set_device_class(device_class("gpu.example.com", provides="example.com/gpu"))
    assert built.world.workloads[KEY].pod_sets[0].requests == {"gpus": 2}
    built.delete_device_class("gpu.example.com")
    assert built.world.workloads[KEY].pod_sets[0].requests == {"example.com/gpu": 2}


def test_res_87_devices_counted_under_another_name_make_another_shape() -> None:
    built = state()
    built.upsert_workload(claiming(requests={"example.com/gpu": "1"}))
    before = built.world.workloads[KEY].shape
    built.set_device_class(device_class("gpu.example.com", provides="example.com/gpu"))
    after = built.world.workloads[KEY].shape
    assert before != after


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (
            Features(devices=False),
            "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled",
        ),
        (Features(devices=False, devices_rejected_when_off=False), {"cpu": 1000}),
    ],
)
def test_without_the_gate(features: Features, expected: object) -> None:
    settings = QueueingSettings(device_mappings=(GPUS,), features=features)
    assert asked_for(state(template(exactly()), settings=settings), claiming("gpus")) == expected


def test_what_is_admitted_keeps_what_it_was_given() -> None:
    built = state(template(exactly(count=2)))
    workload = claiming("gpus")
    built.upsert_workload(workload)
    (admission,) = built.plan_cycle(EPOCH).admissions
    conditions = [{"type": kind, "status": "True", "reason": kind} for kind in ("QuotaReserved", "Admitted")]
    status = {"admission": admission.admission, "conditions": conditions}
    built.upsert_workload({**workload, "status": status})
    built.delete_claim_template(Key("default", "gpus"))
    assert built.world.workloads[KEY].usage["f", "gpus"] == 2


# -- configuration ----------------------------------------------------------------------------------------------------


def configured(*mappings: Obj) -> tuple[DeviceMapping, ...]:
    return load_config({"resources": {"deviceClassMappings": list(mappings)}}).settings().device_mappings


COUNTER = {"name": "memory", "driver": "gpu.example.com", "deviceSelector": {"cel": {"expression": A100}}}


def test_mappings_are_read() -> None:
    found = configured(
        {"name": "gpus", "deviceClassNames": ["gpu.example.com", "old-gpu"]},
        {"name": "gpu-memory", "deviceClassNames": ["mig.example.com"], "sources": [{"counter": COUNTER}]},
    )
    assert found == (GPUS, MEMORY)


@pytest.mark.parametrize(
    ("mappings", "text"),
    [
        ([{"name": "gpus", "deviceClassNames": []}], "[0].deviceClassNames: Required value: at least one device class"),
        (
            [{"name": "a", "deviceClassNames": ["x"]}, {"name": "b", "deviceClassNames": ["x"]}],
            '[1].deviceClassNames[0]: Invalid value: "x": device class already mapped to resource a',
        ),
        ([{"name": "a", "deviceClassNames": ["x", "x"]}], '[0].deviceClassNames[1]: Duplicate value: "x"'),
        ([{"name": "not a name", "deviceClassNames": ["x"]}], '[0].name: Invalid value: "not a name"'),
        (
            [{"name": "a", "deviceClassNames": ["x"], "sources": [{"counter": {**COUNTER, "name": "No"}}]}],
            '[0].sources[0].counter.name: Invalid value: "No"',
        ),
        (
            [{"name": "a", "deviceClassNames": ["x"], "sources": [{}]}],
            "[0].sources[0]: Required value: exactly one of counter or capacity must be set",
        ),
    ],
)
def test_wrong_mappings_are_refused(mappings: list[Obj], text: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        configured(*mappings)
    assert f"resources.deviceClassMappings{text}" in str(refusal.value)
