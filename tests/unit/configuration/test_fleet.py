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
        (
            {"clusters": [{"name": "a", "runtime": "docker-desktop"}]},
            "cluster a: runtime is 'docker-desktop'; it is one of process, simulated, podman, docker, containerd",
        ),
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
            "unknown field `request`.*there are connections, strangers, connectionsEach, requests, requestsEach, watches, watchesEach",
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


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("secrets", ""),
        ("jobs.batch", ""),
        ("leases.coordination.k8s.io", ""),
        ("widgets.example.com", ""),
        ("secret", "secrets"),
        ("jobs", "jobs.batch"),
        ("leases.coordination.k8s.oi", "leases.coordination.k8s.io"),
        ("lease.coordination.k8s.io", "leases.coordination.k8s.io"),
    ],
)
def test_resources_are_known_by_their_names(name: str, meant: str) -> None:
    problem = config.unknown_resource(name)
    assert problem == (f"there is no resource {name!r}; did you mean {meant!r}?" if meant else "")


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("queues: true\nclustres: []\n", "line 2: Object contains unknown field `clustres`"),
        ("clusters:\n- name: a\n- name: b\n  ndoes: []\n", "line 4: Object contains unknown field `ndoes`"),
        ("clusters:\n- name: a\n  port: high\n", "line 3: Expected `int`"),
        ("clusters:\n- name: a\n  nodes:\n  - name: n\n    cpus: 3\n", "line 5: Object contains unknown field `cpus`"),
        ("clusters:\n- name: a\n  roles: [worker,\n   boss]\n", "line 4: cluster a: unknown role 'boss'"),
        ("clusters:\n- name: a\n\n- name: a\n", "line 4: cluster names must differ"),
        ("clusters:\n- name: a\n  auditLog:\n    levle: None\n", "line 4: Object contains unknown field `levle`"),
        ("clusters:\n- name: a\n  auditLog:\n    level: Metdata\n", "line 4: Invalid enum value 'Metdata'"),
        ("clusters:\n- name: a\n  auditLog:\n    maxSize: 0\n", "line 4: Expected `int` >= 1"),
        (
            "clusters:\n- name: a\n  auditLog:\n    resources:\n      secret: None\n",
            "line 5: cluster a: auditLog.resources: there is no resource 'secret'; did you mean 'secrets'?",
        ),
        ("clusters:\n- name: a\n  auditLog:\n    path: logs/\n", "line 4: cluster a: auditLog.path names no file"),
        (
            "clusters:\n- name: a\n  auditLog: {path: /tmp/x}\n- name: b\n  auditLog: {path: /tmp/x}\n",
            "line 5: clusters a and b write the same auditLog, /tmp/x",
        ),
    ],
)
def test_what_is_misspelt_in_a_file_is_named_with_its_line(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(text)
    with pytest.raises(FleetError) as error:
        config.load(tmp_path / "fleet.yaml")
    assert str(error.value).startswith(f"{tmp_path / 'fleet.yaml'}, {told}")


@pytest.mark.parametrize(
    ("queues", "said", "expected"), [(True, "", True), (False, "", None), (True, "false", False), (False, "true", True)]
)
def test_one_worker_preempts_where_the_queues_are_the_fleets_and_copies_are_as_upstreams_where_not(
    tmp_path: Path, queues: bool, said: str, expected: bool | None
) -> None:
    kueue = tmp_path / "kueue.yaml"
    kueue.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        + (f"featureGates: {{MultiKueueOrchestratedPreemption: {said}}}\n" if said else "")
    )
    clusters = [
        config.ClusterSpec(name="m", roles=["manager"], config=str(kueue)),
        config.ClusterSpec(name="w", roles=["worker"]),
    ]
    fleet = config.FleetSpec(clusters=clusters, queues=queues)
    gates = config.configuration_of(fleet, clusters[0]).get("featureGates") or {}
    assert gates.get("MultiKueueOrchestratedPreemption") is expected


def test_a_fleet_of_one_maker_sends_what_a_job_needs_and_keeps_no_quota_for_what_cannot_run(tmp_path: Path) -> None:
    kueue = tmp_path / "kueue.yaml"
    kueue.write_text("corral:\n  propagateDependencies: false\n")
    manager, other = config.ClusterSpec(name="m", roles=["manager"]), config.ClusterSpec(name="w", roles=["worker"])
    fleet = config.FleetSpec(clusters=[manager, other])
    assert config.configuration_of(fleet, manager)["corral"] == {
        "propagateDependencies": True, "handBackImpossible": True
    }  # fmt: skip
    asked = config.ClusterSpec(name="m", roles=["manager"], config=str(kueue))
    assert config.configuration_of(fleet, asked)["corral"]["propagateDependencies"] is False
    assert "corral" not in config.configuration_of(fleet, other)
