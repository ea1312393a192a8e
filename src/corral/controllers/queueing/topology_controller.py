"""Topology at run time: places the pods of admitted workloads, and reports nodes that failed under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from corral.controllers.queueing.context import FIELD_MANAGER, Context
from corral.controllers.queueing.metrics import QueueingMetrics, transition_time
from corral.core import conditions
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    with_spec,
    with_status,
)
from corral.core.resource import Resource
from corral.core.timestamps import parse_time
from corral.jobs import workload as wl
from corral.jobs.placement import placements
from corral.jobs.pod import gates_of, is_terminated
from corral.kinds.kueue import WORKLOADS, names
from corral.kinds.kueue.topology_assignment import domains_of
from corral.runtime.controller import Manager, Result, Watch

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
BY_WORKLOAD = "workload"
BY_NODE = "topologyNode"
HOSTNAME = "kubernetes.io/hostname"
NOT_READY_GRACE_S = 30.0
MAX_UNHEALTHY = 8


def workload_key(pod: Obj) -> Key | None:
    """The workload a pod was started for."""
    name = annotations_of(pod).get(names.WORKLOAD)
    return Key(namespace_of(pod), name) if name and names.PODSET in labels_of(pod) else None


def _workload_index(pod: Obj) -> Iterable[str]:
    key = workload_key(pod)
    return (str(key),) if key is not None else ()


def assignments_of(workload: Obj) -> dict[str, Obj]:
    """Pod set assignments that place pods, by pod set."""
    entries = wl.admission_of(workload).get("podSetAssignments") or []
    return {entry.get("name", "main"): entry for entry in entries if entry.get("topologyAssignment")}


class TopologyUngater:
    """Gives every pod of a placed workload its domain and takes its gate away."""

    name = "kueue-tas-topology-ungater"

    def __init__(self, context: Context, metrics: QueueingMetrics) -> None:
        self.context = context
        self.metrics = metrics
        self.workloads = context.caches.workloads

    def setup(self, manager: Manager) -> None:
        self.pods = manager.informer(PODS)
        self.pods.add_index(BY_WORKLOAD, _workload_index)
        manager.add(
            self,
            watches=[Watch(PODS, map=_gated_workload), Watch(WORKLOADS, when=_placement_changed)],
            workers=2,
        )

    async def reconcile(self, key: Key) -> Result | None:
        workload = self.workloads.get(key)
        if workload is None or not wl.is_admitted(workload) or wl.is_evicted(workload):
            return None
        requests = {entry.get("name", "main"): entry.get("topologyRequest") or {} for entry in wl.pod_sets_of(workload)}
        members = self._members(key)
        for name, entry in assignments_of(workload).items():
            pods = members.get(name, [])
            waiting = [pod for pod in pods if names.TOPOLOGY_GATE in gates_of(pod)]
            if waiting:
                await self._place(workload, entry["topologyAssignment"], requests.get(name, {}), pods, waiting)
        return None

    def _members(self, key: Key) -> dict[str, list[Obj]]:
        members: dict[str, list[Obj]] = {}
        for pod in self.pods.by_index(BY_WORKLOAD, str(key)):
            if not is_deleting(pod) and not is_terminated(pod):
                members.setdefault(labels_of(pod)[names.PODSET], []).append(pod)
        return members

    async def _place(
        self, workload: Obj, assignment: Obj, request: Obj, pods: Sequence[Obj], waiting: Sequence[Obj]
    ) -> None:
        selectors = placements(assignment, request, pods, waiting)
        for pod in waiting:
            selector = selectors.get(name_of(pod))
            if selector is not None:
                await self.context.client.update(PODS, _placed(pod, selector), manager=FIELD_MANAGER)
                self._observe(workload)

    def _observe(self, workload: Obj) -> None:
        now = self.context.clock.now()
        admitted = transition_time(workload, names.ADMITTED) or now
        is_group = "true" if names.IS_GROUP_WORKLOAD in annotations_of(workload) else "false"
        labels = (names.TOPOLOGY_GATE, wl.cluster_queue_of(workload), is_group)
        self.metrics.observe("kueue_pod_scheduling_gate_removal_seconds", now - admitted, *labels)


def _gated_workload(pod: Obj) -> Iterable[Key]:
    key = workload_key(pod)
    return (key,) if key is not None and names.TOPOLOGY_GATE in gates_of(pod) else ()


def _placement_changed(old: Obj | None, new: Obj | None) -> bool:
    if new is None or not assignments_of(new):
        return False
    return (
        old is None
        or status_of(old).get("admission") != status_of(new).get("admission")
        or wl.is_admitted(old) != wl.is_admitted(new)
    )


def _placed(pod: Obj, selector: Mapping[str, str]) -> Obj:
    spec = spec_of(pod)
    kept = [gate for gate in spec.get("schedulingGates") or [] if gate["name"] != names.TOPOLOGY_GATE]
    new = {name: value for name, value in spec.items() if name != "schedulingGates"}
    new["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **selector}
    return with_spec(pod, {**new, "schedulingGates": kept} if kept else new)


class NodeFailureController:
    """Marks nodes that went away or stopped being ready on the workloads placed on them."""

    name = "kueue-tas-node-failure-controller"

    def __init__(self, context: Context) -> None:
        self.context = context
        self.workloads = context.caches.workloads

    def setup(self, manager: Manager) -> None:
        self.nodes = manager.informer(NODES)
        self.workloads.add_index(BY_NODE, _placed_nodes)
        manager.add(self, watches=[Watch(NODES, when=_health_changed)])

    async def reconcile(self, key: Key) -> Result | None:
        affected = self.workloads.by_index(BY_NODE, key.name)
        if not affected:
            return None
        node = self.nodes.get(key)
        wait = self._time_left(node)
        if wait > 0:
            return Result(requeue_after=wait)
        failed = node is None or not conditions.is_true(node, "Ready")
        for workload in affected:
            await self._mark(workload, key.name, failed)
        return None

    def _time_left(self, node: Obj | None) -> float:
        """A node that is briefly not ready is given a moment."""
        entry = conditions.find(node, "Ready") if node is not None else None
        if entry is None or entry.get("status") == "True" or not entry.get("lastTransitionTime"):
            return 0.0
        return parse_time(entry["lastTransitionTime"]) + NOT_READY_GRACE_S - self.context.clock.now()

    async def _mark(self, workload: Obj, node: str, failed: bool) -> None:
        if wl.is_finished(workload) or not wl.is_admitted(workload) or wl.is_evicted(workload):
            return
        held = status_of(workload).get("unhealthyNodes") or []
        known = [entry["name"] for entry in held]
        if failed == (node in known) or (failed and len(held) >= MAX_UNHEALTHY):
            return
        marked = [*held, {"name": node}] if failed else [entry for entry in held if entry["name"] != node]
        status = {**status_of(workload), "unhealthyNodes": marked}
        if not marked:
            del status["unhealthyNodes"]
        await self.context.write_status(with_status(workload, status))


def _placed_nodes(workload: Obj) -> Iterable[str]:
    """Nodes a running workload is placed on, when its topology goes down to single nodes."""
    if not wl.has_quota(workload) or wl.is_finished(workload):
        return ()
    found: dict[str, None] = {}
    for entry in assignments_of(workload).values():
        assignment = entry["topologyAssignment"]
        if assignment["levels"][-1] == HOSTNAME:
            found.update(dict.fromkeys(domain.values[-1] for domain in domains_of(assignment)))
    return found


def _health_changed(old: Obj | None, new: Obj | None) -> bool:
    return old is None or new is None or conditions.is_true(old, "Ready") != conditions.is_true(new, "Ready")
