"""Devices of one machine, several clusters on it: none is ever given twice, whoever dies meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.process_cluster import ProcessCluster
from tests.e2e.started import client, eventually, started

from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import NODES, PODS
from corral.node.machine.devices import Device
from corral.node.machine.gpus import NVIDIA, find_gpus
from corral.node.node import NodeSpec

pytestmark = pytest.mark.e2e

SHOW = ["sh", "-c", "echo gpus=$CUDA_VISIBLE_DEVICES; sleep 1000"]


def gpus(count: int) -> dict[str, Any]:
    return {"resources": {"limits": {NVIDIA: str(count)}}}


class Two:
    """Two clusters whose nodes both believe to have the machine's two GPUs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.devices = [Device(NVIDIA, str(n), f"test-{uuid.uuid4()}") for n in range(2)]
        self.one, self.other = self.cluster("one", "127.77.0.0/16"), self.cluster("other", "127.78.0.0/16")

    def cluster(self, name: str, network: str) -> ProcessCluster:
        node = NodeSpec(f"{name}-node", {"cpu": "64", "memory": "256Gi", "pods": "500", NVIDIA: "2"})
        return ProcessCluster(self.folder / name, [node], network, devices={node.name: self.devices})


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    both = Two(tmp_path)
    await both.one.start()
    await both.other.start()
    yield both
    await both.one.stop()
    await both.other.stop()


async def shown(cluster: ProcessCluster, name: str) -> str:
    await cluster.running(name)
    while not (text := await cluster.log(name)):  # noqa: ASYNC110  # nothing signals it
        await asyncio.sleep(0.02)
    return text.strip()


def waits_for_a_device(pod: Obj) -> bool:
    states = [entry["state"] for entry in pod["status"].get("containerStatuses") or []]
    return any("requested number of devices" in state.get("waiting", {}).get("message", "") for state in states)


async def test_a_device_that_one_cluster_has_given_out_is_waited_for_by_the_other(two: Two) -> None:
    await two.one.run("first", SHOW, **gpus(1))
    assert await shown(two.one, "first") == "gpus=0"
    await two.other.run("second", SHOW, **gpus(1))
    assert await shown(two.other, "second") == "gpus=1"
    await two.other.run("third", SHOW, **gpus(1))
    waiting = await two.other.until("third", waits_for_a_device)
    assert "0 is held by cluster one in" in waiting["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    await two.one.client.delete(PODS, "first", "default", grace=0)
    assert await shown(two.other, "third") == "gpus=0"


async def test_a_device_stays_its_pods_while_the_control_plane_is_away(two: Two) -> None:
    await two.one.run("first", SHOW, **gpus(2))
    assert await shown(two.one, "first") == "gpus=0,1"
    await two.one.crash()
    await two.other.run("second", SHOW, **gpus(1))
    await two.other.until("second", waits_for_a_device)
    two.one = two.cluster("one", "127.77.0.0/16")
    await two.one.start()
    await two.one.running("first")
    await two.one.client.delete(PODS, "first", "default", grace=0)
    assert await shown(two.other, "second") == "gpus=0"


async def test_devices_are_free_when_the_process_that_holds_them_is_killed(two: Two) -> None:
    await two.one.run("first", SHOW, restartPolicy="Never", **gpus(2))
    await shown(two.one, "first")
    os.kill(_supervisor(two.folder / "one"), signal.SIGKILL)
    await two.other.run("second", SHOW, **gpus(2))
    assert await shown(two.other, "second") == "gpus=0,1"


def _supervisor(state: Path) -> int:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"corral.node.process.supervisor" in words and str(state / "node").encode() in words:
                return int(folder.name)
    raise AssertionError("no supervisor")


async def test_containers_of_one_pod_share_no_device(two: Two) -> None:
    container = {"image": "busybox", "command": ["sh", "-c", "echo gpus=$CUDA_VISIBLE_DEVICES"], **gpus(1)}
    containers = [{**container, "name": name} for name in ("a", "b")] + [{**container, "name": "c", "resources": {}}]
    pod: Obj = {"metadata": {"name": "p", "namespace": "default"}}
    pod["spec"] = {"restartPolicy": "Never", "containers": containers}
    await two.one.client.create(PODS, pod)
    await two.one.ended("p")
    logs = [await two.one.log("p", container=name) for name in "abc"]
    assert logs == ["gpus=0\n", "gpus=1\n", "gpus=\n"]


def job(name: str, count: int) -> Obj:
    container = {"name": "main", "image": "busybox", "command": SHOW, **gpus(count)}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
        "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def test_two_jobs_on_two_clusters_of_one_machine_never_share_a_device(tmp_path: Path) -> None:
    with started(tmp_path / "state", "--workers", "2", "--gpu", f"{NVIDIA}=2") as state:
        manager = client(state)
        for name in ("first", "second"):
            manager.create(JOBS, job(name, 2))

        def programs() -> list[str]:
            pods = [pod for pod in manager.list(PODS, "default")["items"] if pod["status"].get("phase") == "Running"]
            logs = [b"".join(manager.lines(PODS.path("default", pod["metadata"]["name"], "log"))) for pod in pods]
            return [log.decode().strip() for log in logs] if len(pods) == 2 and all(logs) else []

        assert sorted(eventually(programs)) == _expected()


def _expected() -> list[str]:
    """Pretended devices have numbers over the whole fleet; where there are real ones, `--overcommit` lets both have them in turn."""
    if any(gpu.resource == NVIDIA for gpu in find_gpus()):
        pytest.skip("this machine has GPUs: what it has is tested below")
    return ["gpus=0,1", "gpus=2,3"]


def test_real_gpus_are_found_and_divided(tmp_path: Path) -> None:
    found = [gpu for gpu in find_gpus() if gpu.resource == NVIDIA]
    if not found:
        pytest.skip("this machine has no NVIDIA GPU")
    with started(tmp_path / "state", "--workers", "2") as state:
        counts = [
            int(node["status"]["capacity"].get(NVIDIA, "0"))
            for worker in ("corral-worker1", "corral-worker2")
            for node in client(state, worker).list(NODES)["items"]
        ]
        assert sum(counts) == len(found)
        manager = client(state)
        manager.create(JOBS, job("all", 1))

        def seen() -> str:
            (pod,) = manager.list(PODS, "default")["items"]
            return b"".join(manager.lines(PODS.path("default", pod["metadata"]["name"], "log"))).decode().strip()

        assert eventually(seen).removeprefix("gpus=") in {str(gpu.index) for gpu in found}
