"""Jobs whose scripts really run: the two AI jobs users start with, and a real all-reduce when torch is there."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.process_cluster import PATIENCE_S, ProcessCluster, process_cluster

from corral.core.meta import Obj
from corral.core.streams import LogOptions
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import NAMESPACES, PODS, SERVICES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
MANIFEST = Path(__file__).parent.parent / "data" / "node" / "ai-jobs.yaml"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ProcessCluster]:
    async with process_cluster(tmp_path / "state") as started:
        yield started


async def until_complete(cluster: ProcessCluster, name: str, namespace: str) -> Obj:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            job = await cluster.client.get(JOBS, name, namespace)
            if (job.get("status") or {}).get("completionTime"):
                return job
            await asyncio.sleep(0.05)


async def first_pod(cluster: ProcessCluster, job: str, namespace: str) -> Obj:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            pods = (await cluster.client.list(PODS, namespace, labels=f"job-name={job}")).items
            for pod in pods:
                if (pod.get("status") or {}).get("phase") not in (None, "Pending"):
                    return pod
            await asyncio.sleep(0.02)


async def test_ai_jobs_run_their_scripts_and_logs_follow(cluster: ProcessCluster) -> None:
    await cluster.client.create(NAMESPACES, {"metadata": {"name": "compute-jobs"}})
    # Faster than a person would watch, and without the queue in front.
    text = MANIFEST.read_text().replace("suspend: true", "suspend: false")
    text = text.replace("sleep 10", "sleep 2").replace("sleep 5", "sleep 1")
    for manifest in yaml.safe_load_all(text):
        await cluster.client.create(JOBS, manifest)
    pod = await first_pod(cluster, "mock-workload", "compute-jobs")
    loop = asyncio.get_running_loop()
    lines: list[tuple[str, float]] = []
    async for part in cluster.runtime.logs(pod, "", LogOptions(follow=True)):
        lines += [(line, loop.time()) for line in part.decode().splitlines()]
    epochs = [(line, at) for line, at in lines if line.startswith("Epoch")]
    assert [line[:9] for line, _ in epochs] == ["Epoch 1/3", "Epoch 2/3", "Epoch 3/3"]
    assert epochs[2][1] - epochs[0][1] > 0.3, "epochs are shown as they are printed"
    assert lines[-1][0] == "Processing completed successfully!"
    for name in ("mock-workload", "model-evaluation"):
        job = await until_complete(cluster, name, "compute-jobs")
        assert job["status"]["succeeded"] == 3


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
async def test_torch_gloo_all_reduce_over_two_pods(cluster: ProcessCluster) -> None:
    script = (
        "import torch, torch.distributed as d\nd.init_process_group('gloo')\n"
        "t = torch.ones(4) * (d.get_rank() + 1)\nd.all_reduce(t)\nprint('sum', t.tolist())"
    )
    service = {"clusterIP": "None", "selector": {"rank": "0"}, "ports": [{"port": 23456}]}
    await cluster.client.create(
        SERVICES, {"metadata": {"name": "pt-master-0", "namespace": "default"}, "spec": service}
    )
    common = {"MASTER_ADDR": "pt-master-0", "MASTER_PORT": "23456", "WORLD_SIZE": "2"}
    for rank in ("0", "1"):
        env = [{"name": name, "value": value} for name, value in {**common, "RANK": rank}.items()]
        await cluster.run(f"pt-{rank}", ["python", "-c", script], env=env, labels={"rank": rank})
    for rank in ("0", "1"):
        await cluster.ended(f"pt-{rank}")
        assert "sum [3.0, 3.0, 3.0, 3.0]" in await cluster.log(f"pt-{rank}")
