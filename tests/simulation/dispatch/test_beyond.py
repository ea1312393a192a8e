"""What Corral's dispatch does beyond MultiKueue: handing back, sending what jobs name, metrics, fencing."""

from __future__ import annotations

import asyncio

from tests.dispatching import Script, run_on_fleet

from corral.core import conditions
from corral.core.meta import Obj, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.apps.kinds import STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS, PODS, SECRETS
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS, WORKLOADS
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet


def job(name: str = "a", *, cpu: str = "1", seconds: int = 100_000, **pod: object) -> Obj:
    container = {"name": "c", "image": "busybox", "command": ["sleep"], "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container], **pod},
    }
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"suspend": True, "template": template},
    }


def on_fleet(test: Script, *frameworks: str, **own: object) -> None:
    configuration = {
        "integrations": {"frameworks": ["batch/job", *frameworks]},
        "multiKueue": {"workerLostTimeout": "60s", "gcInterval": "15s"},
        "corral": own,
    }
    run_on_fleet(test, configuration)


async def the_workload(cluster: SimulatedCluster) -> Obj:
    (found,) = (await cluster.client.list(WORKLOADS)).items
    return found


async def raise_quota(cluster: SimulatedCluster) -> None:
    resources = [{"name": "cpu", "nominalQuota": "20"}, {"name": "memory", "nominalQuota": "64Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default-flavor", "resources": resources}]}
    await cluster.client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"resourceGroups": [group]}})


def test_a_job_nobody_takes_gives_its_quota_back_and_is_tried_again_later() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(cpu="12"))
        await asyncio.sleep(25)
        held = await the_workload(fleet.manager)
        assert conditions.is_false(held, "QuotaReserved")
        events = (await fleet.manager.client.list(EVENTS)).items
        (message,) = (event["message"] for event in events if event["reason"] == "HandedBack")
        assert message.startswith("No worker took the workload within 20s: worker1, worker2: couldn't assign flavors")
        for worker in fleet.workers.values():
            assert (await worker.client.list(WORKLOADS)).items == []
        await raise_quota(fleet.workers["worker2"])
        await asyncio.sleep(120)
        assert status_of(await the_workload(fleet.manager))["clusterName"] == "worker2"

    on_fleet(check, giveUpAfter="20s")


def test_the_config_maps_and_secrets_a_job_names_go_with_it() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        await client.create(CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "default"}, "data": {"k": "v"}})
        await client.create(SECRETS, {"metadata": {"name": "s", "namespace": "default"}, "data": {"k": "dg=="}})
        volumes = [{"name": "c", "configMap": {"name": "c"}}, {"name": "s", "secret": {"secretName": "s"}}]
        await client.create(JOBS, job(seconds=10, volumes=volumes))
        await asyncio.sleep(3)
        worker = fleet.workers[status_of(await the_workload(fleet.manager))["clusterName"]]
        assert (await worker.client.get(CONFIG_MAPS, "c", "default"))["data"] == {"k": "v"}
        assert (await worker.client.get(SECRETS, "s", "default"))["data"] == {"k": "dg=="}
        await asyncio.sleep(60)
        names = [item["metadata"]["name"] for item in (await worker.client.list(CONFIG_MAPS, "default")).items]
        assert "c" not in names

    on_fleet(check, propagateDependencies=True)


def test_a_finished_job_stays_where_it_ran_for_as_long_as_asked() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(seconds=5))
        await asyncio.sleep(30)
        held = await the_workload(fleet.manager)
        assert conditions.is_true(held, "Finished")
        worker = fleet.workers[status_of(held)["clusterName"]]
        assert [status_of(pod)["phase"] for pod in (await worker.client.list(PODS)).items] == ["Succeeded"]
        await asyncio.sleep(60)
        for cluster in fleet.workers.values():
            assert (await cluster.client.list(JOBS)).items == (await cluster.client.list(WORKLOADS)).items == []

    on_fleet(check, keepFinished="60s")


def test_forty_workers_take_jobs() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for name in ("a", "b", "c"):
            await fleet.manager.client.create(JOBS, job(name, cpu="5"))
        await asyncio.sleep(10)
        chosen = [status_of(held)["clusterName"] for held in (await fleet.manager.client.list(WORKLOADS)).items]
        assert len(set(chosen)) == len(chosen) == 3

    run_on_fleet(check, workers=[f"worker{number}" for number in range(1, 41)])


def test_connections_and_latency_are_measured() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(seconds=1))
        await asyncio.sleep(3)
        fleet.links["worker2"].set(cut=True)
        await asyncio.sleep(30)
        text = fleet.manager.manager.metrics.exposition().decode()
        assert 'corral_dispatch_connected{cluster="worker1"} 1.0' in text
        assert 'corral_dispatch_connected{cluster="worker2"} 0.0' in text
        assert "corral_dispatch_seconds_count" in text
        assert 'corral_dispatch_connection_changes_total{cluster="worker2",reason="Active"} 1.0' in text
        lost = '{cluster="worker2",reason="ClientConnectionFailed"} 1.0'
        assert f"corral_dispatch_connection_changes_total{lost}" in text
        await fleet.manager.client.delete(MULTI_KUEUE_CLUSTERS, "worker2")
        await asyncio.sleep(1)
        assert 'corral_dispatch_connected{cluster="worker2"}' not in fleet.manager.manager.metrics.exposition().decode()

    on_fleet(check)


def test_the_counts_of_a_stateful_set_come_back() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        labels = {"app": "db"}
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"serviceName": "db", "replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        queue = {"kueue.x-k8s.io/queue-name": "user-queue"}
        metadata = {"name": "db", "namespace": "default", "labels": queue}
        client = fleet.manager.client
        await client.create(STATEFUL_SETS, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(20)
        held = await client.get(STATEFUL_SETS, "db", "default")
        assert (status_of(held)["replicas"], status_of(held)["readyReplicas"]) == (2, 2)
        assert conditions.is_true(held, "Dispatched")
        await client.delete(STATEFUL_SETS, "db", "default", propagation="Background")
        await asyncio.sleep(40)
        for worker in fleet.workers.values():
            assert (await worker.client.list(STATEFUL_SETS)).items == []
            assert (await worker.client.list(WORKLOADS)).items == []

    on_fleet(check, "pod", "statefulset")


def test_a_worker_that_lost_its_manager_stops_before_the_job_starts_elsewhere() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        first = status_of(await the_workload(fleet.manager))["clusterName"]
        worker = fleet.workers[first]
        fleet.links[first].set(cut=True)
        await asyncio.sleep(45)
        assert status_of(await the_workload(fleet.manager))["clusterName"] == first
        assert not status_of(await worker.client.get(JOBS, "a", "default")).get("active")
        assert "Fenced" in {event["reason"] for event in (await worker.client.list(EVENTS)).items}
        await asyncio.sleep(30)
        assert status_of(await the_workload(fleet.manager))["clusterName"] != first
        fleet.links[first].set()
        await asyncio.sleep(180)  # the pause before the next attempt to connect has grown meanwhile
        assert (await worker.client.list(WORKLOADS)).items == []

    on_fleet(check, fencing=True)
