"""No single value of any object ends a controller, keeps others from being reconciled, or makes a list unreadable."""

from __future__ import annotations

import asyncio

import pytest
from tests.security.hostile import Forge, everything, show, troubles, write

from corral.core.conditions import is_true
from corral.core.errors import ApiError
from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from corral.runtime.virtual import run_virtual, settle
from corral.simulate.cluster import SimulatedCluster

WRITTEN = 120
TOGETHER = 15
QUOTA = [{"name": "cpu", "nominalQuota": "100"}, {"name": "memory", "nominalQuota": "100Gi"}]
GROUP = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": QUOTA}]}
ROOMS = {
    "queueing": ("kueue.x-k8s.io", "scheduling.k8s.io", "autoscaling.x-k8s.io"),
    "placement": ("placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io", "multicluster.x-k8s.io"),
    "jobs": ("batch", "kubeflow.org", "jobset.x-k8s.io", "trainer.kubeflow.org", "ray.io", "workload.codeflare.dev"),
    "sets": ("", "apps", "leaderworkerset.x-k8s.io", "scheduling.volcano.sh", "scheduling.x-k8s.io", "policy"),
}


async def queues(cluster: SimulatedCluster) -> None:
    spec: Obj = {"namespaceSelector": {}, "resourceGroups": [GROUP]}
    await cluster.client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
    await cluster.client.create(CLUSTER_QUEUES, {"metadata": {"name": "queue"}, "spec": spec})
    metadata = {"name": "user-queue", "namespace": "default"}
    await cluster.client.create(LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": "queue"}})


async def healthy(cluster: SimulatedCluster) -> bool:
    """Whether a job that comes now is still queued, admitted, scheduled and run."""
    metadata = {"name": "healthy", "namespace": "well", "labels": {"kueue.x-k8s.io/queue-name": "own"}}
    container = {"name": "c", "image": "i", "command": ["true"], "resources": {"requests": {"cpu": "1m"}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    await cluster._ensure_namespace("well")
    place = {"name": "own", "namespace": "well"}
    await cluster.client.create(LOCAL_QUEUES, {"metadata": place, "spec": {"clusterQueue": "queue"}})
    await cluster.client.create(JOBS, {"metadata": metadata, "spec": spec})
    for _ in range(30):
        await asyncio.sleep(20.0)
        await settle([cluster.manager])
        if is_true(await cluster.client.get(JOBS, "healthy", "well"), "Complete"):
            return True
    return False


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("seed", [2])
def test_no_value_of_one_object_stops_anybody(room: str, seed: int) -> None:
    taken = 0

    async def main() -> None:
        nonlocal taken
        cluster = everything()
        await cluster.start()
        await queues(cluster)
        kinds = [kind for kind in cluster.api.registry if kind.group in ROOMS[room]]
        forge, made = Forge(kinds, seed), []
        for number in range(WRITTEN):
            kind, obj, status, where = forge.next(f"o{number}")
            trouble.doing = f"{kind.group_resource} o{number}: {where}"
            resource = kind.resource(obj["apiVersion"].rpartition("/")[2])
            try:
                if await write(cluster, resource, obj, status):
                    taken += 1
                    made.append((resource, obj["metadata"]))
            except Exception as error:
                trouble.note("writing", error)
            if number % TOGETHER == TOGETHER - 1:
                await asyncio.sleep(5.0)
                await settle([cluster.manager])
                for each in {id(kind): kind for kind in kinds if "list" in kind.verbs}.values():
                    await show(cluster, each, trouble)
        for resource, metadata in made:
            try:
                await cluster.client.delete(resource, metadata["name"], metadata.get("namespace", ""))
            except ApiError:
                continue
        assert await healthy(cluster), "a job that came afterwards did not run"
        await cluster.stop()

    with troubles() as trouble:
        run_virtual(main)
    assert not trouble.wrong, "\n".join(trouble.wrong)
    assert taken > WRITTEN / 5  # else the objects are wrong in other ways, and get nowhere
