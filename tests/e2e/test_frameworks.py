"""Real frameworks on pods that are processes: Open MPI, torch and Ray.

Open MPI is used where `mpirun` is on the path. Torch and Ray are looked for in the interpreter CORRAL_FRAMEWORKS_PYTHON, or
.venv-frameworks in the source tree (`make frameworks`), or the one these tests run on.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from tests.e2e.operated_cluster import EXAMPLES, OperatedCluster, has, kind

from corral.client.wire import Wire
from corral.core import conditions
from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.operators import OperatorSettings
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.node.images import Catalog

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ROOT / ".venv-frameworks/bin/python"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def interpreter() -> str:
    told = os.environ.get("CORRAL_FRAMEWORKS_PYTHON")
    return told or (str(FRAMEWORKS) if FRAMEWORKS.exists() else sys.executable)


@cache
def can_import(module: str) -> bool:
    found = subprocess.run([interpreter(), "-c", f"import {module}"], capture_output=True, check=False)
    return found.returncode == 0


needs_mpirun = pytest.mark.skipif(which("mpirun") is None, reason="Open MPI's mpirun is not installed")


@pytest.fixture
def needs_torch() -> None:
    if not can_import("torch"):
        pytest.skip("torch is not installed (make frameworks, or CORRAL_FRAMEWORKS_PYTHON)")


@pytest.fixture
def needs_ray() -> None:
    if not can_import("ray"):
        pytest.skip("ray is not installed (make frameworks, or CORRAL_FRAMEWORKS_PYTHON)")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[OperatedCluster]:
    """A cluster whose framework images are the interpreter that has them."""
    python = interpreter()
    folder = str(Path(python).parent)
    catalog = tmp_path / "images.toml"
    catalog.write_text(
        f"""
[[image]]
match = ["pytorch/*", "rayproject/*"]
cmd = ["bash"]
env = {{ PATH = "{folder}:{os.environ["PATH"]}" }}
programs = {{ python = "{python}", python3 = "{python}", torchrun = "{folder}/torchrun" }}
"""
    )
    settings = OperatorSettings(options={"ray": can_import("ray")})
    started = OperatedCluster(tmp_path / "state", "127.81.0.0/16", Catalog.load(catalog), settings)
    await started.start()
    try:
        yield started
    finally:
        await started.stop()


# Open MPI


def mpi_job(command: str, **spec: Any) -> Obj:
    def pod(name: str, **more: Any) -> Obj:
        return {"template": {"spec": {"containers": [{"name": name, "image": "mpioperator/mpi-pi:openmpi", **more}]}}}

    launcher = pod("launcher", command=["sh", "-c", command])
    specs = {"Launcher": launcher, "Worker": {"replicas": 2, **pod("worker")}}
    body = {"slotsPerWorker": 2, "runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": specs, **spec}
    return {"metadata": {"name": "mpi", "namespace": "default"}, "spec": body}


RANKS = (
    "mpirun --allow-run-as-root -n 4 sh -c 'echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)'"
)


@needs_mpirun
async def test_mpirun_starts_its_ranks_on_the_workers(cluster: OperatedCluster) -> None:
    resource = kind("kubeflow.org", "MPIJob")
    await cluster.client.create(resource, mpi_job(RANKS))
    done = await cluster.wait(resource, "mpi", has("Succeeded", "Failed"), 240)
    lines = await cluster.output(**{"training.kubeflow.org/job-role": "launcher"})
    assert conditions.is_true(done, "Succeeded"), lines
    assert lines == [f"rank {rank} of 4 on mpi-worker-{rank // 2}" for rank in range(4)]


@needs_mpirun
async def test_mpirun_fails_with_the_program_it_runs(cluster: OperatedCluster) -> None:
    resource = kind("kubeflow.org", "MPIJob")
    body = mpi_job("mpirun --allow-run-as-root -n 4 sh -c 'exit $OMPI_COMM_WORLD_RANK'")
    body["spec"]["runPolicy"]["backoffLimit"] = 0
    await cluster.client.create(resource, body)
    done = await cluster.wait(resource, "mpi", has("Succeeded", "Failed"), 240)
    failed = conditions.find(done, "Failed")
    assert failed is not None
    assert failed["reason"].startswith("BackoffLimitExceeded")


@needs_mpirun
async def test_mpirun_of_a_v1_job(cluster: OperatedCluster) -> None:
    resource = kind("kubeflow.org", "MPIJob").at("v1")
    body = mpi_job(RANKS)
    for replica in body["spec"]["mpiReplicaSpecs"].values():
        replica["template"]["spec"]["containers"][0]["name"] = "mpi"
    await cluster.client.create(resource, body)
    done = await cluster.wait(resource, "mpi", has("Succeeded", "Failed"), 240)
    lines = await cluster.output(**{"training.kubeflow.org/replica-type": "launcher"})
    assert conditions.is_true(done, "Succeeded"), lines
    assert lines == [f"rank {rank} of 4 on mpi-worker-{rank // 2}" for rank in range(4)]


@needs_mpirun
async def test_mpirun_of_a_train_job(cluster: OperatedCluster) -> None:
    await cluster.apply("training-runtimes.yaml")
    resource = kind("trainer.kubeflow.org", "TrainJob")
    trainer = {"numNodes": 2, "numProcPerNode": 2, "command": ["sh", "-c"], "args": [RANKS]}
    body = {
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"runtimeRef": {"name": "deepspeed-distributed"}, "trainer": trainer},
    }
    await cluster.client.create(resource, body)
    done = await cluster.wait(resource, "t", has("Complete", "Failed"), 240)
    lines = await cluster.output(**{"jobset.sigs.k8s.io/replicatedjob-name": "launcher"})
    assert conditions.is_true(done, "Complete"), lines
    hosts = ["t-launcher-0-0", "t-launcher-0-0", "t-node-0-0", "t-node-0-0"]
    assert lines == [f"rank {rank} of 4 on {host}" for rank, host in enumerate(hosts)]


# Torch

REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(value)
print(f"{dist.get_backend()} rank {dist.get_rank()} of {dist.get_world_size()}: sum {value.item()}", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.usefixtures("needs_torch")
async def test_torch_reduces_over_a_pytorch_job(cluster: OperatedCluster) -> None:
    container = {"name": "pytorch", "image": "pytorch/pytorch:2.7.1", "command": ["python3", "-c", REDUCE]}
    replica = {"restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    specs = {"Master": {"replicas": 1, **replica}, "Worker": {"replicas": 2, **replica}}
    resource = kind("kubeflow.org", "PyTorchJob")
    body = {"metadata": {"name": "reduce", "namespace": "default"}, "spec": {"pytorchReplicaSpecs": specs}}
    await cluster.client.create(resource, body)
    done = await cluster.wait(resource, "reduce", has("Succeeded", "Failed"), 240)
    lines = await cluster.output()
    assert conditions.is_true(done, "Succeeded"), lines
    assert "gloo rank 0 of 3: sum 6" in lines


@pytest.mark.usefixtures("needs_torch")
async def test_example_uses_torch(cluster: OperatedCluster) -> None:
    assert "dist.all_reduce" in (EXAMPLES / "pytorchjob.yaml").read_text()
    await cluster.apply("pytorchjob.yaml")
    done = await cluster.wait(kind("kubeflow.org", "PyTorchJob"), "pytorch-sum", has("Succeeded", "Failed"), 240)
    assert conditions.is_true(done, "Succeeded")
    assert "rank 0 of 3: sum 6" in await cluster.output()


@pytest.mark.usefixtures("needs_torch")
async def test_torchrun_reduces_over_a_train_job(cluster: OperatedCluster) -> None:
    await cluster.apply("training-runtimes.yaml")
    script = f"cat > train.py <<'END'\n{REDUCE}\nEND\nexec torchrun train.py"
    trainer = {"numNodes": 2, "numProcPerNode": 2, "command": ["bash", "-c", script]}
    body = {
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer},
    }
    resource = kind("trainer.kubeflow.org", "TrainJob")
    await cluster.client.create(resource, body)
    done = await cluster.wait(resource, "t", has("Complete", "Failed"), 300)
    lines = await cluster.output()
    assert conditions.is_true(done, "Complete"), lines
    assert [line for line in lines if line.startswith("gloo")] == [
        f"gloo rank {rank} of 4: sum 10" for rank in range(4)
    ]


# Ray

COUNT = """
import ray
ray.init()
nodes = [node for node in ray.nodes() if node["Alive"]]
answer = ray.get([ray.remote(lambda x: x * x).remote(n) for n in range(4)])
print(f"ray saw {len(nodes)} nodes and computed {answer}")
"""


def ray_cluster_spec() -> Obj:
    def pod(name: str) -> Obj:
        resources = {"requests": {"cpu": "500m", "memory": "256Mi"}}
        return {"spec": {"containers": [{"name": name, "image": "rayproject/ray:2.50.0", "resources": resources}]}}

    worker = {"groupName": "small", "replicas": 1, "rayStartParams": {"num-cpus": "2"}, "template": pod("ray-worker")}
    head = {"rayStartParams": {"num-cpus": "2"}, "template": pod("ray-head")}
    return {"headGroupSpec": head, "workerGroupSpecs": [worker]}


@pytest.mark.usefixtures("needs_ray")
@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode"])
async def test_ray_job_runs_on_its_cluster(cluster: OperatedCluster, mode: str) -> None:
    resource = kind("ray.io", "RayJob")
    code = base64.b64encode(COUNT.encode()).decode()
    spec = {
        "entrypoint": f"python3 -c \"exec(__import__('base64').b64decode('{code}'))\"",
        "submissionMode": mode,
        "shutdownAfterJobFinishes": False,
        "rayClusterSpec": ray_cluster_spec(),
    }
    await cluster.client.create(resource, {"metadata": {"name": "r", "namespace": "default"}, "spec": spec})
    ended = ("Complete", "Failed")
    done = await cluster.wait(
        resource, "r", lambda obj: (obj.get("status") or {}).get("jobDeploymentStatus") in ended, 380
    )
    status = done["status"]
    assert (status["jobStatus"], status["jobDeploymentStatus"]) == ("SUCCEEDED", "Complete"), status.get("message")
    if mode == "K8sJobMode":
        lines = await cluster.output(**{"job-name": "r"})
        assert any("ray saw 2 nodes and computed [0, 1, 4, 9]" in line for line in lines)
    else:
        assert (await cluster.client.list(JOBS, "default")).items == []
    assert done["status"]["rayJobInfo"]["endTime"]


HELLO = """
from ray import serve

@serve.deployment
class Hello:
    def __call__(self, request):
        return "hello from serve"

app = Hello.bind()
"""
SERVE = """
http_options: {host: 0.0.0.0, port: 8000}
applications:
  - {name: hello, import_path: hello:app, route_prefix: /}
"""


@pytest.mark.usefixtures("needs_ray")
async def test_ray_service_serves_its_application(cluster: OperatedCluster) -> None:
    program = {"metadata": {"name": "program", "namespace": "default"}, "data": {"hello.py": HELLO}}
    await cluster.client.create(CONFIG_MAPS, program)
    spec = ray_cluster_spec()
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        pod["volumes"] = [{"name": "program", "configMap": {"name": "program"}}]
        pod["containers"][0] |= {
            "env": [{"name": "PYTHONPATH", "value": "/etc/program"}],
            "volumeMounts": [{"name": "program", "mountPath": "/etc/program"}],
        }
    body = {
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"serveConfigV2": SERVE, "rayClusterConfig": spec},
    }
    resource = kind("ray.io", "RayService")
    await cluster.client.create(resource, body)
    ready = await cluster.wait(resource, "s", has("Ready"), 300)
    active = ready["status"]["activeServiceStatus"]
    assert active["applicationStatuses"]["hello"]["status"] == "RUNNING"
    address = active["rayClusterStatus"]["head"]["podIP"]
    wire = Wire(f"http://{address}:8000", None)
    try:
        async with wire.request("GET", "/", {}) as answer:
            assert (answer.status, await answer.read()) == (200, b"hello from serve")
    finally:
        wire.close()
