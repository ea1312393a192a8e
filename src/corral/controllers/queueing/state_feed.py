"""Feeds the queueing state from the caches, so that it always knows what the caches know."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from corral.controllers.queueing.context import Caches
from corral.controllers.queueing.topology.controller import assignments_of, workload_key
from corral.core.meta import Key, Obj, key_of, name_of, namespace_of
from corral.decide.queueing.state import QueueingState
from corral.runtime.informer import Informer, Reader

Wake = Callable[[], None]


class DeviceCaches(NamedTuple):
    """What is known about devices."""

    classes: Informer
    templates: Informer
    slices: Informer


class StateFeed:
    """Passes every change on to the state and wakes whoever plans."""

    def __init__(self, state: QueueingState, wake: Wake) -> None:
        self._state = state
        self._wake = wake
        self._workloads: Reader | None = None
        self._limits: Reader | None = None
        self._unclear: dict[Key, dict[Key, Obj]] = {}
        """Pods of workloads that are not known yet; whether they count is told by their workload."""

    def connect(
        self,
        caches: Caches,
        *,
        limits: Informer,
        classes: Informer,
        nodes: Informer | None,
        pods: Informer | None,
        devices: DeviceCaches | None = None,
    ) -> None:
        """Follow all kinds that decisions depend on; nodes and pods only matter for topology."""
        state = self._state
        self._limits = limits
        self._follow(limits, self._limit_range, self._limit_range)
        self._follow(classes, self._runtime_class, _by_name(lambda name: state.set_runtime_class(name, {})))
        self._follow(caches.namespaces, state.upsert_namespace, _by_name(state.delete_namespace))
        self._follow(caches.topologies, state.upsert_topology, _by_name(state.delete_topology))
        self._follow(caches.flavors, state.upsert_flavor, _by_name(state.delete_flavor))
        self._follow(caches.checks, state.upsert_admission_check, _by_name(state.delete_admission_check))
        self._follow(caches.cohorts, state.upsert_cohort, _by_name(state.delete_cohort))
        self._follow(caches.cluster_queues, state.upsert_cluster_queue, _by_name(state.delete_cluster_queue))
        self._follow(caches.local_queues, state.upsert_local_queue, _by_key(state.delete_local_queue))
        if devices is not None:
            self._follow(devices.classes, state.set_device_class, _by_name(state.delete_device_class))
            self._follow(devices.templates, state.set_claim_template, _by_key(state.delete_claim_template))
            self._follow(devices.slices, state.set_resource_slice, _by_name(state.delete_resource_slice))
        self._workloads = caches.workloads
        self._follow(caches.workloads, self._workload, _by_key(state.delete_workload))
        if nodes is not None:
            self._follow(nodes, state.upsert_node, _by_name(state.delete_node))
        if pods is not None:
            self._follow(pods, self._pod, self._pod_gone)

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
        key = workload_key(pod)
        if key is None:
            self._state.upsert_pod(pod)
        elif self._workloads is None or (workload := self._workloads.get(key)) is None:
            self._unclear.setdefault(key, {})[key_of(pod)] = pod
        elif not assignments_of(workload):
            self._state.upsert_pod(pod)

    def _workload(self, workload: Obj) -> None:
        self._state.upsert_workload(workload)
        for pod in self._unclear.pop(key_of(workload), {}).values():
            self._pod(pod)

    def _pod_gone(self, pod: Obj) -> None:
        key = workload_key(pod)
        if key is not None:
            self._unclear.get(key, {}).pop(key_of(pod), None)
        self._state.delete_pod(key_of(pod))

    def _limit_range(self, limit_range: Obj) -> None:
        """One changed; all of its namespace count together."""
        namespace = namespace_of(limit_range)
        if self._limits is not None:
            self._state.set_limit_ranges(namespace, self._limits.list(namespace))

    def _runtime_class(self, runtime_class: Obj) -> None:
        overhead = (runtime_class.get("overhead") or {}).get("podFixed") or {}
        self._state.set_runtime_class(name_of(runtime_class), overhead)


def _by_name(delete: Callable[[str], None]) -> Callable[[Obj], None]:
    return lambda obj: delete(name_of(obj))


def _by_key(delete: Callable[[Key], None]) -> Callable[[Obj], None]:
    return lambda obj: delete(key_of(obj))
