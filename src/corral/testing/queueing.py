"""Builders for Kueue objects and a tiny world that acts on plans as a controller would, without any API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from corral.core.budget import Cpu
from corral.core.conditions import condition, set_condition
from corral.core.meta import Key, Obj, key_of, status_of, with_status
from corral.core.timestamps import format_time
from corral.decide.queueing.cycle.plan import Admit, CyclePlan, Evict, Preempt, Wait
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.state import QueueingState

Quota = str | int | tuple[str | int | None, ...]
"""Nominal quota, or (nominal, borrowing limit, lending limit)."""
Flavors = Mapping[str, Mapping[str, Quota]]
"""Quota per resource, per flavor; all flavors of one resource group."""

EPOCH = 1_800_000_000.0


def make_flavor(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": spec}


def make_cohort(name: str, parent: str = "", *groups: Flavors, weight: str | None = None) -> Obj:
    spec: Obj = {"resourceGroups": [_group(group) for group in groups]}
    if parent:
        spec["parentName"] = parent
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    return {"metadata": {"name": name}, "spec": spec}


def make_cluster_queue(
    name: str,
    *groups: Flavors,
    cohort: str = "",
    within: str = "Never",
    reclaim: str = "Never",
    borrow: Obj | None = None,
    strict: bool = False,
    weight: str | None = None,
    **spec: Any,
) -> Obj:
    """A ClusterQueue open to all namespaces; `spec` overrides anything."""
    preemption: Obj = {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}
    if borrow is not None:
        preemption["borrowWithinCohort"] = borrow
    built: Obj = {
        "resourceGroups": [_group(group) for group in groups],
        "namespaceSelector": {},
        "queueingStrategy": "StrictFIFO" if strict else "BestEffortFIFO",
        "preemption": preemption,
    }
    if cohort:
        built["cohortName"] = cohort
    if weight is not None:
        built["fairSharing"] = {"weight": weight}
    return {"metadata": {"name": name}, "spec": {**built, **spec}}


def _group(flavors: Flavors) -> Obj:
    covered = list(next(iter(flavors.values())))
    return {
        "coveredResources": covered,
        "flavors": [
            {"name": flavor, "resources": [_quota(resource, quota) for resource, quota in quotas.items()]}
            for flavor, quotas in flavors.items()
        ],
    }


def _quota(resource: str, quota: Quota) -> Obj:
    parts = quota if isinstance(quota, tuple) else (quota,)
    names = ("nominalQuota", "borrowingLimit", "lendingLimit")
    limits = {name: str(value) for name, value in zip(names, parts, strict=False) if value is not None}
    return {"name": resource, **limits}


def make_local_queue(name: str, cluster_queue: str, namespace: str = "default", **spec: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": cluster_queue, **spec}}


def make_pod_set(
    name: str = "main",
    count: int = 1,
    requests: Mapping[str, str | int] | None = None,
    *,
    min_count: int | None = None,
    topology: Obj | None = None,
    **pod_spec: Any,
) -> Obj:
    container = {"name": "c", "resources": {"requests": {key: str(value) for key, value in (requests or {}).items()}}}
    pod_set: Obj = {"name": name, "count": count, "template": {"spec": {"containers": [container], **pod_spec}}}
    if min_count is not None:
        pod_set["minCount"] = min_count
    if topology is not None:
        pod_set["topologyRequest"] = topology
    return pod_set


def make_workload(
    name: str,
    queue: str = "lq",
    *pod_sets: Obj,
    namespace: str = "default",
    priority: int = 0,
    created: float = 0.0,
    requests: Mapping[str, str | int] | None = None,
    count: int = 1,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Obj:
    """A pending Workload created `created` seconds after the epoch of the tests."""
    metadata: Obj = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": format_time(EPOCH + created),
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    if labels:
        metadata["labels"] = dict(labels)
    sets = list(pod_sets) or [make_pod_set("main", count, requests)]
    return {
        "metadata": metadata,
        "spec": {"queueName": queue, "priority": priority, "podSets": sets, **spec},
    }


def reserve(
    workload: Obj,
    cluster_queue: str,
    *assignments: Obj,
    at: float = 0.0,
    admitted: bool = True,
) -> Obj:
    """The workload with quota reserved (and admitted) as stated."""
    now = format_time(EPOCH + at)
    conditions = [
        condition("QuotaReserved", "True", "QuotaReserved", f"Quota reserved in ClusterQueue {cluster_queue}")
    ]
    if admitted:
        conditions.append(condition("Admitted", "True", "Admitted", "The workload is admitted"))
    status = {
        **status_of(workload),
        "admission": {"clusterQueue": cluster_queue, "podSetAssignments": list(assignments)},
        "conditions": [{**entry, "lastTransitionTime": now} for entry in conditions],
    }
    return with_status(workload, status)


def make_assignment(
    name: str = "main",
    flavors: Mapping[str, str] | None = None,
    usage: Mapping[str, str | int] | None = None,
    count: int = 1,
) -> Obj:
    """A podSetAssignment: flavor and total usage per resource."""
    return {
        "name": name,
        "flavors": dict(flavors or {}),
        "resourceUsage": {key: str(value) for key, value in (usage or {}).items()},
        "count": count,
    }


def make_node(
    name: str, labels: Mapping[str, str] | None = None, taints: Sequence[Obj] = (), **allocatable: str
) -> Obj:
    """A ready node; its host name label is set."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints)},
        "status": {
            "allocatable": {"pods": "100", **allocatable},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def make_topology(name: str, *levels: str) -> Obj:
    return {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": level} for level in levels]}}


class QueueingWorld:
    """Objects and a queueing state, advanced by hand: the controller of tests."""

    def __init__(self, settings: QueueingSettings | None = None, *, cpu: Cpu | None = None) -> None:
        self.state = QueueingState(settings)
        if cpu is not None:
            self.state.charge(cpu)
        self.workloads: dict[Key, Obj] = {}
        self.now = EPOCH
        self._version = 0
        self._leaving: dict[Key, None] = {}

    def put(self, *workloads: Obj) -> None:
        """Create or replace workloads."""
        for workload in workloads:
            self._version += 1
            metadata = {**workload["metadata"], "resourceVersion": str(self._version)}
            stored = {**workload, "metadata": metadata}
            self.workloads[key_of(stored)] = stored
            self.state.upsert_workload(stored)

    def delete(self, name: str, namespace: str = "default") -> None:
        key = Key(namespace, name)
        del self.workloads[key]
        self.state.delete_workload(key)

    def get(self, name: str, namespace: str = "default") -> Obj:
        return self.workloads[Key(namespace, name)]

    def cycle(self) -> CyclePlan:
        """Plan and write what was planned; victims stay until `vacate`."""
        plan = self.state.plan_cycle(self.now)
        for decision in plan.decisions:
            match decision:
                case Admit():
                    self._admit(decision)
                case Preempt():
                    for victim in decision.victims:
                        if not victim.ongoing:
                            self.evict(victim.key, "Preempted", victim.message)
                    self._report(decision.key, "Pending", decision.message)
                case Wait() if not decision.second_pass:
                    self._report(decision.key, decision.reason, decision.message)
                case Evict():
                    self.evict(decision.key, decision.reason, decision.message)
        return plan

    def settle(self, rounds: int = 20) -> list[CyclePlan]:
        """Cycle, letting victims leave in between, until nothing happens any more."""
        plans: list[CyclePlan] = []
        for _ in range(rounds):
            plan = self.cycle()
            plans.append(plan)
            left = self.vacate()
            if not plan.decisions and not left:
                break
        return plans

    def _admit(self, decision: Admit) -> None:
        workload = self.workloads[decision.key]
        status = {**status_of(workload), "admission": decision.admission}
        workload = with_status(workload, status)
        workload = self._with(workload, "QuotaReserved", "True", "QuotaReserved", "")
        workload = self._with(workload, "Evicted", "False", "QuotaReserved", "")
        if not decision.checks:
            workload = self._with(workload, "Admitted", "True", "Admitted", "The workload is admitted")
        self.put(workload)

    def _report(self, key: Key, reason: str, message: str) -> None:
        self.put(self._with(self.workloads[key], "QuotaReserved", "False", reason, message))

    def evict(self, key: Key, reason: str = "Preempted", message: str = "") -> None:
        self._leaving[key] = None
        self.put(self._with(self.workloads[key], "Evicted", "True", reason, message))

    def vacate(self) -> list[Key]:
        """Evicted workloads stop: their quota is given back and they are pending again."""
        gone = [key for key in self._leaving if key in self.workloads and "admission" in status_of(self.workloads[key])]
        self._leaving.clear()
        for key in gone:
            workload = self.workloads[key]
            status = {name: value for name, value in status_of(workload).items() if name != "admission"}
            workload = with_status(workload, status)
            for kind in ("QuotaReserved", "Admitted"):
                workload = self._with(workload, kind, "False", "Pending", "")
            self.put(self._with(workload, "Requeued", "True", "Preempted", ""))
        return gone

    def finish(self, name: str, namespace: str = "default") -> None:
        workload = self.workloads[Key(namespace, name)]
        self.put(self._with(workload, "Finished", "True", "Succeeded", ""))

    def _with(self, workload: Obj, kind: str, status: str, reason: str, message: str) -> Obj:
        old = status_of(workload)
        conditions = set_condition(
            old.get("conditions") or [], condition(kind, status, reason, message), format_time(self.now)
        )
        return with_status(workload, {**old, "conditions": conditions})

    def admitted(self) -> dict[str, list[str]]:
        """Names of workloads holding quota, per ClusterQueue."""
        held: dict[str, list[str]] = {}
        for key, workload in self.workloads.items():
            admission = status_of(workload).get("admission")
            if admission and _is(workload, "QuotaReserved") and not _is(workload, "Finished"):
                held.setdefault(admission["clusterQueue"], []).append(key.name)
        return {queue: sorted(names) for queue, names in sorted(held.items())}


def _is(workload: Obj, kind: str) -> bool:
    return any(
        entry["type"] == kind and entry["status"] == "True" for entry in status_of(workload).get("conditions") or ()
    )
