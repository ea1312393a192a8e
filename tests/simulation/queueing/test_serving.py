"""Deployments and StatefulSets in a queue: their pods wait behind gates, one by one or all together."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from corral.core.errors import ApiError
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.leader_worker_set.kind import LEADER_WORKER_SETS
from corral.jobs.leader_worker_set.queued_set import component_workload
from corral.kinds.kubernetes.core.kinds import EVENTS
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, names
from corral.node.node import NodeSpec
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster

from .world import PODS, cluster_queue, condition, flavor, local_queue

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")


def serving(name: str, replicas: int, **spec: Any) -> Obj:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"corral.dev/run-seconds": "forever"}},
                "spec": {"containers": [container]},
            },
            **spec,
        },
    }


async def phases(cluster: SimulatedCluster) -> list[str]:
    pods = (await cluster.client.list(PODS)).items
    return sorted(pod.get("status", {}).get("phase", "") for pod in pods)


async def start(cpu: str, configuration: Obj | None = None) -> SimulatedCluster:
    nodes = [NodeSpec("n", {"cpu": "64", "memory": "64Gi", "pods": "100"}, {}, [])]
    cluster = SimulatedCluster("serving", nodes=nodes, configuration=configuration)
    await cluster.start()
    for pair in (flavor(), cluster_queue(cpu=cpu), local_queue()):
        await cluster.client.create(*pair)
    return cluster


def test_pods_of_a_deployment_are_admitted_one_by_one() -> None:
    async def main() -> None:
        cluster = await start(cpu="1")
        await cluster.client.create(DEPLOYMENTS, serving("web", 2))
        await asyncio.sleep(5)
        assert await phases(cluster) == ["Pending", "Running"]
        await cluster.stop()

    run_virtual(main)


def test_pods_of_a_stateful_set_are_admitted_together() -> None:
    async def main() -> None:
        cluster = await start(cpu="2")
        await cluster.client.create(STATEFUL_SETS, serving("db", 2, serviceName="db"))
        await asyncio.sleep(20)
        assert await phases(cluster) == ["Running", "Running"]
        (workload,) = (await cluster.client.list(WORKLOADS)).items
        assert workload["metadata"]["name"].startswith("statefulset-db-")
        assert [(entry["name"], entry["count"]) for entry in workload["spec"]["podSets"]] == [("main", 2)]
        await cluster.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await asyncio.sleep(60)
        assert await phases(cluster) == ["Pending"]
        await cluster.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "None"}})
        await asyncio.sleep(60)
        assert await phases(cluster) == ["Running", "Running"]
        await cluster.client.delete(STATEFUL_SETS, "db", "default", propagation="Background")
        await asyncio.sleep(60)
        assert (await cluster.client.list(WORKLOADS)).items == []
        await cluster.stop()

    run_virtual(main)


def test_a_stateful_set_without_room_for_all_runs_nothing() -> None:
    async def main() -> None:
        cluster = await start(cpu="1")
        await cluster.client.create(STATEFUL_SETS, serving("db", 2, serviceName="db"))
        await asyncio.sleep(20)
        assert await phases(cluster) == ["Pending"]
        await cluster.stop()

    run_virtual(main)


def test_replicas_of_a_leader_worker_set_are_admitted_one_by_one() -> None:
    async def main() -> None:
        cluster = await start(cpu="3")
        template = serving("x", 1)["spec"]["template"]
        obj = {
            "metadata": {"name": "llm", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
            "spec": {
                "replicas": 2,
                "leaderWorkerTemplate": {"size": 2, "leaderTemplate": template, "workerTemplate": template},
            },
        }
        await cluster.client.create(LEADER_WORKER_SETS, obj)
        await asyncio.sleep(30)
        assert (await phases(cluster)).count("Running") == 2
        found = (await cluster.client.list(WORKLOADS)).items
        assert [[entry["name"] for entry in each["spec"]["podSets"]] for each in found] == [["leader", "worker"]] * 2
        await cluster.stop()

    run_virtual(main)


def leader_worker_set(replicas: int, size: int, **spec: Any) -> Obj:
    obj = serving("model", replicas)
    template = obj["spec"]["template"]
    obj["spec"] = {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": template}, **spec}
    return obj


def test_a_queue_on_the_pods_of_a_leader_worker_set_is_that_of_the_set() -> None:
    async def main() -> None:
        cluster = await start(cpu="3")
        obj = leader_worker_set(1, 3)
        obj["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["labels"] = {names.QUEUE_NAME: "elsewhere"}
        await cluster.client.create(LEADER_WORKER_SETS, obj)
        await asyncio.sleep(30)
        assert await phases(cluster) == ["Running"] * 3
        assert len((await cluster.client.list(WORKLOADS)).items) == 1
        await cluster.stop()

    run_virtual(main)


@pytest.mark.parametrize(("leader", "grouped"), [(True, False), (True, True), (False, False)])
def test_workers_beside_a_leader_of_its_own_are_counted_from_one(*, leader: bool, grouped: bool) -> None:
    async def main() -> None:
        cluster = await start(cpu="3")
        obj = leader_worker_set(1, 2)
        group = obj["spec"]["leaderWorkerTemplate"]
        if grouped:
            group["workerTemplate"]["metadata"]["annotations"] = {names.PODSET_GROUP_NAME: "g"}
        if leader:
            group["leaderTemplate"] = copy.deepcopy(group["workerTemplate"])
        made = (await cluster.client.create(LEADER_WORKER_SETS, obj))["spec"]["leaderWorkerTemplate"]
        offset = made["workerTemplate"]["metadata"].get("annotations", {}).get(names.POD_INDEX_OFFSET)
        assert offset == ("1" if leader and not grouped else None)
        assert names.POD_INDEX_OFFSET not in made.get("leaderTemplate", {}).get("metadata", {}).get("annotations", {})
        await cluster.stop()

    run_virtual(main)


def test_surplus_groups_of_a_rollout_are_queued_while_it_lasts() -> None:
    async def main() -> None:
        cluster = await start(cpu="6")
        rolling = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 2, "maxSurge": 2}}
        await cluster.client.create(LEADER_WORKER_SETS, leader_worker_set(4, 1, rolloutStrategy=rolling))
        await asyncio.sleep(30)
        assert await phases(cluster) == ["Running"] * 4
        held = copy.deepcopy(await cluster.client.get(LEADER_WORKER_SETS, "model", "default"))
        held["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = "pause:2"
        await cluster.client.update(LEADER_WORKER_SETS, held)
        await asyncio.sleep(120)
        told = {event["message"] for event in (await cluster.client.list(EVENTS)).items}
        assert any(component_workload(held, 5) in message for message in told), told
        held = await cluster.client.get(LEADER_WORKER_SETS, "model", "default")
        assert (held["status"]["updatedReplicas"], held["status"]["readyReplicas"]) == (4, 4)
        assert await phases(cluster) == ["Running"] * 4
        assert len((await cluster.client.list(WORKLOADS)).items) == 4
        await cluster.stop()

    run_virtual(main)


def test_of_very_many_replicas_of_a_leader_worker_set_the_first_are_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replica is a Workload: a million of them would be a million Workloads."""
    monkeypatch.setattr("corral.jobs.leader_worker_set.queued_set.MOST", 20)
    monkeypatch.setattr("corral.jobs.framework.growth_pacing.STEP", 20)
    monkeypatch.setattr("corral.decide.pods.growth.MOST_WAITING", 40)

    async def main() -> None:
        cluster = await start(cpu="4")
        obj = serving("model", 10**6)
        template = obj["spec"]["template"]
        obj["spec"] = {"replicas": 10**6, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template}}
        await cluster.client.create(LEADER_WORKER_SETS, obj)
        await asyncio.sleep(30)
        assert len((await cluster.client.list(WORKLOADS)).items) == 20
        assert (await phases(cluster)).count("Running") == 4
        said = {event["reason"]: event["message"] for event in (await cluster.client.list(EVENTS)).items}
        assert said["TooManyReplicas"].startswith("Only the first 20 of 1000000 replicas are queued")
        await cluster.stop()

    run_virtual(main)


def test_a_stateful_set_that_is_scaled_to_zero_keeps_its_workload_on_hold() -> None:
    async def main() -> None:
        cluster = await start(cpu="2")
        await cluster.client.create(STATEFUL_SETS, serving("db", 2))
        await asyncio.sleep(5)
        (created,) = (await cluster.client.list(WORKLOADS)).items
        await cluster.client.patch(STATEFUL_SETS, "db", "default", {"spec": {"replicas": 0}})
        await asyncio.sleep(60)
        (held,) = (await cluster.client.list(WORKLOADS)).items
        assert held["metadata"]["uid"] == created["metadata"]["uid"]
        assert condition(held, "QuotaReserved") == ("False", "OnHold", "StatefulSet scaled to zero; workload on hold")
        assert "admission" not in held["status"]
        assert (await cluster.client.get(CLUSTER_QUEUES, "cq"))["status"]["pendingWorkloads"] == 0
        await cluster.client.patch(STATEFUL_SETS, "db", "default", {"spec": {"replicas": 1}})
        await asyncio.sleep(5)
        (again,) = (await cluster.client.list(WORKLOADS)).items
        assert again["metadata"]["uid"] == created["metadata"]["uid"]
        assert [entry["count"] for entry in again["spec"]["podSets"]] == [1]
        assert (condition(again, "Admitted") or ())[0] == "True"
        assert await phases(cluster) == ["Running"]
        await cluster.stop()

    run_virtual(main)


@pytest.mark.parametrize("resource", [STATEFUL_SETS, LEADER_WORKER_SETS], ids=lambda resource: resource.kind)
def test_pods_of_a_set_carry_its_queue_and_follow_it(resource: Resource) -> None:
    async def queues(cluster: SimulatedCluster) -> set[str]:
        pods = (await cluster.client.list(PODS)).items
        return {pod["metadata"]["labels"].get("kueue.x-k8s.io/queue-name", "") for pod in pods}

    async def main() -> None:
        cluster = await start(cpu="0")
        obj = serving("db", 1)
        if resource is LEADER_WORKER_SETS:
            template = obj["spec"]["template"]
            obj["spec"] = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
        await cluster.client.create(resource, obj)
        await asyncio.sleep(20)
        assert await queues(cluster) == {"lq"}
        patch = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}}
        await cluster.client.patch(resource, "db", "default", patch)
        await asyncio.sleep(20)
        assert await queues(cluster) == {"other"}
        await cluster.stop()

    run_virtual(main)


@pytest.mark.parametrize("resource", [STATEFUL_SETS, LEADER_WORKER_SETS], ids=lambda resource: resource.kind)
def test_a_workload_follows_the_priority_class_of_its_set(resource: Resource) -> None:
    async def main() -> None:
        cluster = await start(cpu="1")
        for name, value in (("low", 1), ("high", 9)):
            await cluster.client.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        obj = serving("model", 1) if resource is STATEFUL_SETS else leader_worker_set(1, 1)
        obj["metadata"]["labels"][names.PRIORITY_CLASS] = "low"
        await cluster.client.create(resource, obj)
        await asyncio.sleep(5)
        higher = {"metadata": {"labels": {names.PRIORITY_CLASS: "high"}}}
        await cluster.client.patch(resource, "model", "default", higher)
        await asyncio.sleep(5)
        (workload,) = (await cluster.client.list(WORKLOADS)).items
        assert (workload["spec"]["priority"], workload["spec"]["priorityClassRef"]["name"]) == (9, "high")
        await cluster.stop()

    run_virtual(main)


@pytest.mark.parametrize("annotated", [True, False])
@pytest.mark.parametrize("resource", [STATEFUL_SETS, LEADER_WORKER_SETS], ids=lambda resource: resource.kind)
def test_pods_of_a_set_say_with_whom_they_are_admitted(resource: Resource, annotated: bool) -> None:
    async def main() -> None:
        frameworks = ["pod", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"]
        settings = {
            "featureGates": {"WorkloadIdentifierAnnotations": annotated},
            "integrations": {"frameworks": frameworks},
        }
        cluster = await start(cpu="4", configuration=settings)
        obj = serving("db", 2)
        if resource is LEADER_WORKER_SETS:
            template = obj["spec"]["template"]
            obj["spec"] = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
        await cluster.client.create(resource, obj)
        await asyncio.sleep(20)
        (workload,) = (await cluster.client.list(WORKLOADS)).items
        pods = (await cluster.client.list(PODS)).items
        assert len(pods) == 2
        for pod in pods:
            holds, lacks = ("annotations", "labels") if annotated else ("labels", "annotations")
            assert pod["metadata"][holds]["kueue.x-k8s.io/pod-group-name"] == workload["metadata"]["name"]
            assert "kueue.x-k8s.io/pod-group-name" not in pod["metadata"][lacks]
            annotations = pod["metadata"]["annotations"]
            assert annotations["kueue.x-k8s.io/pod-group-total-count"] == "2"
            assert annotations["kueue.x-k8s.io/role-hash"] == "main"
        await cluster.stop()

    run_virtual(main)


def test_a_name_that_fits_no_label_is_an_annotation() -> None:
    async def main() -> None:
        gates = {"WorkloadIdentifierAnnotations": False}
        settings = {"featureGates": gates, "integrations": {"frameworks": ["statefulset"]}}
        cluster = await start(cpu="4", configuration=settings)
        await cluster.client.create(STATEFUL_SETS, serving("d" * 52, 1))
        await asyncio.sleep(20)
        (pod,) = (await cluster.client.list(PODS)).items
        assert len(pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-name"]) > 63
        assert pod["status"]["phase"] == "Running"
        await cluster.stop()

    run_virtual(main)


@pytest.mark.parametrize("resource", [STATEFUL_SETS, LEADER_WORKER_SETS], ids=lambda resource: resource.kind)
def test_a_set_without_a_queue_waits_as_a_whole_where_every_job_is_queued(resource: Resource) -> None:
    async def main() -> None:
        frameworks = ["pod", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"]
        settings = {"manageJobsWithoutQueueName": True, "integrations": {"frameworks": frameworks}}
        cluster = await start(cpu="4", configuration=settings)
        obj = serving("db", 1)
        del obj["metadata"]["labels"]
        if resource is LEADER_WORKER_SETS:
            template = obj["spec"]["template"]
            obj["spec"] = {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template}}
        await cluster.client.create(resource, obj)
        await asyncio.sleep(20)
        (workload,) = (await cluster.client.list(WORKLOADS)).items
        assert workload["metadata"]["name"].startswith(f"{resource.kind.lower()}-db-")
        assert condition(workload, "Admitted") is None
        assert await phases(cluster) == ["Pending"]
        patch = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}}
        await cluster.client.patch(resource, "db", "default", patch)
        await asyncio.sleep(20)
        assert await phases(cluster) == ["Running"]
        await cluster.stop()

    run_virtual(main)


@pytest.mark.parametrize("fixed", [True, False])
def test_groups_of_a_queued_leader_worker_set_keep_their_size(fixed: bool) -> None:
    async def main() -> None:
        frameworks = ["pod", "leaderworkerset.x-k8s.io/leaderworkerset"]
        settings = {"featureGates": {"LWSImmutableGroupSize": fixed}, "integrations": {"frameworks": frameworks}}
        cluster = await start(cpu="9", configuration=settings)
        obj = serving("db", 1)
        template = obj["spec"]["template"]
        obj["spec"] = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
        await cluster.client.create(LEADER_WORKER_SETS, obj)
        larger = {"spec": {"leaderWorkerTemplate": {"size": 3}}}
        if fixed:
            with pytest.raises(ApiError, match=r"spec.leaderWorkerTemplate.size: Invalid value: 3: field is immutable"):
                await cluster.client.patch(LEADER_WORKER_SETS, "db", "default", larger)
        else:
            await cluster.client.patch(LEADER_WORKER_SETS, "db", "default", larger)
        await cluster.client.patch(LEADER_WORKER_SETS, "db", "default", {"spec": {"replicas": 2}})
        obj = {**obj, "metadata": {"name": "free", "namespace": "default"}}
        await cluster.client.create(LEADER_WORKER_SETS, obj)
        await cluster.client.patch(LEADER_WORKER_SETS, "free", "default", larger)
        await cluster.stop()

    run_virtual(main)
