"""A simulated fleet: a manager and workers in one process on virtual time, with links between them that can fail."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import yaml

from corral.client import kubeconfig
from corral.client.kubeconfig import Access
from corral.client.protocol import Client
from corral.core.errors import ConnectionFailed
from corral.core.meta import Obj
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    RESOURCE_FLAVORS,
)
from corral.node.node import NodeSpec
from corral.runtime.virtual import settle
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.link import LinkClient, LinkState

CONFIG = CHECK = "multikueue"


class SimulatedFleet:
    """A manager and its workers. Use as an async context; `link(name)` is the way from the manager to a worker."""

    def __init__(
        self,
        workers: Sequence[str] = ("worker1", "worker2"),
        *,
        seed: int = 0,
        configuration: Obj | None = None,
        worker_configuration: Obj | None = None,
        cpu: str = "8",
        skews: dict[str, float] | None = None,
        latency: Callable[[], float] | None = None,
    ) -> None:
        capacity = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        self.links = {name: LinkState(latency=latency) for name in workers}
        self.manager = SimulatedCluster("manager", seed=seed, configuration=configuration, connect=self._connect)
        self.workers = {
            name: SimulatedCluster(
                name,
                seed=seed,
                nodes=[NodeSpec(f"{name}-node1", capacity)],
                configuration=worker_configuration,
                skew=(skews or {}).get(name, 0.0),
            )
            for name in workers
        }
        self.down: set[str] = set()

    def _connect(self, access: Access) -> Client:
        """The manager's client of a worker; every call goes over the link."""
        name = access.server.removeprefix("https://")

        def target() -> Client:
            if name not in self.workers or name in self.down:
                raise ConnectionFailed(f"cannot reach {name}: connection refused")
            return self.workers[name].client

        return LinkClient(target, self.links[name], self.manager.clock, name)

    async def __aenter__(self) -> Self:
        for cluster in (*self.workers.values(), self.manager):
            await cluster.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.manager.stop()
        for name, cluster in self.workers.items():
            if name not in self.down:
                await cluster.stop()

    @property
    def clusters(self) -> list[SimulatedCluster]:
        return [self.manager, *self.workers.values()]

    async def introduce(self) -> None:
        """Give the manager a Secret and a MultiKueueCluster for every worker, a config and a check."""
        for name in self.workers:
            await self.introduce_worker(name)
        await self.introduce_config(tuple(self.workers))

    async def introduce_config(self, workers: Sequence[str]) -> None:
        """A config of these workers, and the check that uses it."""
        client = self.manager.client
        await client.create(MULTI_KUEUE_CONFIGS, {"metadata": {"name": CONFIG}, "spec": {"clusters": list(workers)}})
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": CONFIG}
        spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
        await client.create(ADMISSION_CHECKS, {"metadata": {"name": CHECK}, "spec": spec})

    async def introduce_worker(self, name: str, token: str = "token") -> None:
        client = self.manager.client
        secret: Obj = {
            "metadata": {"name": f"{name}-secret", "namespace": "kueue-system"},
            "data": {"kubeconfig": kubeconfig_data(name, token)},
        }
        await client.create(SECRETS, secret)
        source = {"kubeConfig": {"location": f"{name}-secret", "locationType": "Secret"}}
        await client.create(MULTI_KUEUE_CLUSTERS, {"metadata": {"name": name}, "spec": {"clusterSource": source}})

    async def set_up_queues(
        self, *, manager_cpu: str = "16", worker_cpu: str = "8", namespace: str = "default"
    ) -> None:
        """The same queue on every cluster; the manager's dispatches."""
        await make_queue(self.manager, manager_cpu, namespace, checks=[CHECK])
        for worker in self.workers.values():
            await make_queue(worker, worker_cpu, namespace)

    async def settle(self) -> None:
        """Let everything run that can run without time passing."""
        await settle([c.manager for c in self.clusters if c.name not in self.down])


def kubeconfig_data(name: str, token: str = "token") -> str:
    """The base64 kubeconfig a simulated worker is reached with."""
    document = kubeconfig.document_for(name, f"https://{name}", b"", token=token)
    del document["clusters"][0]["cluster"]["certificate-authority-data"]
    return base64.b64encode(yaml.safe_dump(document).encode()).decode()


async def make_queue(
    cluster: SimulatedCluster, cpu: str, namespace: str = "default", *, checks: Sequence[str] = ()
) -> None:
    """A flavor, a ClusterQueue and a LocalQueue, named as the documentation names them."""
    resources = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "64Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default-flavor", "resources": resources}]}
    spec: Obj = {"namespaceSelector": {}, "resourceGroups": [group]}
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    client = cluster.client
    await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default-flavor"}, "spec": {}})
    await client.create(CLUSTER_QUEUES, {"metadata": {"name": "cluster-queue"}, "spec": spec})
    queue = {"metadata": {"name": "user-queue", "namespace": namespace}, "spec": {"clusterQueue": "cluster-queue"}}
    await client.create(LOCAL_QUEUES, queue)
