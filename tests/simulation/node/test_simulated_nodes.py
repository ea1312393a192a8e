"""Scheduler, node agent and simulated pods together on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from corral.core.conditions import find
from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import EVENTS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES
from corral.node.agent import NodeAgent
from corral.node.node import NodeSpec
from corral.node.scheduler import Scheduler
from corral.node.simulated import SimulatedRuntime
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

GPU_NODE = NodeSpec("fake-1", {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "8", "pods": "110"}, {"gpu": "h100"})


class World:
    """A virtual cluster with nodes."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.advance = cluster.advance
        self.settle = cluster.settle

    async def create(self, name: str, **spec: Any) -> Obj:
        annotations = {f"corral.dev/{key}": value for key, value in spec.pop("does", {}).items()}
        requests = spec.pop("requests", {"cpu": "1"})
        container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": spec.pop("limits", {})}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": annotations,
                "labels": spec.pop("labels", {}),
            },
            "spec": {"restartPolicy": "Never", "containers": [container], **spec},
        }
        return await self.client.create(PODS, pod)

    async def get(self, name: str) -> Obj:
        return await self.client.get(PODS, name, "default")

    async def phase(self, name: str) -> str:
        return str((await self.get(name)).get("status", {}).get("phase", "Pending"))

    async def events(self, name: str) -> list[tuple[str, str]]:
        found = (await self.client.list(EVENTS, "default")).items
        return [(e["reason"], e["message"]) for e in found if e["involvedObject"]["name"] == name]


def simulate(scenario: Callable[[World], Awaitable[None]], *nodes: NodeSpec, run_s: float = 10.0) -> None:
    async def main() -> None:
        def set_up(manager: Manager) -> None:
            Scheduler(manager)
            runtime = SimulatedRuntime(manager.clock, run_s=run_s)
            NodeAgent(manager, list(nodes) or [GPU_NODE], runtime)

        async with VirtualCluster([set_up], namespaces=("default", "kube-node-lease")) as cluster:
            await cluster.advance(1)
            await scenario(World(cluster))

    run_virtual(main)


def test_two_of_three_pods_bind_and_the_third_follows() -> None:
    """The recorded scenario of a real scheduler with one node of eight GPUs."""

    async def scenario(world: World) -> None:
        for name in ("a", "b", "c"):
            await world.create(name, limits={"nvidia.com/gpu": "4"}, requests={"cpu": "1", "nvidia.com/gpu": "4"})
        await world.advance(1)
        assert [await world.phase(name) for name in "abc"] == ["Running", "Running", "Pending"]
        condition = find(await world.get("c"), "PodScheduled")
        assert condition is not None
        message = (
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )
        expected = {
            "type": "PodScheduled",
            "observedGeneration": 1,
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        assert {key: condition[key] for key in expected} == expected
        assert await world.events("c") == [("FailedScheduling", message)]
        assert ("Scheduled", "Successfully assigned default/a to fake-1") in await world.events("a")
        await world.advance(12)
        assert [await world.phase(name) for name in "abc"] == ["Succeeded", "Succeeded", "Running"]
        assert find(await world.get("c"), "PodScheduled")["status"] == "True"  # type: ignore[index]

    simulate(scenario)


def test_nodes_are_registered_and_alive() -> None:
    async def scenario(world: World) -> None:
        node = await world.client.get(NODES, "fake-1")
        assert node["metadata"]["labels"]["gpu"] == "h100"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert find(node, "Ready")["reason"] == "KubeletReady"  # type: ignore[index]
        first = (await world.client.get(LEASES, "fake-1", "kube-node-lease"))["spec"]["renewTime"]
        await world.advance(30)
        assert (await world.client.get(LEASES, "fake-1", "kube-node-lease"))["spec"]["renewTime"] > first

    simulate(scenario)


def test_important_pod_takes_the_place_of_another() -> None:
    async def scenario(world: World) -> None:
        await world.create("low", requests={"cpu": "5"}, does={"run-seconds": "forever", "stop-seconds": "3"})
        await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": "vip"}, "value": 100})
        await world.settle()
        await world.create("high", requests={"cpu": "5"}, priorityClassName="vip")
        await world.advance(1)
        victim = await world.get("low")
        assert find(victim, "DisruptionTarget")["reason"] == "PreemptionByScheduler"  # type: ignore[index]
        assert victim["metadata"]["deletionTimestamp"]
        assert (await world.get("high"))["status"]["nominatedNodeName"] == "fake-1"
        await world.create("sneaky", requests={"cpu": "3"})
        await world.create("thief", requests={"cpu": "4"})
        await world.advance(5)
        with pytest.raises(NotFound):
            await world.get("low")
        assert [await world.phase(name) for name in ("high", "sneaky", "thief")] == ["Running", "Running", "Pending"]
        reasons = {reason for reason, _ in await world.events("low")}
        assert "Preempted" in reasons

    simulate(scenario)


def test_gates_hold_a_pod_back() -> None:
    async def scenario(world: World) -> None:
        await world.create("gated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
        await world.advance(5)
        assert not (await world.get("gated"))["spec"].get("nodeName")
        await world.client.patch(PODS, "gated", "default", {"spec": {"schedulingGates": []}})
        await world.advance(1)
        assert await world.phase("gated") == "Running"

    simulate(scenario)


def test_pod_waits_for_a_node_that_is_changed_for_it() -> None:
    async def scenario(world: World) -> None:
        await world.create("picky", nodeSelector={"disk": "ssd"})
        await world.advance(1)
        assert await world.phase("picky") == "Pending"
        await world.client.patch(NODES, "fake-1", "", {"metadata": {"labels": {"disk": "ssd"}}})
        await world.advance(1)
        assert await world.phase("picky") == "Running"
        await world.create("greedy", requests={"example.com/widget": "1"}, limits={"example.com/widget": "1"})
        await world.advance(1)
        assert await world.phase("greedy") == "Pending"
        amounts = {"example.com/widget": "2"}
        await world.client.patch(
            NODES, "fake-1", "", {"status": {"capacity": amounts, "allocatable": amounts}}, subresource="status"
        )
        await world.advance(1)
        assert await world.phase("greedy") == "Running"

    simulate(scenario, run_s=100)


def test_restarts_back_off_and_end() -> None:
    async def scenario(world: World) -> None:
        await world.create("flaky", restartPolicy="OnFailure", does={"run-seconds": "1", "failures": "3"})
        seen: list[tuple[str, int]] = []
        for _ in range(80):
            await world.advance(1)
            container = (await world.get("flaky"))["status"]["containerStatuses"][0]
            state = next(iter(container["state"]))
            if not seen or seen[-1] != (state, container["restartCount"]):
                seen.append((state, container["restartCount"]))
        assert await world.phase("flaky") == "Succeeded"
        assert seen[-1] == ("terminated", 3)
        assert ("waiting", 1) in seen
        assert ("waiting", 2) in seen

    simulate(scenario)


def test_deletion_takes_its_time_then_the_pod_is_gone() -> None:
    async def scenario(world: World) -> None:
        await world.create("slow", does={"run-seconds": "forever", "stop-seconds": "5"})
        await world.create(
            "deaf", does={"run-seconds": "forever", "stop-seconds": "999"}, terminationGracePeriodSeconds=8
        )
        await world.advance(1)
        for name in ("slow", "deaf"):
            await world.client.delete(PODS, name, "default")
        await world.advance(4)
        assert await world.phase("slow") == "Running"
        await world.advance(2)
        with pytest.raises(NotFound):
            await world.get("slow")
        await world.advance(4)
        with pytest.raises(NotFound):
            await world.get("deaf")

    simulate(scenario)


def test_a_finalizer_keeps_the_end_visible() -> None:
    async def scenario(world: World) -> None:
        pod = await world.create("kept", does={"run-seconds": "forever"})
        await world.client.patch(PODS, "kept", "default", {"metadata": {"finalizers": ["example.com/hold"]}})
        await world.advance(1)
        await world.client.delete(PODS, "kept", "default")
        await world.advance(2)
        kept = await world.get("kept")
        assert kept["metadata"]["uid"] == pod["metadata"]["uid"]
        assert kept["status"]["phase"] == "Failed"
        assert kept["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
        await world.client.patch(PODS, "kept", "default", {"metadata": {"finalizers": None}})
        await world.advance(2)
        with pytest.raises(NotFound):
            await world.get("kept")

    simulate(scenario)


def test_deadline_fails_the_pod() -> None:
    async def scenario(world: World) -> None:
        await world.create("late", activeDeadlineSeconds=5, does={"run-seconds": "forever"})
        await world.advance(4)
        assert await world.phase("late") == "Running"
        await world.advance(3)
        status = (await world.get("late"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")

    simulate(scenario)


def test_slow_start_and_late_readiness() -> None:
    async def scenario(world: World) -> None:
        await world.create("slow", does={"run-seconds": "100", "start-seconds": "20", "ready-seconds": "10"})
        await world.advance(19)
        assert await world.phase("slow") == "Pending"
        await world.advance(2)
        pod = await world.get("slow")
        assert (pod["status"]["phase"], find(pod, "Ready")["status"]) == ("Running", "False")  # type: ignore[index]
        await world.advance(10)
        assert find(await world.get("slow"), "Ready")["status"] == "True"  # type: ignore[index]

    simulate(scenario)


def test_new_agent_takes_up_where_the_old_one_stopped() -> None:
    """The control plane restarts at second 5 of a 20 second pod: it still ends at second 20, once."""

    async def main() -> None:
        agents: list[NodeAgent] = []

        def set_up(manager: Manager) -> None:
            Scheduler(manager)
            agents.append(NodeAgent(manager, [GPU_NODE], SimulatedRuntime(manager.clock)))

        async with VirtualCluster([set_up]) as cluster:
            await cluster.advance(1)
            world = World(cluster)
            await world.create("long", does={"run-seconds": "20"})
            await cluster.advance(5)
            await cluster.manager.stop()
            await agents[0].close()
            await asyncio.sleep(5)
            second = Manager(cluster.client, cluster.clock, cluster.random)
            set_up(second)
            await second.start()
            await asyncio.sleep(8)
            assert await world.phase("long") == "Running"
            await asyncio.sleep(3)
            pod = await world.get("long")
            await second.stop()
        assert pod["status"]["phase"] == "Succeeded"
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0

    run_virtual(main)


def test_a_full_cluster_serves_a_long_queue_in_order() -> None:
    async def scenario(world: World) -> None:
        for number in range(200):
            await world.create(f"p-{number:03}", requests={"cpu": "2"}, does={"run-seconds": "10"})
        await world.advance(5)
        running = [f"p-{number:03}" for number in range(200) if await world.phase(f"p-{number:03}") == "Running"]
        assert len(running) == 4
        await world.advance(600)
        phases = {await world.phase(f"p-{number:03}") for number in range(200)}
        assert phases == {"Succeeded"}

    simulate(scenario)


def test_deleting_a_namespace_removes_its_pods() -> None:
    async def scenario(world: World) -> None:
        await world.client.create(NAMESPACES, {"metadata": {"name": "team"}})
        container = {"name": "c", "image": "i", "command": ["sleep", "infinity"]}
        await world.client.create(
            PODS, {"metadata": {"name": "p", "namespace": "team"}, "spec": {"containers": [container]}}
        )
        await world.advance(1)
        await world.client.delete(NAMESPACES, "team")
        await world.advance(60)
        assert (await world.client.list(PODS, "team")).items == []

    simulate(scenario)


def test_no_execute_taint_sends_pods_away() -> None:
    async def scenario(world: World) -> None:
        taint = {"key": "broken", "effect": "NoExecute"}
        staying = [{"key": "broken", "operator": "Exists"}]
        patient = [{"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
        await world.create("leaves", does={"run-seconds": "forever"})
        await world.create("stays", does={"run-seconds": "forever"}, tolerations=staying)
        await world.create("patient", does={"run-seconds": "forever"}, tolerations=patient)
        await world.advance(1)
        await world.client.patch(NODES, "fake-1", "", {"spec": {"taints": [taint]}})
        await world.advance(3)
        with pytest.raises(NotFound):
            await world.get("leaves")
        assert ("TaintManagerEviction", "Marking for deletion Pod default/leaves") in await world.events("leaves")
        assert [await world.phase(name) for name in ("stays", "patient")] == ["Running", "Running"]
        await world.advance(30)
        with pytest.raises(NotFound):
            await world.get("patient")
        assert await world.phase("stays") == "Running"

    simulate(scenario)


def test_a_pod_whose_claim_does_not_exist_stays_pending_until_it_does() -> None:
    async def scenario(world: World) -> None:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await world.create("needy", volumes=volumes)
        await world.create("plain")
        await world.advance(1)
        assert [await world.phase(name) for name in ("needy", "plain")] == ["Pending", "Running"]
        condition = find(await world.get("needy"), "PodScheduled") or {}
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert 'persistentvolumeclaim "data" not found' in condition["message"]
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await world.client.create(
            PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data", "namespace": "default"}, "spec": claim}
        )
        await world.advance(1)
        assert await world.phase("needy") == "Running"

    simulate(scenario)
