"""What a pod counts for."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj
from corral.decide.queueing.model.requests import effective_requests, pod_requests
from corral.decide.queueing.model.settings import QueueingSettings, Transformation

GI = 2**30


def container(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **extra: str) -> Obj:
    resources: Obj = {}
    if requests is not None:
        resources["requests"] = requests
    if limits is not None:
        resources["limits"] = limits
    return {"resources": resources, **extra}


CASES = {
    "containers add up": ({"containers": [container({"cpu": "1"}), container({"cpu": "500m"})]}, {"cpu": 1500}),
    "the largest init container counts": (
        {"containers": [container({"cpu": "1"})], "initContainers": [container({"cpu": "3"})]},
        {"cpu": 3000},
    ),
    "sidecars run beside everything": (
        {
            "containers": [container({"cpu": "1"})],
            "initContainers": [container({"cpu": "1"}, restartPolicy="Always"), container({"cpu": "3"})],
        },
        {"cpu": 4000},
    ),
    "limits stand in for missing requests": (
        {"containers": [container({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})]},
        {"cpu": 1000, "memory": GI},
    ),
    "pod-level resources overrule containers": (
        {"containers": [container({"cpu": "1", "memory": "1Gi"})], "resources": {"requests": {"cpu": "4"}}},
        {"cpu": 4000, "memory": GI},
    ),
    "overhead is added": (
        {"containers": [container({"cpu": "1"})], "overhead": {"cpu": "250m"}},
        {"cpu": 1250},
    ),
}


@pytest.mark.parametrize("name", CASES, ids=list(CASES))
def test_pod_requests(name: str) -> None:
    spec, expected = CASES[name]
    assert pod_requests(spec) == expected


def test_runtime_class_overhead_counts_for_pods_without_their_own() -> None:
    spec = {"containers": [container({"cpu": "1"})]}
    assert pod_requests(spec, {"cpu": "1"}) == {"cpu": 2000}
    assert pod_requests({**spec, "overhead": {"cpu": "2"}}, {"cpu": "1"}) == {"cpu": 3000}


def transformed(
    requests: dict[str, int], *transformations: Transformation, excluded: tuple[str, ...] = ()
) -> dict[str, int]:
    return effective_requests(requests, QueueingSettings(transformations=transformations, excluded_prefixes=excluded))


def test_excluded_prefixes_are_dropped() -> None:
    assert transformed({"cpu": 1000, "networking.example.com/vpc": 1}, excluded=("networking.example.com/",)) == {
        "cpu": 1000
    }


MIG = Transformation("nvidia.com/mig-1g.5gb", {"accelerator-memory": "5Gi", "credits": "10"}, retain=False)


def test_replace_drops_the_input() -> None:
    assert transformed({"cpu": 1000, "nvidia.com/mig-1g.5gb": 2}, MIG) == {
        "cpu": 1000,
        "accelerator-memory": 10 * GI,
        "credits": 20,
    }


def test_retain_keeps_the_input() -> None:
    kept = Transformation("gpu", {"credits": "35"})
    assert transformed({"gpu": 2}, kept) == {"gpu": 2, "credits": 70}


def test_outputs_of_equal_name_are_added() -> None:
    other = Transformation("nvidia.com/mig-2g.10gb", {"credits": "15"}, retain=False)
    assert transformed({"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-2g.10gb": 1}, MIG, other)["credits"] == 25


def test_an_output_named_like_a_request_is_added_to_it() -> None:
    assert transformed({"credits": 3, "gpu": 2}, Transformation("gpu", {"credits": "1"}, retain=False)) == {
        "credits": 5
    }


def test_multiply_by_scales_outputs_not_the_retained_input() -> None:
    scaled = Transformation("gpu-memory", {"total": "1"}, multiply_by="gpu")
    assert transformed({"gpu-memory": 10, "gpu": 4}, scaled) == {"gpu-memory": 10, "gpu": 4, "total": 40}


def test_negative_totals_are_floored_and_never_eat_a_plain_request() -> None:
    allowance = Transformation("free", {"credits": "-5"}, retain=False)
    earn = Transformation("gpu", {"credits": "3"}, retain=False)
    assert transformed({"free": 1, "gpu": 1}, allowance, earn)["credits"] == 0
    assert transformed({"free": 1, "credits": 2}, allowance)["credits"] == 2
    assert transformed({"free": 1, "gpu": 3}, allowance, earn)["credits"] == 4


def test_milli_values_are_exact() -> None:
    assert transformed({"cpu": 500}, Transformation("cpu", {"credits": "10"})) == {"cpu": 500, "credits": 5}


def test_negative_requests_are_floored() -> None:
    assert transformed({"cpu": -5}) == {"cpu": 0}
