"""fleet.yaml: what a fleet is made of, and errors that name the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.configuration import fleet as config
from corral.configuration.fleet import FleetError
from corral.fleet.introduce import capacity


def test_workers_stand_beside_a_manager_without_nodes() -> None:
    fleet = config.standard(workers=2, nodes=3, cpu="4", extended={"nvidia.com/gpu": "2"})
    assert [(cluster.name, cluster.roles) for cluster in fleet.clusters] == [
        ("manager", ["manager"]),
        ("worker1", ["worker"]),
        ("worker2", ["worker"]),
    ]
    assert capacity(fleet.with_role("worker")) == {
        "cpu": "24",
        "memory": "192Gi",
        "pods": "660",
        "nvidia.com/gpu": "12",
    }


def test_members_stand_beside_a_hub() -> None:
    fleet = config.standard(members=2)
    assert [(cluster.name, cluster.roles) for cluster in fleet.clusters] == [
        ("hub", ["hub"]),
        ("cluster-1", ["worker", "member"]),
        ("cluster-2", ["worker", "member"]),
    ]


def test_a_fleet_of_nothing_else_is_one_cluster_that_runs_jobs() -> None:
    (only,) = config.standard().clusters
    assert only.roles == ["worker"]
    assert only.nodes


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"clusters": []}, "clusters is empty"),
        ({"clusters": [{"name": "a"}, {"name": "a"}]}, "cluster names must differ"),
        (
            {"clusters": [{"name": "a", "roles": ["boss"]}]},
            "cluster a: unknown role 'boss'; roles are manager, worker, hub, member",
        ),
        ({"clusters": [{"name": "a", "runtime": "docker"}]}, "cluster a: runtime must be process or simulated"),
        ({"clusters": [{"name": "A_b"}]}, "cluster A_b: name: a lowercase RFC 1123 label must"),
        (
            {"clusters": [{"name": "a", "nodes": [{"name": "n", "cpu": "lots"}]}]},
            "cluster a: node n: cpu is 'lots'; write a quantity such as 8",
        ),
        ({"clusters": [{"name": "a", "nodes": [{"name": "n_1"}]}]}, "cluster a: node n_1: a lowercase RFC 1123"),
        ({"clusters": [{"name": "a", "ndoes": []}]}, "unknown field `ndoes`"),
        (
            {"clusters": [{"name": "a", "ndoes": []}]},
            r"`\$.clusters\[0\]`; there are name, roles, nodes, port, runtime, labels, config, operators, limits",
        ),
        ({"cluster": []}, "unknown field `cluster`; there are clusters, address, queues, images"),
        ({"clusters": [{"name": "a", "nodes": [{"gpu": 1}]}]}, "there are name, count, cpu, memory, pods, resources"),
        (
            {"clusters": [{"name": "a", "limits": {"request": 1}}]},
            "unknown field `request`.*there are connections, strangers, requests, requestsEach, watchesEach",
        ),
        (
            {"clusters": [{"name": "a", "limits": {"requestsEach": 0}}]},
            r">= 1 - at `\$.clusters\[0\].limits.requestsEach",
        ),
        (None, "is empty; a fleet needs at least `clusters`"),
        ({"clusters": [{"name": 5}]}, r"Expected `str`, got `int` - at `\$.clusters\[0\].name`"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_what_is_wrong_is_named(document: object, words: str) -> None:
    with pytest.raises(FleetError, match=words):
        config.parse(document, "fleet.yaml")


def test_options_are_checked_like_files() -> None:
    with pytest.raises(FleetError, match="memory is '32Q'; write a quantity"):
        config.standard(workers=1, memory="32Q")


def test_files_a_fleet_names_are_found_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("clusters: [{name: a, config: kueue.yaml}]")
    with pytest.raises(FleetError, match=r"cluster a: config: there is no file .*kueue\.yaml"):
        config.load(file)
    (tmp_path / "kueue.yaml").write_text("{}")
    assert config.load(file).cluster("a").config == str(tmp_path / "kueue.yaml")
