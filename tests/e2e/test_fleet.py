"""`corral up` as a person uses it: a manager and a worker as real processes, a job through both, a crash, down and up again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.started import PATIENCE_S, client, corral, eventually, started

from corral.core import conditions
from corral.core.resource import Resource
from corral.fleet.folder import FleetFolder

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

JOBS = Resource("batch", "v1", "jobs", "Job")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
CLUSTER_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
CONFIGS = Resource("kueue.x-k8s.io", "v1beta2", "multikueueconfigs", "MultiKueueConfig", namespaced=False)
CLUSTERS = Resource("kueue.x-k8s.io", "v1beta2", "multikueueclusters", "MultiKueueCluster", namespaced=False)
EXAMPLE = Path(__file__).parents[2] / "examples" / "job.yaml"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with started(tmp_path_factory.mktemp("fleet"), "--workers", "1", "--cpu", "4", "--memory", "8Gi") as state:
        yield state


def finished(state: Path, name: str) -> bool:
    return conditions.is_true(client(state).get(JOBS, name, "default"), "Complete")


def submit(state: Path) -> str:
    created = client(state).create(JOBS, yaml.safe_load(EXAMPLE.read_text()))
    return str(created["metadata"]["name"])


def test_the_example_job_is_queued_on_the_manager_and_run_on_the_worker(fleet: Path) -> None:
    name = submit(fleet)
    eventually(lambda: finished(fleet, name))
    command = [
        sys.executable,
        "-m",
        "corral.cli.main",
        "explain",
        f"job/{name}",
        "--kubeconfig",
        str(fleet / "kubeconfig"),
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    assert "Finished (Succeeded)" in said


def test_the_worker_has_nothing_left_afterwards(fleet: Path) -> None:
    name = submit(fleet)
    eventually(lambda: finished(fleet, name))
    worker = client(fleet, "corral-worker1")
    eventually(lambda: not worker.list(JOBS, "default")["items"] and not worker.list(WORKLOADS)["items"])


def test_a_killed_cluster_process_is_restarted_and_says_so(fleet: Path) -> None:
    folder = FleetFolder(fleet)
    before = folder.read_status()
    assert before is not None
    victim = next(cluster for cluster in before.clusters if cluster.name == "worker1")
    os.kill(victim.pid, signal.SIGKILL)

    def restarted() -> bool:
        status = folder.read_status()
        assert status is not None
        now = next(cluster for cluster in status.clusters if cluster.name == "worker1")
        return now.restarts > victim.restarts and bool(now.url)

    eventually(restarted)
    assert "worker1" in corral(fleet, "status").stdout
    name = submit(fleet)
    eventually(lambda: finished(fleet, name))


def test_state_survives_down_and_up(fleet: Path) -> None:
    name = submit(fleet)
    eventually(lambda: finished(fleet, name))
    corral(fleet, "down")
    corral(fleet, "up")
    assert finished(fleet, name)
    assert "a fleet is already running" in corral(fleet, "up", check=False).stderr


def quota(state: Path) -> str:
    groups = client(state).get(CLUSTER_QUEUES, "cluster-queue")["spec"]["resourceGroups"]
    return str(groups[0]["flavors"][0]["resources"][0]["nominalQuota"])


def workers(state: Path) -> list[str]:
    listed: list[str] = client(state).get(CONFIGS, "multikueue")["spec"]["clusters"]
    named = [item["metadata"]["name"] for item in client(state).list(CLUSTERS)["items"]]
    assert named == listed
    return listed


def test_a_fleet_that_comes_back_larger_or_smaller_has_the_workers_and_the_quota_of_what_it_is(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2", "--cpu", "4", "--simulated") as state:
        eventually(lambda: (workers(state), quota(state)) == (["worker1", "worker2"], "8"))
        corral(state, "down")
        corral(state, "up", "--workers", "1", "--cpu", "4", "--simulated")
        eventually(lambda: (workers(state), quota(state)) == (["worker1"], "4"))
        corral(state, "down")
        corral(state, "up", "--workers", "2", "--cpu", "4", "--simulated")
        eventually(lambda: (workers(state), quota(state)) == (["worker1", "worker2"], "8"))
        theirs = {"op": "replace", "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota", "value": "5"}
        client(state).patch(CLUSTER_QUEUES, "cluster-queue", "", [theirs], kind="json")
        corral(state, "down")
        corral(state, "up", "--workers", "1", "--cpu", "4", "--simulated")
        eventually(lambda: workers(state) == ["worker1"])
        assert quota(state) == "5"
