"""Every job kind really runs: the manifests under examples/, on pods that are processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.operated_cluster import EXAMPLES, OperatedCluster, has, kind
from tests.published import published

from corral.core import conditions
from corral.core.meta import labels_of
from corral.jobs.ray.operator import is_installed as ray_is_installed
from corral.kinds.kubernetes.core.kinds import PODS
from corral.node.images import Catalog

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[OperatedCluster]:
    started = OperatedCluster(tmp_path / "state")
    await started.start()
    try:
        yield started
    finally:
        await started.stop()


async def test_pytorch_job_sums_over_three_pods(cluster: OperatedCluster) -> None:
    await cluster.apply("pytorchjob.yaml")
    done = await cluster.wait(kind("kubeflow.org", "PyTorchJob"), "pytorch-sum", has("Succeeded", "Failed"))
    assert conditions.is_true(done, "Succeeded")
    lines = await cluster.output()
    assert "rank 0 of 3: sum 6" in lines


async def test_tf_job_parses_its_configuration(cluster: OperatedCluster) -> None:
    await cluster.apply("tfjob.yaml")
    done = await cluster.wait(kind("kubeflow.org", "TFJob"), "tf-roll-call", has("Succeeded", "Failed"))
    assert conditions.is_true(done, "Succeeded")
    assert "present: worker 0, worker 1" in await cluster.output()


@pytest.mark.parametrize(
    ("example", "name", "line"),
    [
        ("xgboostjob.yaml", "xgboost-roll-call", "I am 0 of 3, following xgboost-roll-call-master-0"),
        ("jaxjob.yaml", "jax-roll-call", "I am 2 of 3, following jax-roll-call-worker-0"),
        ("paddlejob.yaml", "paddle-roll-call", "I am paddle-roll-call of 3, following paddle-roll-call-worker-0:36543"),
    ],
    ids=["xgboost", "jax", "paddle"],
)
async def test_replicas_know_who_they_are(cluster: OperatedCluster, example: str, name: str, line: str) -> None:
    await cluster.apply(example)
    body = yaml.safe_load((EXAMPLES / example).read_text())
    done = await cluster.wait(kind("kubeflow.org", body["kind"]), name, has("Succeeded", "Failed"))
    assert conditions.is_true(done, "Succeeded")
    assert line in await cluster.output()


async def test_mpi_job_reaches_its_workers(cluster: OperatedCluster) -> None:
    await cluster.apply("mpijob.yaml")
    done = await cluster.wait(kind("kubeflow.org", "MPIJob"), "mpi-hello", has("Succeeded", "Failed"))
    assert conditions.is_true(done, "Succeeded")
    lines = await cluster.output(**{"training.kubeflow.org/job-role": "launcher"})
    assert lines == ["hello from worker mpi-hello-worker-0", "hello from worker mpi-hello-worker-1"]


async def test_job_set_waits_restarts_and_completes(cluster: OperatedCluster) -> None:
    await cluster.apply("jobset.yaml")
    done = await cluster.wait(kind("jobset.x-k8s.io", "JobSet"), "prepare-then-train", has("Completed", "Failed"))
    assert conditions.is_true(done, "Completed")
    assert done["status"]["restarts"] == 1


async def test_train_job_runs_on_two_nodes(cluster: OperatedCluster) -> None:
    await cluster.apply("training-runtimes.yaml")
    await cluster.apply("trainjob.yaml")
    done = await cluster.wait(kind("trainer.kubeflow.org", "TrainJob"), "train-two-nodes", has("Complete", "Failed"))
    assert conditions.is_true(done, "Complete")
    master = "train-two-nodes-node-0-0.train-two-nodes"
    assert await cluster.output() == [f"node {rank} of 2, 1 processes, master {master}" for rank in (0, 1)]


async def test_the_published_train_job_runs_as_it_is(tmp_path: Path) -> None:
    # Its image has no command and nothing stands for it here, so each pod waits for a while and succeeds.
    quick = tmp_path / "images.toml"
    quick.write_text("[defaults]\nsimulate_seconds = 1\n")
    cluster = OperatedCluster(tmp_path / "state", catalog=Catalog.load(quick))
    await cluster.start()
    try:
        await cluster.client.create(
            kind("trainer.kubeflow.org", "ClusterTrainingRuntime"), published("cluster-training-runtime")
        )
        resource = kind("trainer.kubeflow.org", "TrainJob")
        await cluster.client.create(resource, published("trainjob"))
        done = await cluster.wait(resource, "pytorch-multikueue", has("Complete", "Failed"))
        assert conditions.is_true(done, "Complete")
        pods = (await cluster.client.list(PODS, "default")).items
        assert [pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in pods] == ["1", "1"]
    finally:
        await cluster.stop()


async def test_ray_job_runs_its_entry_point(cluster: OperatedCluster) -> None:
    await cluster.apply("rayjob.yaml")
    resource = kind("ray.io", "RayJob")
    patience = 500.0 if ray_is_installed() else 120.0  # a real cluster takes its time to come up
    done = await cluster.wait(
        resource,
        "ray-hello",
        lambda obj: (obj.get("status") or {}).get("jobStatus") in ("SUCCEEDED", "FAILED"),
        patience,
    )
    assert done["status"]["jobStatus"] == "SUCCEEDED"
    assert any("hello from the entry point" in line for line in await cluster.output(**{"job-name": "ray-hello"}))


async def test_app_wrapper_runs_what_it_wraps(cluster: OperatedCluster) -> None:
    await cluster.apply("appwrapper.yaml")
    resource = kind("workload.codeflare.dev", "AppWrapper")
    done = await cluster.wait(
        resource, "wrapped-set", lambda obj: (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    )
    assert done["status"]["phase"] == "Succeeded"
    assert "wrapped-set-workers-0-0: hello from the wrapper" in await cluster.output()


async def test_leader_worker_set_becomes_available(cluster: OperatedCluster) -> None:
    await cluster.apply("leaderworkerset.yaml")
    await cluster.wait(kind("leaderworkerset.x-k8s.io", "LeaderWorkerSet"), "groups", has("Available"))
    assert "worker 2 of 3 follows groups-1.groups.default" in await cluster.output()


async def test_deployment_and_stateful_set_become_ready(cluster: OperatedCluster) -> None:
    await cluster.apply("deployment.yaml")
    await cluster.apply("statefulset.yaml")
    await cluster.wait(
        kind("apps", "Deployment"), "web", lambda obj: (obj.get("status") or {}).get("availableReplicas") == 2
    )
    await cluster.wait(
        kind("apps", "StatefulSet"), "member", lambda obj: (obj.get("status") or {}).get("readyReplicas") == 3
    )
    slices = (await cluster.client.list(kind("discovery.k8s.io", "EndpointSlice"), "default")).items
    web = next(piece for piece in slices if labels_of(piece).get("kubernetes.io/service-name") == "web")
    assert len({endpoint["addresses"][0] for endpoint in web["endpoints"]}) == 2


async def test_mpi_train_job_reaches_its_nodes(cluster: OperatedCluster) -> None:
    await cluster.apply("training-runtimes.yaml")
    script = 'for host in $(cut -d" " -f1 /etc/mpi/hostfile | tail -n +2); do $OMPI_MCA_plm_rsh_agent $host "echo on $host" || exit 1; done'
    body = {
        "metadata": {"name": "mpi-train", "namespace": "default"},
        "spec": {
            "runtimeRef": {"name": "deepspeed-distributed"},
            "trainer": {"numNodes": 3, "command": ["sh", "-c"], "args": [script]},
        },
    }
    resource = kind("trainer.kubeflow.org", "TrainJob")
    await cluster.client.create(resource, body)
    done = await cluster.wait(resource, "mpi-train", has("Complete", "Failed"))
    assert conditions.is_true(done, "Complete")
    lines = await cluster.output(**{"jobset.sigs.k8s.io/replicatedjob-name": "launcher"})
    assert lines == [f"on mpi-train-node-0-{index}.mpi-train" for index in (0, 1)]
