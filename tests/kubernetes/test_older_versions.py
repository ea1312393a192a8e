"""Older Kubernetes: its kube-apiserver takes every definition, and webhooks and queueing work there under the account that is shipped.

`tools/kube-tools FOLDER VERSION` builds one, beside the usual programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from accounts import OUTSIDE, account_of, kubectl
from cluster import ControlPlane, eventually, older_programs
from test_crds import refused_definitions
from test_dispatch import make_queue
from test_process import Replicas

from corral.client.http import HttpClient
from corral.clusters.definitions import established, install
from corral.core import conditions
from corral.core.meta import Obj, spec_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS
from corral.runtime.clock import WallClock

OLDER = older_programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not OLDER, reason="no older kube-apiserver here; `tools/kube-tools FOLDER 1.30.14` builds one"),
    pytest.mark.timeout(600),
]


@pytest.fixture(params=sorted(OLDER))
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControlPlane]:
    made = ControlPlane("older", tmp_path / "plane", OLDER[request.param])
    try:
        made.start(controllers=False)
        yield made
    finally:
        made.stop()


async def test_definitions_webhooks_and_queueing_work_there(plane: ControlPlane, tmp_path: Path) -> None:
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
        assert await refused_definitions(client) == {}
        made = await install(client)
        assert not await established(client, WallClock(), made.created)
        await eventually(lambda: client.get(NAMESPACES, "default"))
        replicas.start()
        await make_queue(client, "4", [])
        await eventually(lambda: _is_suspended(client))
        assert (await client.raw("GET", OLD_QUEUE))["spec"]["cohort"] == "team", "old versions are converted"
        await client.create(JOBS, job("sample"))
        await eventually(lambda: _is_admitted(client))
        await eventually(lambda: _is_started(client))
    except AssertionError as error:
        raise AssertionError(f"{error}\n{replicas.said()[-3000:]}") from error
    finally:
        replicas.stop()
        await client.close()
    assert "orbidden" not in replicas.said(), [line for line in replicas.said().splitlines() if "orbidden" in line][:5]


OLD_QUEUE = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues/cluster-queue"


def job(name: str) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": {"template": template}}


async def _is_suspended(client: HttpClient) -> bool:
    """Whether webhooks are asked, and the definitions converted by them."""
    found = await client.get(CLUSTER_QUEUES, "cluster-queue")
    if not spec_of(found).get("cohortName"):
        await client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"cohortName": "team"}})
    converted = await client.raw("GET", OLD_QUEUE)
    suspended = spec_of(await client.create(JOBS, job("asked"), dry_run=True))["suspend"]
    return suspended is True and spec_of(converted).get("cohort") == "team"


async def _is_admitted(client: HttpClient) -> bool:
    return any(conditions.is_true(each, "Admitted") for each in (await client.list(WORKLOADS, "default")).items)


async def _is_started(client: HttpClient) -> bool:
    return spec_of(await client.get(JOBS, "sample", "default"))["suspend"] is False
