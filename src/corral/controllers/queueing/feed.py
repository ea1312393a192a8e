"""Feeds the queueing state from the caches, so that it always knows what the caches know."""

from __future__ import annotations

from collections.abc import Callable

from corral.controllers.queueing.context import Caches
from corral.core.meta import Key, Obj, controller_of, key_of, labels_of, name_of, spec_of
from corral.decide.queueing.state import QueueingState
from corral.kinds.kueue import names
from corral.runtime.informer import Informer

Wake = Callable[[], None]


class Feed:
    """Passes every change on to the state and wakes whoever plans."""

    def __init__(self, state: QueueingState, wake: Wake) -> None:
        self._state = state
        self._wake = wake

    def connect(self, caches: Caches, nodes: Informer | None, pods: Informer | None, classes: Informer | None) -> None:
        """Follow all kinds that decisions depend on; nodes and pods only matter for topology."""
        state = self._state
        self._follow(caches.namespaces, state.upsert_namespace, _by_name(state.delete_namespace))
        self._follow(caches.topologies, state.upsert_topology, _by_name(state.delete_topology))
        self._follow(caches.flavors, state.upsert_flavor, _by_name(state.delete_flavor))
        self._follow(caches.checks, state.upsert_admission_check, _by_name(state.delete_admission_check))
        self._follow(caches.cohorts, state.upsert_cohort, _by_name(state.delete_cohort))
        self._follow(caches.cluster_queues, state.upsert_cluster_queue, _by_name(state.delete_cluster_queue))
        self._follow(caches.local_queues, state.upsert_local_queue, _by_key(state.delete_local_queue))
        self._follow(caches.workloads, state.upsert_workload, _by_key(state.delete_workload))
        if classes is not None:
            self._follow(classes, self._runtime_class, _ignore)
        if nodes is not None:
            self._follow(nodes, state.upsert_node, _by_name(state.delete_node))
        if pods is not None:
            self._follow(pods, self._pod, _by_key(state.delete_pod))

    def _follow(self, informer: Informer, upsert: Callable[[Obj], None], delete: Callable[[Obj], None]) -> None:
        def change(old: Obj | None, new: Obj | None) -> None:
            if new is not None:
                upsert(new)
            elif old is not None:
                delete(old)
            self._wake()

        informer.on_change(change)

    def _pod(self, pod: Obj) -> None:
        """Pods that a topology assignment accounts for are not counted twice."""
        if names.PODSET in labels_of(pod) and names.WORKLOAD in (pod["metadata"].get("annotations") or {}):
            gates = spec_of(pod).get("schedulingGates") or []
            placed = controller_of(pod) is not None or gates
            if placed and names.TOPOLOGY_GATE in {gate["name"] for gate in gates}:
                return
        self._state.upsert_pod(pod)

    def _runtime_class(self, runtime_class: Obj) -> None:
        overhead = (runtime_class.get("overhead") or {}).get("podFixed") or {}
        self._state.set_runtime_class(name_of(runtime_class), overhead)


def _by_name(delete: Callable[[str], None]) -> Callable[[Obj], None]:
    return lambda obj: delete(name_of(obj))


def _by_key(delete: Callable[[Key], None]) -> Callable[[Obj], None]:
    return lambda obj: delete(key_of(obj))


def _ignore(obj: Obj) -> None:
    """Overheads of classes that are gone matter to nobody new."""
