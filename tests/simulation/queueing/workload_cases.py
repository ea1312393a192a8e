"""Cases for the Workload controller by itself: a Workload in some state, and what it must be like afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.context import QueueingContext
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.workloads.controller import WorkloadController
from corral.core.errors import NotFound
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.decide.queueing.state import QueueingState
from corral.kinds.kueue import WORKLOADS
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

from .world import EVENTS, cluster_queue, condition, local_queue

Objects = list[tuple[Resource, Obj]]

POD_SETS = [
    {
        "name": "main",
        "count": 1,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    }
]
ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}],
}
OWNER = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]


def cond(kind: str, status: str = "True", reason: str = "", message: str = "", ago: float = 0) -> Obj:
    """A condition that became what it is `ago` seconds ago."""
    return {"type": kind, "status": status, "reason": reason or kind, "message": message, "ago": ago}


def reserved(ago: float = 0) -> Obj:
    return cond("QuotaReserved", message="Quota reserved in ClusterQueue cq", ago=ago)


def admitted(ago: float = 0) -> Obj:
    return cond("Admitted", message="The workload is admitted", ago=ago)


def check(name: str = "ac", state: str = "Pending", message: str = "", ago: float = 0, **more: Any) -> Obj:
    return {"name": name, "state": state, "message": message, "ago": ago, **more}


@dataclass
class Case:
    """A world, a Workload in it, and what becomes of it."""

    conditions: list[Obj] = field(default_factory=list)
    checks: list[Obj] = field(default_factory=list)
    admission: bool = False
    spec: Obj = field(default_factory=dict)
    status: Obj = field(default_factory=dict)
    metadata: Obj = field(default_factory=dict)
    objects: Objects | None = None
    required: list[Obj] = field(default_factory=list)
    """Admission check rules of the ClusterQueue."""
    config: QueueingConfig = field(default_factory=QueueingConfig)
    wait: float = 0
    want: dict[str, tuple[str, str, str] | None] = field(default_factory=dict)
    """Conditions afterwards; None means that it must not be there."""
    want_checks: dict[str, str] | None = None
    want_status: Obj = field(default_factory=dict)
    want_active: bool = True
    want_finalizers: list[str] | None = None
    want_events: list[tuple[str, str]] | None = None
    """Reasons and messages of all events."""
    want_seen: list[tuple[str, str, str]] | None = None
    """QuotaReserved conditions it had after one another."""
    gone: bool = False
    deleting: tuple[str, ...] = ()
    """Kinds whose object is on its way out when the controller starts; something else holds it."""
    state: QueueingState | None = None


class Harness:
    """A cluster with nothing but the Workload controller."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.seen: list[tuple[str, str, str]] = []
        self.events: list[tuple[str, str]] = []
        self.cluster = VirtualCluster([self._set_up], lifecycle=False)  # its owner does not exist

    def _set_up(self, manager: Manager) -> None:
        case = self.case
        context = QueueingContext(manager, case.config)
        WorkloadController(context, QueueingMetrics(manager.metrics), case.state)
        context.caches.workloads.on_change(self._note)

    def _note(self, old: Obj | None, new: Obj | None) -> None:
        found = condition(new, "QuotaReserved") if new is not None else None
        if found is not None and found not in self.seen[-1:]:
            self.seen.append(found)

    def _time(self, offset: float) -> str:
        return format_time(self.start + offset)

    def _dated(self, entries: list[Obj]) -> list[Obj]:
        return [
            {
                **{name: value for name, value in entry.items() if name != "ago"},
                "lastTransitionTime": self._time(-entry["ago"]),
            }
            for entry in entries
        ]

    def _timed(self, status: Obj) -> Obj:
        state = status.get("requeueState") or {}
        if isinstance(state.get("requeueAt"), float):
            return {**status, "requeueState": {**state, "requeueAt": self._time(state["requeueAt"])}}
        return status

    def _status(self) -> Obj:
        case = self.case
        status: Obj = {"conditions": self._dated(case.conditions), **self._timed(case.status)}
        if case.checks:
            status["admissionChecks"] = self._dated(case.checks)
        if case.admission:
            status["admission"] = ADMISSION
        return status

    async def run(self) -> Obj | None:
        case = self.case
        self.start = self.cluster.clock.now()
        await self._create_workload()
        async with self.cluster:
            await self.cluster.settle()
            await self.cluster.advance(case.wait)
            found = (await self.cluster.client.list(EVENTS)).items
            self.events = [(event["reason"], event["message"]) for event in found]
            try:
                return await self.cluster.client.get(WORKLOADS, "w", "default")
            except NotFound:
                return None

    async def _create_workload(self) -> None:
        """Everything is there before the controller starts, as after a restart."""
        case, client = self.case, self.cluster.client
        await client.create(
            Resource("", "v1", "namespaces", "Namespace", namespaced=False), {"metadata": {"name": "default"}}
        )
        rules = {"admissionChecksStrategy": {"admissionChecks": case.required}} if case.required else {}
        created: Objects = []
        for resource, obj in case.objects if case.objects is not None else [cluster_queue(**rules), local_queue()]:
            if resource.kind in case.deleting:
                obj["metadata"]["finalizers"] = ["example.com/keep"]
            created.append((resource, await client.create(resource, obj)))
        metadata = {"name": "w", "namespace": "default", "ownerReferences": OWNER, **case.metadata}
        spec = {"podSets": POD_SETS, "queueName": "lq", **case.spec}
        workload = await client.create(WORKLOADS, {"metadata": metadata, "spec": spec})
        workload = await client.update(WORKLOADS, {**workload, "status": self._status()}, subresource="status")
        for resource, obj in [*created, (WORKLOADS, workload)]:
            if resource.kind in case.deleting:
                await client.delete(resource, name_of(obj), namespace_of(obj))

    def check(self, workload: Obj | None) -> None:
        case = self.case
        if case.want_events is not None:
            assert self.events == case.want_events
        if case.gone:
            assert workload is None
            return
        assert workload is not None
        for kind, want in case.want.items():
            assert condition(workload, kind) == want, kind
        status = workload.get("status", {})
        if case.want_checks is not None:
            found = {entry["name"]: entry["state"] for entry in status.get("admissionChecks", [])}
            assert found == case.want_checks
        for name, want_part in self._timed(case.want_status).items():
            assert without_times(status.get(name)) == want_part, name
        assert workload["spec"].get("active", True) is case.want_active
        if case.want_finalizers is not None:
            assert workload["metadata"].get("finalizers", []) == case.want_finalizers
        if case.want_seen is not None:
            assert self.seen == case.want_seen


def without_times(part: Any) -> Any:
    if isinstance(part, list):
        return [without_times(entry) for entry in part]
    if isinstance(part, dict):
        return {name: value for name, value in part.items() if name != "lastTransitionTime"}
    return part


def check_case(case: Case) -> None:
    async def main() -> None:
        harness = Harness(case)
        harness.check(await harness.run())

    run_virtual(main)
