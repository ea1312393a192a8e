"""Kueue's own command line against Corral's controllers on a real kube-apiserver: what it makes is queued, and it shows the order of the
visibility API that Corral serves there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from accounts import OUTSIDE, account_of, kubectl
from cluster import ControlPlane, eventually, programs
from test_process import Replicas

from corral.client.http import HttpClient
from corral.clusters.definitions import established, install
from corral.core import conditions
from corral.core.meta import Obj, spec_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS
from corral.runtime.clock import WallClock

BINARIES = programs()
KUEUECTL = shutil.which("kueuectl", path=os.environ.get("KUBE_TOOLS", ""))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.skipif(KUEUECTL is None, reason="no kueuectl here; `make kueue` builds it"),
    pytest.mark.timeout(600),
]


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    assert BINARIES is not None
    made = ControlPlane("kueuectl", tmp_path / "plane", BINARIES)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def kueuectl(plane: ControlPlane, *arguments: str) -> str:
    command = [str(KUEUECTL), *arguments, f"--kubeconfig={plane.kubeconfig}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def table(text: str) -> list[dict[str, str]]:
    """The rows of what it prints, by column."""
    head, *lines = text.splitlines()
    starts = [at for at in range(len(head)) if head[at] != " " and (at == 0 or head[at - 2 : at] == "  ")]
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    return [{head[a:b].strip(): line[a:b].strip() for a, b in spans} for line in lines]


def job(name: str) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": {"template": template}}


async def test_kueuectl_makes_queues_shows_who_waits_where_and_stops_and_resumes(
    plane: ControlPlane, tmp_path: Path
) -> None:
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    account = account_of(plane, "worker", tmp_path / "account")
    kubectl(plane, "apply", "--filename=-", given=yaml.safe_dump_all(OUTSIDE))
    config = tmp_path / "configuration.yaml"
    config.write_text("integrations: {frameworks: [batch/job]}")
    (tmp_path / "logs").mkdir()
    replicas = Replicas(
        tmp_path / "logs", "--roles=queueing,webhooks", f"--kubeconfig={account}", f"--config={config}",
        "--webhook-host=localhost", "--webhook-port=0",
    )  # fmt: skip
    try:
        made = await install(client)
        assert not await established(client, WallClock(), made.created)
        await eventually(lambda: client.get(NAMESPACES, "default"))
        replicas.start()
        await eventually(lambda: _is_suspended(client))

        assert "resourceflavor.kueue.x-k8s.io/default created" in kueuectl(plane, "create", "rf", "default")
        kueuectl(plane, "create", "cq", "cluster-queue", "--nominal-quota=default:cpu=1")
        kueuectl(plane, "create", "lq", "user-queue", "--clusterqueue=cluster-queue")
        await eventually(lambda: _is_active(client))
        for name in ("first", "second", "third"):
            await client.create(JOBS, job(name))
            await eventually(lambda name=name: _workload(client, name))
        await eventually(lambda: _are_counted(client, pending=2, admitted=1))

        (queue,) = table(kueuectl(plane, "list", "cq"))
        assert (queue["NAME"], queue["PENDING WORKLOADS"], queue["ADMITTED WORKLOADS"]) == ("cluster-queue", "2", "1")
        rows = {row["JOB NAME"]: row for row in table(kueuectl(plane, "list", "workload"))}
        assert [rows[name]["STATUS"] for name in ("first", "second", "third")] == ["ADMITTED", "PENDING", "PENDING"]
        assert rows["first"]["POSITION IN QUEUE"] == ""
        positions = {rows[name]["POSITION IN QUEUE"]: name for name in ("second", "third")}
        assert sorted(positions) == ["0", "1"]

        kueuectl(plane, "stop", "workload", rows["first"]["NAME"])
        await eventually(lambda: _is_admitted(client, positions["0"]))
        kueuectl(plane, "resume", "workload", rows["first"]["NAME"])
        kueuectl(plane, "stop", "cq", "cluster-queue", "--keep-already-running")
        assert spec_of(await client.get(CLUSTER_QUEUES, "cluster-queue"))["stopPolicy"] == "Hold"
        await client.delete(JOBS, positions["0"], "default", propagation="Background")
        await eventually(lambda: _are_counted(client, pending=2, admitted=0))
        kueuectl(plane, "resume", "cq", "cluster-queue")
        await eventually(lambda: _are_counted(client, pending=1, admitted=1))
    except AssertionError as error:
        raise AssertionError(f"{error}\n{replicas.said()[-3000:]}") from error
    finally:
        replicas.stop()
        await client.close()


async def _is_suspended(client: HttpClient) -> bool:
    return spec_of(await client.create(JOBS, job("asked"), dry_run=True))["suspend"] is True


async def _is_active(client: HttpClient) -> bool:
    return conditions.is_true(await client.get(CLUSTER_QUEUES, "cluster-queue"), "Active")


async def _workload(client: HttpClient, name: str) -> Obj | None:
    found = (await client.list(WORKLOADS, "default")).items
    return next((each for each in found if each["metadata"]["ownerReferences"][0]["name"] == name), None)


async def _are_counted(client: HttpClient, *, pending: int, admitted: int) -> bool:
    status = status_of(await client.get(CLUSTER_QUEUES, "cluster-queue"))
    return (status.get("pendingWorkloads"), status.get("admittedWorkloads")) == (pending, admitted)


async def _is_admitted(client: HttpClient, name: str) -> bool:
    workload = await _workload(client, name)
    return workload is not None and conditions.is_true(workload, "Admitted")
