"""Workers leave, join and get new credentials over HTTPS while jobs are in flight: none is lost, none runs twice at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.started import client, eventually

from corral.core import conditions
from corral.core.meta import Obj, status_of
from corral.core.resource import Resource

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
JOBS = Resource("batch", "v1", "jobs", "Job")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
COUNT = 60
# A process that dies lets go of its lock, so only a second one that lives at the same time finds it held. It takes its time to
# stop, so that one which is started before the other has ended is found out.
ALONE = """
import fcntl, signal, sys, time

def stop(*_):
    time.sleep(0.7)
    sys.exit(143)

signal.signal(signal.SIGTERM, stop)
held = open(sys.argv[1] + ".lock", "w")
try:
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open(sys.argv[1] + ".twice", "w").close()
time.sleep(1.5)
open(sys.argv[1] + ".done", "w").close()
"""


def corral(state: Path, *arguments: str) -> None:
    own = ("--state", str(state)) if arguments[0] in ("up", "down") else ("--kubeconfig", str(state / "kubeconfig"))
    command = [sys.executable, "-m", "corral.cli.main", *arguments, *own]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Path]:
    state = tmp_path / "fleet"
    corral(state, "up", "--workers", "3", "--cpu", "16", "--memory", "32Gi", "--overcommit")
    yield state
    corral(state, "down")


def job(number: int, marks: Path) -> Obj:
    container = {
        "name": "main",
        "image": "python",
        "command": ["python", "-c", ALONE, f"/marks/j{number}"],
        "resources": {"requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "marks", "mountPath": "/marks"}],
    }
    volume = {"name": "marks", "hostPath": {"path": str(marks)}}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container], "volumes": [volume]}
    return {
        "metadata": {"name": f"j{number}", "namespace": "default", "labels": labels},
        "spec": {"suspend": True, "backoffLimit": 20, "template": {"spec": pod}},
    }


def test_workers_leave_join_and_change_credentials_under_load(fleet: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    corral(fleet, "clusters", "remove", "worker3", "--force")
    manager = client(fleet)
    for number in range(COUNT):
        manager.create(JOBS, job(number, marks))
        if number == COUNT // 4:
            corral(fleet, "clusters", "add", "worker3", "--worker-context", "corral-worker3")
        if number == COUNT // 2:
            corral(fleet, "clusters", "add", "worker2", "--worker-context", "corral-worker2")
        if number == COUNT * 3 // 4:
            corral(fleet, "clusters", "drain", "worker1")
            corral(fleet, "clusters", "remove", "worker1", "--force")
    eventually(
        lambda: all(conditions.is_true(held, "Complete") for held in manager.list(JOBS, "default")["items"]), 150
    )
    assert len(manager.list(JOBS, "default")["items"]) == COUNT
    assert sorted(marks.glob("*.twice")) == []
    assert len(list(marks.glob("*.done"))) == COUNT
    where = {status_of(held).get("clusterName") for held in manager.list(WORKLOADS, "default")["items"]}
    assert {"worker2", "worker3"} <= where
    for name in ("worker1", "worker2", "worker3"):
        worker = client(fleet, f"corral-{name}")
        eventually(lambda worker=worker: not worker.list(JOBS, "default")["items"])
