"""A manager's controllers and two workers' over three real kube-apiservers: a Job from create to Finished."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from cluster import ControlPlane, eventually, programs
from multikueue.player import PodPlayer

from corral.client import kubeconfig
from corral.client.http import HttpClient
from corral.clusters.definitions import install
from corral.clusters.embedded import connect
from corral.clusters.kubernetes import Controllers
from corral.core import conditions
from corral.core.meta import Obj, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from corral.runtime.clock import WallClock
from corral.runtime.controller import Manager
from corral.runtime.random import Random

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(900),
]
NAMES = ("manager", "worker1", "worker2")
CONFIGURATION = {"integrations": {"frameworks": ["batch/job"]}}


@pytest.fixture
def planes(tmp_path: Path) -> Iterator[dict[str, ControlPlane]]:
    assert BINARIES is not None
    made = {name: ControlPlane(name, tmp_path / name, BINARIES) for name in NAMES}
    try:
        for plane in made.values():
            plane.start()
        yield made
    finally:
        for plane in made.values():
            plane.stop()


async def make_queue(client: HttpClient, cpu: str, checks: list[str]) -> None:
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}
    spec: Obj = {"namespaceSelector": {}, "resourceGroups": [group]}
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
    await client.create(CLUSTER_QUEUES, {"metadata": {"name": "cluster-queue"}, "spec": spec})
    queue = {"metadata": {"name": "user-queue", "namespace": "default"}, "spec": {"clusterQueue": "cluster-queue"}}
    await client.create(LOCAL_QUEUES, queue)


async def introduce(manager: HttpClient, planes: dict[str, ControlPlane]) -> None:
    for name in ("worker1", "worker2"):
        text = yaml.safe_dump(kubeconfig.load(planes[name].kubeconfig)).encode()
        data = {"kubeconfig": base64.b64encode(text).decode()}
        await manager.create(
            SECRETS, {"metadata": {"name": f"{name}-secret", "namespace": "kueue-system"}, "data": data}
        )
        source = {"kubeConfig": {"location": f"{name}-secret", "locationType": "Secret"}}
        await manager.create(MULTI_KUEUE_CLUSTERS, {"metadata": {"name": name}, "spec": {"clusterSource": source}})
    clusters = {"metadata": {"name": "multikueue"}, "spec": {"clusters": ["worker1", "worker2"]}}
    await manager.create(MULTI_KUEUE_CONFIGS, clusters)
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "multikueue"}
    spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    await manager.create(ADMISSION_CHECKS, {"metadata": {"name": "multikueue"}, "spec": spec})


JOB: Obj = {
    "metadata": {"name": "real", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
    "spec": {
        "suspend": True,
        "managedBy": "kueue.x-k8s.io/multikueue",
        "template": {
            "metadata": {"annotations": {"fake/run-seconds": "1", "fake/exit-code": "0"}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}],
            },
        },
    },
}


async def test_a_job_is_carried_from_create_to_finished_over_three_real_api_servers(
    planes: dict[str, ControlPlane],
) -> None:
    clients = {name: HttpClient.from_kubeconfig(plane.kubeconfig) for name, plane in planes.items()}
    running: list[Any] = []
    try:
        for client in clients.values():
            await install(client, groups=("kueue.x-k8s.io",))
            await eventually(lambda client=client: _is_served(client))
        for name, client in clients.items():
            own = Controllers(client, CONFIGURATION, connect=connect if name == "manager" else None)
            await own.start()
            running.append(own)
        for name in ("worker1", "worker2"):
            manager = Manager(clients[name], WallClock(), Random())
            PodPlayer(manager)
            await manager.start()
            running.append(manager)
        await introduce(clients["manager"], planes)
        await make_queue(clients["manager"], "8", ["multikueue"])
        for name in ("worker1", "worker2"):
            await make_queue(clients[name], "4", [])
        await eventually(lambda: _is_active(clients["manager"]))
        await clients["manager"].create(JOBS, JOB)

        workload = await eventually(lambda: _finished(clients["manager"]))
        assert (conditions.find(workload, "Finished") or {})["reason"] == "Succeeded"
        assert status_of(workload)["clusterName"] in ("worker1", "worker2")
        assert conditions.is_true(await clients["manager"].get(JOBS, "real", "default"), "Complete")
        for name in ("worker1", "worker2"):
            await eventually(lambda name=name: _is_empty(clients[name]))
    finally:
        for part in reversed(running):
            await part.stop()
        for client in clients.values():
            await client.close()


async def _is_served(client: HttpClient) -> bool:
    await client.list(WORKLOADS)
    return True


async def _is_active(client: HttpClient) -> bool:
    return conditions.is_true(await client.get(CLUSTER_QUEUES, "cluster-queue"), "Active")


async def _finished(client: HttpClient) -> Obj | None:
    items = (await client.list(WORKLOADS)).items
    return items[0] if items and conditions.is_true(items[0], "Finished") else None


async def _is_empty(client: HttpClient) -> bool:
    return not (await client.list(WORKLOADS)).items and not (await client.list(JOBS)).items
