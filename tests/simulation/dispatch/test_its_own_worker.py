"""A manager that is its own worker, beside others: what it sends itself runs there, comes back and is cleaned up."""

from __future__ import annotations

import asyncio

import pytest

from corral.client.kubeconfig import Access
from corral.client.protocol import Client
from corral.core import conditions
from corral.core.meta import Obj, labels_of, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.decide.dispatch.model import ALL_AT_ONCE, LATE_BINDING
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.simulated import SimulatedKind
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from corral.node.node import NodeSpec
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import kubeconfig_data, make_queue
from corral.simulate.jobs import simulated_kinds

CAPACITY = {"cpu": "8", "memory": "64Gi", "pods": "110"}


class Pair:
    """A manager with nodes of its own, and one other worker."""

    def __init__(self, dispatcher: str) -> None:
        configuration = {
            "integrations": {"frameworks": ["pod", *(kind.framework for kind in simulated_kinds())]},
            "multiKueue": {"dispatcherName": dispatcher, "gcInterval": "15s", "workerLostTimeout": "60s"},
        }
        nodes = [NodeSpec("node1", CAPACITY)]
        self.manager = SimulatedCluster("manager", nodes=nodes, configuration=configuration, connect=self._connect)
        self.worker = SimulatedCluster("worker", nodes=nodes)

    def _connect(self, access: Access) -> Client:
        return (self.manager if access.server == "https://manager" else self.worker).client

    async def start(self, own_cpu: str, worker_cpu: str) -> None:
        for cluster in (self.worker, self.manager):
            await cluster.start()
        client = self.manager.client
        for name in ("manager", "worker"):
            metadata = {"name": f"{name}-secret", "namespace": "kueue-system"}
            await client.create(SECRETS, {"metadata": metadata, "data": {"kubeconfig": kubeconfig_data(name)}})
            source = {"kubeConfig": {"location": f"{name}-secret", "locationType": "Secret"}}
            described: Obj = {"metadata": {"name": name}, "spec": {"clusterSource": source}}
            if name == "manager":
                described["metadata"]["annotations"] = {"corral.dev/itself": "-here"}
            await client.create(MULTI_KUEUE_CLUSTERS, described)
        config = {"metadata": {"name": "multikueue"}, "spec": {"clusters": ["manager", "worker"]}}
        await client.create(MULTI_KUEUE_CONFIGS, config)
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "multikueue"}
        spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
        await client.create(ADMISSION_CHECKS, {"metadata": {"name": "multikueue"}, "spec": spec})
        await make_queue(self.manager, "16", checks=["multikueue"])
        await make_queue(self.worker, worker_cpu)
        await self._make_own_queue(own_cpu)
        await asyncio.sleep(1)

    async def _make_own_queue(self, cpu: str) -> None:
        client = self.manager.client
        await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "own"}, "spec": {}})
        resources = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "64Gi"}]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "own", "resources": resources}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        await client.create(CLUSTER_QUEUES, {"metadata": {"name": "own"}, "spec": spec})
        queue = {"metadata": {"name": "user-queue-here", "namespace": "default"}, "spec": {"clusterQueue": "own"}}
        await client.create(LOCAL_QUEUES, queue)


def on_pair(test: object, dispatcher: str, own_cpu: str = "8", worker_cpu: str = "8") -> None:
    async def main() -> None:
        pair = Pair(dispatcher)
        await pair.start(own_cpu, worker_cpu)
        try:
            await test(pair)  # type: ignore[operator]
        finally:
            await pair.manager.stop()
            await pair.worker.stop()

    run_virtual(main)


async def all_of(cluster: SimulatedCluster, resource: Resource) -> dict[str, Obj]:
    return {name_of(obj): obj for obj in (await cluster.client.list(resource)).items}


@pytest.mark.parametrize("kind", simulated_kinds(), ids=lambda kind: kind.resource.kind)
@pytest.mark.parametrize("dispatcher", [ALL_AT_ONCE, LATE_BINDING])
def test_a_job_only_the_manager_has_room_for_runs_there_and_leaves_nothing(
    dispatcher: str, kind: SimulatedKind
) -> None:
    async def check(pair: Pair) -> None:
        await pair.manager.client.create(kind.resource, kind.make("a", 4, 10))
        await asyncio.sleep(5)
        workloads = await all_of(pair.manager, WORKLOADS)
        (mine,) = (held for name, held in workloads.items() if not name.endswith("-here"))
        assert status_of(mine)["clusterName"] == "manager"
        assert set(workloads) == {name_of(mine), f"{name_of(mine)}-here"}
        assert spec_of(workloads[f"{name_of(mine)}-here"])["queueName"] == "user-queue-here"
        jobs = await all_of(pair.manager, kind.resource)
        assert set(jobs) == {"a", "a-here"}
        assert labels_of(jobs["a-here"])["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
        assert [status_of(pod)["phase"] for pod in (await all_of(pair.manager, PODS)).values()] == ["Running"]
        assert await all_of(pair.worker, WORKLOADS) == {}
        await asyncio.sleep(60)
        jobs = await all_of(pair.manager, kind.resource)
        assert (set(jobs), conditions.is_true(jobs["a"], kind.done)) == ({"a"}, True)
        assert set(await all_of(pair.manager, WORKLOADS)) == {name_of(mine)}

    on_pair(check, dispatcher, worker_cpu="2")


@pytest.mark.parametrize("dispatcher", [ALL_AT_ONCE, LATE_BINDING])
def test_jobs_are_shared_with_the_other_workers(dispatcher: str) -> None:
    async def check(pair: Pair) -> None:
        for number in range(8):
            await pair.manager.client.create(JOBS, simulated_kinds()[0].make(f"j{number}", 2, 20))
        await asyncio.sleep(10)
        placed = [status_of(held).get("clusterName") for held in (await all_of(pair.manager, WORKLOADS)).values()]
        assert sorted(filter(None, placed)) == ["manager"] * 4 + ["worker"] * 4
        await asyncio.sleep(60)
        jobs = await all_of(pair.manager, JOBS)
        assert set(jobs) == {f"j{number}" for number in range(8)}
        assert all(conditions.is_true(job, "Complete") for job in jobs.values())

    on_pair(check, dispatcher)


def test_pods_go_to_other_workers_only() -> None:
    async def check(pair: Pair) -> None:
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
        metadata = {"name": "p", "namespace": "default", "labels": labels}
        await pair.manager.client.create(PODS, {"metadata": metadata, "spec": {"containers": [container]}})
        await asyncio.sleep(10)
        (workload,) = (await all_of(pair.manager, WORKLOADS)).values()
        assert status_of(workload)["clusterName"] == "worker"
        assert set(await all_of(pair.worker, PODS)) == {"p"}

    on_pair(check, ALL_AT_ONCE)


def test_deleting_the_job_stops_what_runs_for_it() -> None:
    async def check(pair: Pair) -> None:
        await pair.manager.client.create(JOBS, simulated_kinds()[0].make("a", 4, 100_000))
        await asyncio.sleep(5)
        assert "a-here" in await all_of(pair.manager, JOBS)
        await pair.manager.client.delete(JOBS, "a", "default", propagation="Background")
        await asyncio.sleep(30)
        for resource in (JOBS, WORKLOADS, PODS):
            assert await all_of(pair.manager, resource) == {}

    on_pair(check, ALL_AT_ONCE, worker_cpu="2")
