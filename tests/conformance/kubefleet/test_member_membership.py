"""Upstream's scenarios of membership as a member sees them (chapter 12.8): joining, beating, leaving, coming back."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.simulation.member.world import NAMESPACE, MemberWorld, about, config_map, in_world

from corral.configuration.member import MemberSettings
from corral.core.meta import Obj, finalizers_of, owner_references_of, status_of, uid_of
from corral.core.timestamps import parse_time
from corral.kinds.fleet import WORKS
from corral.kinds.kubernetes.core.kinds import EVENTS, NODES, PODS
from corral.kinds.kueue import CLUSTER_QUEUES


def agent(cluster: Obj) -> Obj:
    (entry,) = status_of(cluster)["agentStatus"]
    return entry


def conditions(cluster: Obj) -> list[tuple[str, str, str, int]]:
    return [
        (one["type"], one["status"], one["reason"], one["observedGeneration"]) for one in agent(cluster)["conditions"]
    ]


async def events(world: MemberWorld) -> list[tuple[str, str, int]]:
    found = (await world.hub.client.list(EVENTS, NAMESPACE)).items
    return [(one["reason"], one["source"]["component"], one["count"]) for one in found]


async def make_node(world: MemberWorld, name: str, **allocatable: str) -> None:
    amounts = {key.replace("__", "/").replace("_", "."): value for key, value in allocatable.items()}
    node = await world.member.client.create(NODES, {"metadata": {"name": name}})
    ready = {"type": "Ready", "status": "True"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    await world.member.client.update(NODES, {**node, "status": status}, subresource="status")


async def make_pod(world: MemberWorld, name: str, node: str, **requests: str) -> None:
    amounts = {key.replace("__", "/").replace("_", "."): value for key, value in requests.items()}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"nodeName": node, "containers": [container]}
    await world.member.client.create(PODS, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


def test_a_member_joins_healthy_first_with_nothing_to_say_beyond_its_numbers() -> None:
    async def check(world: MemberWorld) -> None:
        cluster = await world.cluster()
        assert conditions(cluster) == [
            ("Healthy", "True", "InternalMemberClusterHealthy", 1),
            ("Joined", "True", "InternalMemberClusterJoined", 1),
        ]
        assert [one["message"] for one in agent(cluster)["conditions"]] == ["", ""]
        status = status_of(cluster)
        assert {name: one["value"] for name, one in status["properties"].items()} == {
            "kubernetes-fleet.io/node-count": "0"
        }
        assert status["resourceUsage"]["available"] == {"cpu": "0", "memory": "0"}
        source = "v1beta1InternalMemberClusterController"
        assert await events(world) == [
            ("InternalMemberClusterHealthy", source, 1),
            ("InternalMemberClusterJoined", source, 1),
        ]

    in_world(check, MemberSettings.upstream())


def test_heartbeats_come_with_the_period_and_a_change_of_it_is_answered_at_once() -> None:
    async def check(world: MemberWorld) -> None:
        async def beat() -> float:
            return parse_time(agent(await world.cluster())["lastReceivedHeartbeat"])

        first = await beat()
        await asyncio.sleep(64)
        second = await beat()
        assert 57 <= second - first <= 63
        world.heartbeat = 10
        await world.set_state("Join")
        await asyncio.sleep(0.5)
        cluster = await world.cluster()
        assert [one[3] for one in conditions(cluster)] == [2, 2]
        third = await beat()
        assert third > second
        await asyncio.sleep(11)
        assert 9 <= await beat() - third <= 12
        assert next(one for one in await events(world) if one[0] == "InternalMemberClusterJoined")[2] == 2

    in_world(check)


def test_134_leaving_keeps_what_was_placed_and_lets_go_of_the_works() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(config_map())
        uid = uid_of(await world.applied())
        await world.set_state("Leave")
        await asyncio.sleep(1)
        cluster = await world.cluster()
        assert conditions(cluster) == [
            ("Healthy", "True", "InternalMemberClusterHealthy", 1),
            ("Joined", "False", "InternalMemberClusterLeft", 2),
        ]
        assert finalizers_of(await world.work()) == []
        await world.hub.client.delete(WORKS, "w", NAMESPACE)
        await asyncio.sleep(60)
        assert await world.live() is not None
        assert uid_of(await world.applied()) == uid

        await world.set_state("Join")
        await asyncio.sleep(1)
        work = await world.send(config_map(a="9"))
        assert about(work)[1] == "Applied"
        live = await world.live()
        assert live is not None
        assert live["data"] == {"a": "9"}
        assert [one["uid"] for one in owner_references_of(live)] == [uid]

    in_world(check)


def test_a_member_that_lacks_the_kinds_of_a_fleet_joins_when_it_has_them() -> None:
    async def check(world: MemberWorld) -> None:
        assert conditions(await world.cluster())[1][:3] == ("Joined", "Unknown", "InternalMemberClusterFailedToJoin")
        world.unserved = ()
        await asyncio.sleep(6)
        assert conditions(await world.cluster())[1][:3] == ("Joined", "True", "InternalMemberClusterJoined")

    in_world(check, unserved=("AppliedWork",))


def test_resources_are_counted_as_upstream_counts_them() -> None:
    async def check(world: MemberWorld) -> None:
        await make_node(world, "a", cpu="4", memory="16Gi")
        await make_node(world, "b", cpu="4", memory="16Gi")
        await make_pod(world, "p", "a", cpu="500m", memory="1Gi")
        await asyncio.sleep(11)
        usage = status_of(await world.cluster())["resourceUsage"]
        assert usage["capacity"] == {"cpu": "8", "memory": "32Gi"}
        assert usage["available"] == {"cpu": "7500m", "memory": "31Gi"}

    in_world(check, MemberSettings.upstream(), heartbeat=10)


def test_accelerators_free_nodes_and_queues_are_counted_too() -> None:
    async def check(world: MemberWorld) -> None:
        await make_node(world, "a", cpu="4", memory="16Gi", nvidia_com__gpu="8")
        await make_node(world, "b", cpu="6", memory="16Gi", nvidia_com__gpu="4")
        await make_pod(world, "p", "a", cpu="1", nvidia_com__gpu="6")
        resources = [{"name": "nvidia.com/gpu", "nominalQuota": "12"}]
        group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "f", "resources": resources}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        queue = await world.member.client.create(CLUSTER_QUEUES, {"metadata": {"name": "cq"}, "spec": spec})
        used = {"name": "f", "resources": [{"name": "nvidia.com/gpu", "total": "6", "borrowed": "0"}]}
        status = {"pendingWorkloads": 3, "flavorsReservation": [used]}
        await world.member.client.update(CLUSTER_QUEUES, {**queue, "status": status}, subresource="status")
        await asyncio.sleep(11)
        status = status_of(await world.cluster())
        values = {name: one["value"] for name, one in status["properties"].items()}
        assert values == {
            "kubernetes-fleet.io/node-count": "2",
            "largest-free-node.corral.dev/cpu": "6",
            "largest-free-node.corral.dev/memory": "16Gi",
            "largest-free-node.corral.dev/nvidia.com_gpu": "4",
            "pending.queues.corral.dev/cq": "3",
            "quota.queues.corral.dev/cq.nvidia.com_gpu": "12",
            "resources.corral.dev/allocatable-nvidia.com_gpu": "12",
            "resources.corral.dev/available-nvidia.com_gpu": "6",
            "resources.corral.dev/total-nvidia.com_gpu": "12",
            "usage.queues.corral.dev/cq.nvidia.com_gpu": "6",
        }
        assert status["resourceUsage"]["available"]["nvidia.com/gpu"] == "6"

    in_world(check, heartbeat=10)


def test_namespaces_are_reported_on_request_and_forgotten_with_it() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "placed"}})
        await asyncio.sleep(11)
        status = status_of(await world.cluster())
        assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
            ("ClusterPropertyProviderStarted", "True", "Started"),
            ("ClusterPropertyCollectionSucceeded", "True", "PropertiesCollected"),
            ("NamespaceCollectionSucceeded", "True", "Succeeded"),
        ]
        assert status["namespaces"] == {"default": "", "kube-system": "", "ns": "", "placed": "w"}
        assert "k8s.io/k8s-version" in status["properties"]
        assert ("Started", "v1beta1InternalMemberClusterController", 1) in await events(world)

        world.settings = MemberSettings()
        await world.restart_agent()
        await asyncio.sleep(1)
        status = status_of(await world.cluster())
        assert "namespaces" not in status
        assert not status.get("conditions")

    in_world(check, MemberSettings(collect_namespaces=True), heartbeat=10)
