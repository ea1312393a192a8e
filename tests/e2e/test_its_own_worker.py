"""A manager with nodes of its own is a worker too: jobs run on it and on others, and come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.started import client, eventually, started

from corral.core import conditions
from corral.core.meta import Obj, status_of
from corral.core.resource import Resource

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
JOBS = Resource("batch", "v1", "jobs", "Job")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
FLEET = """
clusters:
  - name: manager
    roles: [manager, worker]
    nodes: [{name: own, cpu: 2}]
  - name: worker1
    roles: [worker]
    nodes: [{name: other, cpu: 2}]
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    with started(tmp_path / "state", "-f", str(tmp_path / "fleet.yaml")) as state:
        yield state


def job(name: str, gate: Path) -> Obj:
    command = f"while [ ! -e /gate/{gate.name} ]; do sleep 0.1; done; echo done"
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", command],
        "resources": {"requests": {"cpu": "2"}},
        "volumeMounts": [{"name": "gate", "mountPath": "/gate"}],
    }
    volume = {"name": "gate", "hostPath": {"path": str(gate.parent)}}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }


def test_jobs_run_on_the_manager_itself_and_beside_it(fleet: Path, tmp_path: Path) -> None:
    gate = tmp_path / "open"
    manager = client(fleet)
    for name in ("first", "second"):
        manager.create(JOBS, job(name, gate))

    def clusters() -> set[str]:
        held = manager.list(WORKLOADS, "default")["items"]
        return {str(status_of(workload).get("clusterName")) for workload in held} - {"None"}

    eventually(lambda: clusters() == {"manager", "worker1"})
    copies = {"first-here", "second-here"}
    eventually(lambda: len(copies & {held["metadata"]["name"] for held in manager.list(JOBS, "default")["items"]}) == 1)
    gate.touch()
    for name in ("first", "second"):
        eventually(lambda name=name: conditions.is_true(manager.get(JOBS, name, "default"), "Complete"))
    eventually(
        lambda: {held["metadata"]["name"] for held in manager.list(JOBS, "default")["items"]} == {"first", "second"}
    )
    eventually(lambda: len(manager.list(WORKLOADS, "default")["items"]) == 2)
