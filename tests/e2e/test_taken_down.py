"""`corral down` while jobs run: it says so, no job fails of it, and the next `corral up` runs the same pods again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.started import client, corral, eventually, started

from corral.core import conditions
from corral.core.meta import Obj, uid_of
from corral.fleet.folder import FleetFolder
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import PODS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PROGRAM = """
echo started >> /data/runs; echo hello
while [ ! -e /data/go ]; do sleep 0.1; done
"""
"""Ends well, and only when it is told to; SIGTERM kills it."""
POLITE = "trap 'exit 0' TERM\n"
"""Ends well at SIGTERM too, which is no completion."""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    with started(tmp_path / "state", "--workers", "0") as state:
        yield state


def job(name: str, data: Path, policy: str, before: str = "") -> Obj:
    command = ["sh", "-c", before + PROGRAM]
    container: Obj = {"name": "main", "image": "busybox", "command": command, "resources": {"requests": {"cpu": "1"}}}
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    volumes = [{"name": "data", "hostPath": {"path": str(data)}}]
    template = {"spec": {"restartPolicy": policy, "containers": [container], "volumes": volumes}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
        "spec": {"backoffLimit": 0, "suspend": True, "template": template},
    }


@pytest.mark.parametrize("hangs", [False, True], ids=["answers", "hangs"])
def test_running_jobs_go_on_at_the_next_start_and_none_fails(state: Path, tmp_path: Path, hangs: bool) -> None:
    cases = {"never": ("Never", ""), "on-failure": ("OnFailure", ""), "polite": ("Never", POLITE)}
    for name, (policy, before) in cases.items():
        (tmp_path / name).mkdir()
        client(state).create(JOBS, job(name, tmp_path / name, policy, before))
    eventually(lambda: all((tmp_path / name / "runs").exists() for name in cases))
    eventually(lambda: all(pod["status"]["phase"] == "Running" for pod in client(state).list(PODS, "default")["items"]))
    before = {uid_of(pod) for pod in client(state).list(PODS, "default")["items"]}
    status = FleetFolder(state).read_status()
    assert status is not None
    (cluster,) = status.clusters
    if hangs:
        os.kill(cluster.pid, signal.SIGSTOP)
    said = corral(state, "down").stdout
    up = f"continue at the next `corral up --state {state}`.\n"
    if hangs:
        assert said.startswith(
            f"Cluster {cluster.name} does not answer: it is ended by force; jobs that run there {up}"
        )
        assert [(tmp_path / name / "runs").read_text().count("started") for name in cases] == [1, 1, 1]
    else:
        assert said.startswith(f"3 jobs are running; they {up}")
    corral(state, "up")
    eventually(lambda: all((tmp_path / name / "runs").read_text().count("started") == 2 for name in cases))
    for name in cases:
        (tmp_path / name / "go").touch()
    for name in cases:
        eventually(lambda name=name: conditions.is_true(client(state).get(JOBS, name, "default"), "Complete"))
    pods = client(state).list(PODS, "default")["items"]
    assert {uid_of(pod) for pod in pods} == before
    assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods] == [0, 0, 0]
    assert [client(state).get(JOBS, name, "default")["status"].get("failed") for name in cases] == [None] * 3
