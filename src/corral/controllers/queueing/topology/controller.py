"""Topology at run time: places the pods of admitted workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from corral.controllers.queueing.context import FIELD_MANAGER, QueueingContext
from corral.controllers.queueing.metrics import QueueingMetrics, transition_time
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
)
from corral.jobs.pod.adapter import gates_of, is_terminated
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.controller import Result, Watch
from corral.workload import workload as wl
from corral.workload.pod_domains import Selectors, first_ranks, placements

BY_CHAIN = "slice-chain"
HOSTNAME = "kubernetes.io/hostname"


def workload_key(pod: Obj) -> Key | None:
    """The workload a pod was started for."""
    name = annotations_of(pod).get(names.WORKLOAD)
    return Key(namespace_of(pod), name) if name and names.PODSET in labels_of(pod) else None


def chain_key(pod: Obj) -> Key | None:
    """The first slice of the elastic job a pod belongs to, or else the workload it was started for."""
    key, name = workload_key(pod), annotations_of(pod).get(names.WORKLOAD_SLICE_NAME)
    return Key(key.namespace, name) if key is not None and name else key


def _chain_index(pod: Obj) -> Iterable[str]:
    key = chain_key(pod)
    return (str(key),) if key is not None else ()


def assignments_of(workload: Obj) -> dict[str, Obj]:
    """Pod set assignments that place pods, by pod set."""
    entries = wl.admission_of(workload).get("podSetAssignments") or []
    return {entry.get("name", "main"): entry for entry in entries if entry.get("topologyAssignment")}


class TopologyUngater:
    """Gives every pod of a placed workload its domain and takes its gate away."""

    name = "kueue-tas-topology-ungater"

    def __init__(self, context: QueueingContext, metrics: QueueingMetrics) -> None:
        self.context = context
        self.metrics = metrics
        self.pods = context.manager.informer(PODS)
        self.pods.add_index(BY_CHAIN, _chain_index)
        context.manager.add(
            self,
            watches=[Watch(PODS, map=_gated_chain), Watch(WORKLOADS, map=_own_chain, when=_placement_changed)],
            workers=2,
        ).about(context.caches.current_slice)

    async def reconcile(self, key: Key) -> Result | None:
        """`key` names the first slice of an elastic job, or else the workload itself."""
        workload = self.context.caches.current_slice(key)
        if workload is None or not wl.is_admitted(workload) or wl.is_evicted(workload):
            return None
        requests = {entry.get("name", "main"): entry.get("topologyRequest") or {} for entry in wl.pod_sets_of(workload)}
        members = self._members(key)
        first = first_ranks(wl.admission_of(workload).get("podSetAssignments") or [], requests)
        for name, entry in assignments_of(workload).items():
            pods = members.get(name, [])
            waiting = [pod for pod in pods if names.TOPOLOGY_GATE in gates_of(pod)]
            if waiting:
                selectors = placements(
                    entry["topologyAssignment"], requests.get(name, {}), pods, waiting, first.get(name, 0)
                )
                await self._place(workload, selectors, waiting)
        return None

    def _members(self, key: Key) -> dict[str, list[Obj]]:
        members: dict[str, list[Obj]] = {}
        for pod in self.pods.by_index(BY_CHAIN, str(key)):
            if not is_deleting(pod) and not is_terminated(pod):
                members.setdefault(labels_of(pod)[names.PODSET], []).append(pod)
        return members

    async def _place(self, workload: Obj, selectors: Selectors, waiting: Sequence[Obj]) -> None:
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


def _own_chain(workload: Obj) -> Iterable[Key]:
    return (Key(namespace_of(workload), wl.slice_name(workload)),)


def _gated_chain(pod: Obj) -> Iterable[Key]:
    key = chain_key(pod)
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
