"""Every job kind in a queue: suspended until admitted, evicted and resumed with other flavors, finished."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.core import conditions
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.framework.registry import adapter, frameworks
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES
from corral.kinds.kueue import CLUSTER_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from corral.node.node import NodeSpec
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster

from .world import PODS, cluster_queue, condition, local_queue

POD: dict[str, Any] = {
    "metadata": {"annotations": {"corral.dev/run-seconds": "30"}},
    "spec": {"restartPolicy": "Never"},
}


def template(container: str, policy: str = "Never") -> Obj:
    entry = {"name": container, "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {**POD, "spec": {"restartPolicy": policy, "containers": [entry]}}


def replicas(field: str, container: str, policy: str = "Never", **counts: int) -> Obj:
    return {
        field: {
            name: {"replicas": count, "restartPolicy": policy, "template": template(container)}
            for name, count in counts.items()
        }
    }


def held(container: str) -> Obj:
    """A pod that stays until it is told to go."""
    entry = {"name": container, "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"annotations": {"corral.dev/run-seconds": "100000"}}, "spec": {"containers": [entry]}}


RAY_CLUSTER = {
    "headGroupSpec": {"rayStartParams": {}, "template": held("ray-head")},
    "workerGroupSpecs": [{"groupName": "small", "replicas": 1, "rayStartParams": {}, "template": held("ray-worker")}],
}
SUBMITTER = template("ray-job-submitter")
RUNTIME = {
    "metadata": {"name": "rt"},
    "spec": {
        "mlPolicy": {"numNodes": 2, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": template("node")},
                        },
                    }
                ]
            }
        },
    },
}
ENDLESS = ("ray.io/raycluster", "ray.io/rayservice")
"""Kinds that run until they are deleted."""

KINDS: dict[str, tuple[str, Obj]] = {
    "trainer.kubeflow.org/trainjob": ("trainer.kubeflow.org/v1alpha1", {"runtimeRef": {"name": "rt"}}),
    "ray.io/raycluster": ("ray.io/v1", RAY_CLUSTER),
    "ray.io/rayjob": (
        "ray.io/v1",
        {
            "entrypoint": "sleep 30",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": RAY_CLUSTER,
            "submitterPodTemplate": SUBMITTER,
        },
    ),
    "ray.io/rayservice": ("ray.io/v1", {"serveConfigV2": "{}", "rayClusterConfig": RAY_CLUSTER}),
    "batch/job": ("batch/v1", {"template": template("c"), "parallelism": 2, "completions": 2}),
    "jobset.x-k8s.io/jobset": (
        "jobset.x-k8s.io/v1alpha2",
        {
            "replicatedJobs": [
                {"name": "leader", "template": {"spec": {"template": template("c")}}},
                {"name": "workers", "replicas": 2, "template": {"spec": {"template": template("c")}}},
            ]
        },
    ),
    "kubeflow.org/pytorchjob": (
        "kubeflow.org/v1",
        replicas("pytorchReplicaSpecs", "pytorch", Master=1, Worker=1),
    ),
    "kubeflow.org/tfjob": ("kubeflow.org/v1", replicas("tfReplicaSpecs", "tensorflow", Chief=1, Worker=1)),
    "kubeflow.org/xgboostjob": ("kubeflow.org/v1", replicas("xgbReplicaSpecs", "xgboost", Master=1, Worker=1)),
    "kubeflow.org/paddlejob": ("kubeflow.org/v1", replicas("paddleReplicaSpecs", "paddle", Worker=2)),
    "kubeflow.org/jaxjob": ("kubeflow.org/v1", replicas("jaxReplicaSpecs", "jax", Worker=2)),
    "kubeflow.org/mpijob": ("kubeflow.org/v2beta1", replicas("mpiReplicaSpecs", "mpi", Launcher=1, Worker=1)),
    "workload.codeflare.dev/appwrapper": (
        "workload.codeflare.dev/v1beta2",
        {
            "components": [
                {
                    "template": {
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "metadata": {"name": "inner", "namespace": "default"},
                        "spec": {"template": template("c"), "parallelism": 2, "completions": 2},
                    }
                }
            ]
        },
    ),
}


async def selectors(cluster: SimulatedCluster) -> set[str]:
    """Pools the live pods are bound to."""
    pods = (await cluster.client.list(PODS)).items
    live = [pod for pod in pods if pod.get("status", {}).get("phase") in ("Pending", "Running")]
    return {(pod["spec"].get("nodeSelector") or {}).get("pool", "") for pod in live}


async def set_up(cluster: SimulatedCluster) -> None:
    for name in ("a", "b"):
        await cluster.client.create(
            RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": {"nodeLabels": {"pool": name}}}
        )
    for resource, obj in (cluster_queue(cpu="10", flavors=("a", "b")), local_queue()):
        await cluster.client.create(resource, obj)


async def swap_flavors(cluster: SimulatedCluster) -> None:
    """Drain the queue, move its quota from flavor a to flavor b, open it again."""
    await cluster.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "HoldAndDrain"}})
    await asyncio.sleep(40)
    quota = [{"name": "cpu", "nominalQuota": amount} for amount in ("0", "10")]
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "a", "resources": [quota[0]]}, {"name": "b", "resources": [quota[1]]}],
    }
    await cluster.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"resourceGroups": [group], "stopPolicy": "None"}})


async def scenario(framework: str) -> None:
    nodes = [
        NodeSpec(f"node-{pool}", {"cpu": "20", "memory": "64Gi", "pods": "50"}, {"pool": pool}, []) for pool in "ab"
    ]
    cluster = SimulatedCluster("kinds", nodes=nodes)
    await cluster.start()
    await set_up(cluster)
    await cluster.client.create(CLUSTER_TRAINING_RUNTIMES, RUNTIME)
    job_adapter = adapter(framework)
    resource: Resource = job_adapter.resource
    api_version, spec = KINDS[framework]
    job = {
        "apiVersion": api_version,
        "kind": resource.kind,
        "metadata": {"name": "j", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": spec,
    }
    created = await cluster.client.create(resource, job)
    assert job_adapter.is_suspended(created)
    await asyncio.sleep(10)
    assert await selectors(cluster) == {"a"}
    await swap_flavors(cluster)
    await asyncio.sleep(10)
    assert await selectors(cluster) == {"b"}, (await cluster.client.get(resource, "j", "default")).get("status")
    (workload,) = [
        found
        for found in (await cluster.client.list(WORKLOADS)).items
        if found["metadata"]["ownerReferences"][0]["kind"] == resource.kind
    ]
    assert conditions.is_true(workload, "PodsReady"), condition(workload, "PodsReady")
    if framework in ENDLESS:
        await cluster.stop()
        return
    await asyncio.sleep(120)
    (workload,) = (await cluster.client.list(WORKLOADS)).items
    finished = condition(workload, "Finished")
    assert finished is not None
    assert finished[:2] == ("True", "Succeeded")
    await cluster.stop()


@pytest.mark.parametrize("framework", KINDS)
def test_queued_evicted_resumed_finished(framework: str) -> None:
    run_virtual(lambda: scenario(framework))


def test_every_kind_has_a_row() -> None:
    assert {*KINDS, "pod"} == set(
        frameworks()
    )  # pods have tests of their own: they cannot be stopped and started again
