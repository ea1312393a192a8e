"""Marks nodes that failed under placed workloads, so that their pods get others; two such nodes at once cost the place.

What counts as a failure says `node_health`. Pods that cannot reach the node they were sent to are ended, so that their
job makes new ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.controllers.queueing.context import FIELD_MANAGER, QueueingContext
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.topology.controller import HOSTNAME, assignments_of, chain_key, workload_key
from corral.controllers.queueing.topology.node_health import Presence, health_of
from corral.core import conditions
from corral.core.conditions import condition, set_condition
from corral.core.errors import NotFound
from corral.core.meta import Key, Obj, is_deleting, key_of, name_of, spec_of, status_of, with_status
from corral.core.timestamps import parse_time
from corral.jobs.pod.adapter import is_terminated
from corral.kinds.kubernetes.core.kinds import NODES, PODS
from corral.kinds.kueue import names
from corral.kinds.kueue.topology_assignment import domains_of
from corral.runtime.controller import Result, Watch
from corral.workload import lifecycle
from corral.workload import workload as wl
from corral.workload.podset_info import FlavorGone, start_infos
from corral.workload.podsets import ConflictingUpdate

BY_NODE = "topologyNode"
BOUND_TO = "topologyBoundTo"
SENT_TO = "topologySentTo"
NOT_READY_GRACE_S = 30.0
BATCH_S = 0.1
STRANDED = "Pod terminated by Kueue NodeController due to node taint"


class NodeFailureController:
    """Looks at a node and at the workloads on it."""

    name = "kueue-tas-node-failure-controller"

    def __init__(self, context: QueueingContext, metrics: QueueingMetrics) -> None:
        self.context = context
        self.metrics = metrics
        self.gates = context.config.gates
        self.workloads = context.caches.workloads
        self.recorder = context.recorder.named(self.name)
        self.nodes = context.manager.informer(NODES)
        self.pods = context.manager.informer(PODS)
        self.pods.add_index(BOUND_TO, _bound_to)
        self.pods.add_index(SENT_TO, _sent_to)
        self.workloads.add_index(BY_NODE, placed_nodes)
        context.manager.add(
            self,
            watches=[
                Watch(NODES, when=_node_changed),
                Watch(PODS, map=_nodes_of_ended_and_waiting, delay=BATCH_S),
            ],
        )

    async def reconcile(self, key: Key) -> Result | None:
        node, name = self.nodes.get(key), key.name
        affected = {key_of(workload): workload for workload in self.workloads.by_index(BY_NODE, name)}
        ready = conditions.find(node, "Ready") if node is not None else None
        if node is None or ready is None:
            for workload in affected.values():
                await self._mark(workload, name)
            return None
        left = self._time_left(ready)
        if left > 0 and not self.gates["TASReplaceNodeOnPodTermination"]:
            return Result(requeue_after=left)
        by_time = self.gates["TASReplaceNodeDueToNotReadyOverFixedTime"] and ready.get("status") != "True"
        if by_time and left <= 0:
            for workload in affected.values():
                await self._mark(workload, name)
            return None
        await self._look(node, affected)
        return Result(requeue_after=left) if by_time and left > 0 else None

    def _time_left(self, ready: Obj) -> float:
        """How long a node that is not ready may yet come back."""
        if ready.get("status") == "True" or not ready.get("lastTransitionTime"):
            return 0.0
        return parse_time(ready["lastTransitionTime"]) + NOT_READY_GRACE_S - self.context.clock.now()

    async def _look(self, node: Obj, affected: dict[Key, Obj]) -> None:
        name = name_of(node)
        sent = self._by_workload(self.pods.by_index(SENT_TO, name))
        bound = self._by_workload(self.pods.by_index(BOUND_TO, name))
        for key in sent:
            late = self.workloads.get(key) if key not in affected else None
            if late is not None and not wl.is_finished(late) and not wl.is_evicted(late):
                affected[key] = late
        for key, workload in affected.items():
            placed = name in placed_nodes(workload)
            tolerations = self._tolerations(workload, name) if placed and spec_of(node).get("taints") else ()
            presence = Presence(placed, bound.get(key, ()), sent.get(key, ()), tolerations)
            health = health_of(node, presence, self.gates)
            if not health.failed:
                await self._clear(workload, name)
            elif await self._mark(workload, name):
                continue
            for pod in health.stranded:
                await self._end(pod)

    def _by_workload(self, pods: Iterable[Obj]) -> dict[Key, list[Obj]]:
        """Pods by the workload they run under."""
        found: dict[Key, list[Obj]] = {}
        for pod in pods:
            key = chain_key(pod)
            workload = self.context.caches.current_slice(key) if key is not None else None
            if workload is not None:
                found.setdefault(key_of(workload), []).append(pod)
        return found

    def _tolerations(self, workload: Obj, node: str) -> list[list[Obj]]:
        """Of the pod sets on the node: their templates', their flavors' and what admission checks added."""
        assigned = {name for name, entry in assignments_of(workload).items() if node in _hosts(entry)}
        try:
            infos = start_infos(
                workload, lambda name: self.context.caches.flavors.get(Key("", name)), queue_labels=False
            )
        except (FlavorGone, ConflictingUpdate, KeyError):
            infos = []
        added = {info.name: info.tolerations for info in infos}
        return [
            [*(spec_of(pod_set.get("template") or {}).get("tolerations") or ()), *added.get(name, ())]
            for pod_set in wl.pod_sets_of(workload)
            if (name := pod_set.get("name", "main")) in assigned
        ]

    # Writing

    async def _mark(self, workload: Obj, node: str) -> bool:
        """The node is no good for the workload; True when that costs it its place."""
        if wl.is_finished(workload) or wl.is_evicted(workload) or not wl.is_admitted(workload):
            return wl.is_evicted(workload)
        known = [entry["name"] for entry in status_of(workload).get("unhealthyNodes") or []]
        if node in known:
            return False
        if known:
            await self._evict(workload, [*known, node])
            return True
        status = {**status_of(workload), "unhealthyNodes": [{"name": node}]}
        await self.context.write_status(with_status(workload, status))
        return False

    async def _evict(self, workload: Obj, nodes: list[str]) -> None:
        message = "Workload eviction triggered due to multiple TAS assigned node failures, including: " + ", ".join(
            nodes
        )
        new = lifecycle.evict(workload, names.BY_NODE_FAILURES, message, self.context.now())
        written = await self.context.write_status(new)
        self.recorder.event(written, "Normal", f"EvictedDueTo{names.BY_NODE_FAILURES}", message)
        self.metrics.evicted(written, names.BY_NODE_FAILURES, "", self.context.clock.now())

    async def _clear(self, workload: Obj, node: str) -> None:
        held = status_of(workload).get("unhealthyNodes") or []
        kept = [entry for entry in held if entry["name"] != node]
        if len(kept) == len(held):
            return
        status = {**status_of(workload), "unhealthyNodes": kept}
        if not kept:
            del status["unhealthyNodes"]
        await self.context.write_status(with_status(workload, status))

    async def _end(self, pod: Obj) -> None:
        entry = condition("TerminatedByKueue", "True", "UnschedulableOnAssignedNode", STRANDED)
        held = set_condition(conditions.conditions_of(pod), entry, self.context.now())
        ended = with_status(pod, {**status_of(pod), "phase": "Failed", "conditions": held})
        try:
            await self.context.client.update(PODS, ended, subresource="status", manager=FIELD_MANAGER)
        except NotFound:
            return  # gone already
        self.recorder.event(pod, "Normal", "PodTerminatedByKueue", STRANDED)


def placed_nodes(workload: Obj) -> Iterable[str]:
    """Nodes a running workload is placed on, when its topology goes down to single nodes."""
    if not wl.has_quota(workload) or wl.is_finished(workload):
        return ()
    found: dict[str, None] = {}
    for entry in assignments_of(workload).values():
        found.update(dict.fromkeys(_hosts(entry)))
    return found


def _hosts(entry: Obj) -> Iterable[str]:
    assignment = entry["topologyAssignment"]
    if assignment["levels"][-1] != HOSTNAME:
        return ()
    return {domain.values[-1]: None for domain in domains_of(assignment)}


def _bound_to(pod: Obj) -> Iterable[str]:
    node = spec_of(pod).get("nodeName")
    return (str(node),) if node and workload_key(pod) is not None else ()


def _sent_to(pod: Obj) -> Iterable[str]:
    host = (spec_of(pod).get("nodeSelector") or {}).get(HOSTNAME)
    return (str(host),) if host and workload_key(pod) is not None else ()


def _nodes_of_ended_and_waiting(pod: Obj) -> Iterable[Key]:
    """Nodes to look at because a pod on it ended, or one sent there has not arrived."""
    if not spec_of(pod).get("nodeName"):
        return [Key("", host) for host in _sent_to(pod)]
    return [Key("", node) for node in _bound_to(pod)] if is_deleting(pod) or is_terminated(pod) else ()


def _node_changed(old: Obj | None, new: Obj | None) -> bool:
    if old is None or new is None:
        return True
    return conditions.is_true(old, "Ready") != conditions.is_true(new, "Ready") or spec_of(old).get(
        "taints"
    ) != spec_of(new).get("taints")
