"""When a node is given up on for the workloads placed on it, and which pods go with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.context import QueueingContext
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.topology.node_failures import NodeFailureController
from corral.core.meta import Obj
from corral.core.timestamps import format_time
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import RESOURCE_FLAVORS, WORKLOADS, names
from corral.kinds.kueue.gates import FeatureGates
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

from .test_node_failure import NODES
from .world import EVENTS, PODS, condition

HOST = "kubernetes.io/hostname"
ON_TIME = {"TASReplaceNodeOnPodTermination": False, "TASReplaceNodeDueToNotReadyOverFixedTime": True}
AT_ONCE = {"TASReplaceNodeOnPodTermination": False}
FIXED_TIME = {"TASReplaceNodeDueToNotReadyOverFixedTime": True}
EXECUTE = {"key": "bad", "value": "disk", "effect": "NoExecute"}
SCHEDULE = {"key": "bad", "value": "disk", "effect": "NoSchedule"}
TOLERATED = {"key": "bad", "operator": "Exists"}
FOR_A_WHILE = {"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def pod(name: str, phase: str = "Running", *, on: str = "n1", sent: str = "", **more: Any) -> Obj:
    """A pod of the workload: bound to a node, or sent to one."""
    spec: Obj = {"containers": [{"name": "c", "image": "i"}]}
    if sent:
        spec["nodeSelector"] = {HOST: sent}
    elif on:
        spec["nodeName"] = on
    if more.get("gated"):
        spec["schedulingGates"] = [{"name": names.TOPOLOGY_GATE}]
    metadata: Obj = {"name": name, "namespace": "default", "labels": {names.PODSET: "main"}}
    metadata["annotations"] = {names.WORKLOAD: "w"}
    if more.get("leaving"):
        metadata["finalizers"] = ["example.com/keep"]
    return {"metadata": metadata, "spec": spec, "phase": phase, "leaving": bool(more.get("leaving"))}


@dataclass
class Case:
    """A node, what of a workload is on it, and what becomes of both."""

    ready: str | None = "False"
    """Its Ready condition; empty when it has none, None when there is no such node."""
    since: float = 60
    taints: list[Obj] = field(default_factory=list)
    pods: list[Obj] = field(default_factory=list)
    gates: dict[str, bool] = field(default_factory=dict)
    placed: tuple[str, ...] = ("n1",)
    level: str = HOST
    tolerations: list[Obj] = field(default_factory=list)
    flavor: list[Obj] = field(default_factory=list)
    update: list[Obj] = field(default_factory=list)
    """Tolerations of the template, of the flavor, and of an admission check."""
    conditions: dict[str, str] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    wait: float = 1
    failed: bool = False
    """Is the node marked on the workload afterwards?"""
    ended: tuple[str, ...] = ()
    evicted: str = ""


CASES = {
    "ready": Case("True", pods=[pod("a")]),
    "ready again": Case("True", pods=[pod("a")], known=("n1",)),
    "gone": Case(None, pods=[pod("a")], failed=True),
    "without a Ready condition": Case("", pods=[pod("a")], failed=True),
    "not ready, a pod runs": Case(pods=[pod("a")]),
    "not ready, a pod is leaving": Case(since=0, pods=[pod("a", leaving=True)], failed=True),
    "not ready, a pod has failed": Case(since=0, pods=[pod("a", "Failed")], failed=True),
    "not ready, no pods": Case(since=0, failed=True),
    "not ready, two have ended, one runs": Case(pods=[pod("a", "Succeeded"), pod("b", "Succeeded"), pod("c")]),
    "not ready, one has not started yet": Case(
        pods=[pod("a", "Succeeded"), pod("b", "Pending"), pod("c", "Failed")],
    ),
    "not ready, a pod never arrived": Case(pods=[pod("a", "Pending", sent="n1")], failed=True, ended=("a",)),
    "not ready, a pod waits for its place": Case(pods=[pod("a", "Pending", on="", gated=True)], failed=True),
    "not ready, hosts are not known": Case(level="rack", pods=[pod("a", "Pending", sent="")], failed=False),
    "not ready for long, by time": Case(pods=[pod("a")], gates=FIXED_TIME, failed=True),
    "not ready for a moment, by time": Case(since=0, pods=[pod("a")], gates=FIXED_TIME),
    "not ready until its time is up": Case(since=0, wait=31, pods=[pod("a")], gates=FIXED_TIME, failed=True),
    "not ready for a moment, pods do not matter": Case(since=0, pods=[pod("a", "Failed")], gates=ON_TIME),
    "not ready for long, pods do not matter": Case(pods=[pod("a")], gates=ON_TIME, failed=True),
    "not ready for long, neither gate": Case(pods=[pod("a")], gates=AT_ONCE, failed=True),
    "not ready, but the workload has finished": Case(conditions={"Finished": "True"}),
    "not ready, but the workload was evicted": Case(conditions={"Evicted": "True"}),
    "the second node": Case(
        placed=("n1", "n2"),
        known=("n2",),
        evicted="Workload eviction triggered due to multiple TAS assigned node failures, including: n2, n1",
    ),
    "a pod came late for a place that was given up": Case(
        placed=("n2",), pods=[pod("late", "Pending", sent="n1")], ended=("late",)
    ),
    "gone, and a pod came late": Case(None, placed=("n2",), pods=[pod("late", "Pending", sent="n1")]),
    "tainted, a pod runs": Case("True", taints=[EXECUTE], pods=[pod("a")]),
    "tainted, a pod is leaving": Case("True", taints=[EXECUTE], pods=[pod("a", leaving=True)], failed=True),
    "tainted, no pods": Case("True", taints=[EXECUTE], failed=True),
    "tainted, at once": Case("True", taints=[EXECUTE], pods=[pod("a")], gates=AT_ONCE, failed=True),
    "tainted, taints do not matter": Case(
        "True", taints=[EXECUTE], gates={"TASReplaceNodeOnNodeTaints": False}, failed=False
    ),
    "tainted, tolerated for a while": Case("True", taints=[EXECUTE], tolerations=[FOR_A_WHILE], pods=[pod("a")]),
    "tainted, tolerated for a while, a pod is leaving": Case(
        "True", taints=[EXECUTE], tolerations=[FOR_A_WHILE], pods=[pod("a", leaving=True)], failed=True
    ),
    "tainted, tolerated for a while, at once": Case(
        "True", taints=[EXECUTE], tolerations=[FOR_A_WHILE], pods=[pod("a")], gates=AT_ONCE
    ),
    "closed, a pod runs": Case("True", taints=[SCHEDULE], pods=[pod("a")]),
    "closed, at once": Case("True", taints=[SCHEDULE], pods=[pod("a")], gates=AT_ONCE, failed=True),
    "closed, no pods": Case("True", taints=[SCHEDULE], failed=True),
    "closed, a pod never arrived": Case(
        "True", taints=[SCHEDULE], pods=[pod("a", "Pending", sent="n1")], failed=True, ended=("a",)
    ),
    "closed, only what was sent there ends": Case(
        "True",
        taints=[SCHEDULE],
        pods=[pod("a", "Pending", sent="n1"), pod("b", "Pending", sent="elsewhere")],
        failed=True,
        ended=("a",),
    ),
    "closed, tolerated": Case("True", taints=[SCHEDULE], tolerations=[TOLERATED]),
    "closed, tolerated by the flavor": Case("True", taints=[SCHEDULE], flavor=[TOLERATED]),
    "closed, tolerated by a check": Case("True", taints=[SCHEDULE], update=[TOLERATED]),
    "unloved": Case("True", taints=[{**SCHEDULE, "effect": "PreferNoSchedule"}]),
}


def workload_status(case: Case, now: str) -> Obj:
    held = {"QuotaReserved": "True", "Admitted": "True", **case.conditions}
    places = {
        "levels": [case.level],
        "slices": [
            {"domainCount": 1, "valuesPerLevel": [{"universal": node}], "podCounts": {"universal": 1}}
            for node in case.placed
        ],
    }
    entry = {
        "name": "main",
        "count": len(case.placed),
        "flavors": {"cpu": "f"},
        "resourceUsage": {"cpu": "1"},
        "topologyAssignment": places,
    }
    status: Obj = {
        "conditions": [
            {"type": kind, "status": value, "reason": kind, "message": "", "lastTransitionTime": now}
            for kind, value in held.items()
        ],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [entry]},
    }
    if case.known:
        status["unhealthyNodes"] = [{"name": name} for name in case.known]
    if case.update:
        updates = [{"name": "main", "tolerations": case.update}]
        status["admissionChecks"] = [
            {"name": "ac", "state": "Ready", "message": "", "lastTransitionTime": now, "podSetUpdates": updates}
        ]
    return status


async def fill(cluster: VirtualCluster, case: Case) -> None:
    client, now = cluster.client, cluster.clock.timestamp()
    spec = {"nodeLabels": {"a": "b"}, "tolerations": case.flavor}
    await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "f"}, "spec": spec})
    if case.ready is not None:
        labels = {HOST: "n1"}
        node = await client.create(
            NODES, {"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": case.taints}}
        )
        since = format_time(cluster.clock.now() - case.since)
        entry = {"type": "Ready", "status": case.ready, "lastTransitionTime": since, "lastHeartbeatTime": since}
        held = [entry] if case.ready else []
        await client.update(
            NODES, {**node, "status": {**node.get("status", {}), "conditions": held}}, subresource="status"
        )
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": case.tolerations}}
    pod_set = {"name": "main", "count": len(case.placed), "template": template}
    metadata = {"name": "w", "namespace": "default"}
    workload = await client.create(WORKLOADS, {"metadata": metadata, "spec": {"podSets": [pod_set], "queueName": "lq"}})
    await client.update(WORKLOADS, {**workload, "status": workload_status(case, now)}, subresource="status")
    for wanted in case.pods:
        made = await client.create(PODS, {"metadata": wanted["metadata"], "spec": wanted["spec"]})
        await client.update(PODS, {**made, "status": {"phase": wanted["phase"]}}, subresource="status")
        if wanted["leaving"]:
            await client.delete(PODS, wanted["metadata"]["name"], "default", grace=0)


@pytest.mark.parametrize("name", CASES)
def test_node(name: str) -> None:
    case = CASES[name]

    def set_up(manager: Manager) -> None:
        config = QueueingConfig(gates=FeatureGates(case.gates))
        context = QueueingContext(manager, config)
        NodeFailureController(context, QueueingMetrics(manager.metrics))

    async def main() -> None:
        cluster = VirtualCluster([set_up], lifecycle=False)
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "default"}})
        await fill(cluster, case)
        async with cluster:
            if case.ready is None:
                # The controller learns of a node that is gone when a pod on it changes, or when it goes.
                node = await cluster.client.create(NODES, {"metadata": {"name": "n1"}})
                await cluster.settle()
                await cluster.client.delete(NODES, node["metadata"]["name"])
            await cluster.settle()
            await cluster.advance(case.wait)
            workload = await cluster.client.get(WORKLOADS, "w", "default")
            marked = [entry["name"] for entry in workload["status"].get("unhealthyNodes", [])]
            assert ("n1" in marked) is case.failed
            evicted = condition(workload, "Evicted")
            if case.evicted:
                assert evicted == ("True", "NodeFailures", case.evicted)
            elif "Evicted" not in case.conditions:
                assert evicted is None
            pods = (await cluster.client.list(PODS)).items
            ended = {entry["metadata"]["name"]: condition(entry, "TerminatedByKueue") for entry in pods}
            reason = ("True", "UnschedulableOnAssignedNode", "Pod terminated by Kueue NodeController due to node taint")
            assert {each: found for each, found in ended.items() if found} == dict.fromkeys(case.ended, reason)
            told = [event["reason"] for event in (await cluster.client.list(EVENTS)).items]
            assert told == ["EvictedDueToNodeFailures"] * bool(case.evicted) + ["PodTerminatedByKueue"] * len(
                case.ended
            )

    run_virtual(main)
