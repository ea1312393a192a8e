"""A cluster with queues and bare Workloads, for scenarios that go through the real API and all controllers.

Workloads here have no jobs: what a job controller would do (stop, finish) the test does itself, when it wants to. So an
evicted Workload keeps its quota until `release`, as one does whose pods are still ending.

    @lab()
    async def test_something(world: Lab) -> None:
        await world.make(flavor(), *queue("a", quota(cpu="4"), cohortName="all"))
        await world.submit(workload("one", "a", cpu="3"))
        assert await world.reserved() == {"one": "a"}
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.simulation.queueing.world import World, condition, flavor

from corral.configuration.queueing import QueueingConfig
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    names,
)
from corral.kinds.kueue.gates import FeatureGates
from corral.runtime.virtual import run_virtual
from corral.workload import lifecycle
from corral.workload import workload as wl

Made = tuple[Resource, Obj]
Amount = str | tuple[str | None, ...]
"""Nominal quota, or nominal quota, borrowing limit, lending limit; None for no limit."""

_FIELDS = ("nominalQuota", "borrowingLimit", "lendingLimit")
_SAMPLE = re.compile(r"^(kueue_\w+)\{(.*)\} (\S+)$", re.MULTILINE)

RECLAIM_ANY = {"preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}}

__all__ = ["Lab", "condition", "flavor"]


def quota(name: str = "default", more: dict[str, Amount] | None = None, **amounts: Amount) -> Obj:
    """What one flavor offers."""
    resources = []
    for resource, amount in {**amounts, **(more or {})}.items():
        values = (amount,) if isinstance(amount, str) else amount
        fields = dict(zip(_FIELDS, values, strict=False))
        resources.append({"name": resource, **{key: value for key, value in fields.items() if value is not None}})
    return {"name": name, "resources": resources}


def groups(*flavors: Obj) -> list[Obj]:
    """One resource group for all flavors that offer the same resources."""
    found: dict[tuple[str, ...], list[Obj]] = {}
    for entry in flavors:
        found.setdefault(tuple(resource["name"] for resource in entry["resources"]), []).append(entry)
    return [{"coveredResources": list(covered), "flavors": entries} for covered, entries in found.items()]


def queue(name: str, *flavors: Obj, **spec: Any) -> list[Made]:
    """A ClusterQueue and a LocalQueue of the same name."""
    body = {"namespaceSelector": {}, "resourceGroups": groups(*flavors), **spec}
    local = {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterQueue": name}}
    return [(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": body}), (LOCAL_QUEUES, local)]


def local(name: str, target: str, weight: str | None = None) -> Made:
    spec = {"clusterQueue": target, **({"fairSharing": {"weight": weight}} if weight is not None else {})}
    return LOCAL_QUEUES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def cohort(name: str, *flavors: Obj, parent: str = "", **spec: Any) -> Made:
    body = {**({"parentName": parent} if parent else {}), **spec}
    return COHORTS, {"metadata": {"name": name}, "spec": {**body, "resourceGroups": groups(*flavors)}}


def weight(value: str) -> Obj:
    return {"fairSharing": {"weight": value}}


def pod_set(
    name: str = "main",
    count: int = 1,
    requests: Obj | None = None,
    limits: Obj | None = None,
    topology: Obj | None = None,
    **spec: Any,
) -> Obj:
    amounts = {"requests": requests or {}, "limits": limits or {}}
    resources = {key: value for key, value in amounts.items() if value}
    container = {"name": "main", "image": "x", "resources": resources}
    made = {
        "name": name,
        "count": count,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container], **spec}},
    }
    return {**made, "topologyRequest": topology} if topology else made


def workload(
    name: str,
    to: str,
    *sets: Obj,
    priority: int = 0,
    more: Obj | None = None,
    labels: Obj | None = None,
    annotations: Obj | None = None,
    spec: Obj | None = None,
    **requests: str,
) -> Made:
    """A Workload of one pod that asks for `requests`, or of the given pod sets."""
    pod_sets = list(sets) or [pod_set(requests={**requests, **(more or {})})]
    metadata = {"name": name, "namespace": "default", "labels": labels or {}, "annotations": annotations or {}}
    body = {"queueName": to, "priority": priority, "podSets": pod_sets, **(spec or {})}
    return WORKLOADS, {"metadata": metadata, "spec": body}


def check(name: str) -> Made:
    return ADMISSION_CHECKS, {"metadata": {"name": name}, "spec": {"controllerName": "example.com/people"}}


def priority_class(name: str, value: int) -> Made:
    return WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value}


class Lab(World):
    """A World with bare Workloads."""

    async def make(self, *objects: Made) -> None:
        for resource, obj in objects:
            await self.client.create(resource, obj)
        await self.settle()

    async def submit(self, *workloads: Made) -> None:
        """Create Workloads, each a second younger than the one before."""
        for made in workloads:
            await self.make(made)
            await self.advance(1)

    async def get(self, name: str) -> Obj:
        return await self.client.get(WORKLOADS, name, "default")

    async def reserved(self) -> dict[str, str]:
        """Who holds quota of which queue and goes on."""
        return {
            entry["metadata"]["name"]: wl.cluster_queue_of(entry)
            for entry in await self.workloads()
            if wl.has_quota(entry) and not wl.is_finished(entry) and not wl.is_evicted(entry)
        }

    async def counts(self) -> dict[str, int]:
        """How many hold quota, by queue."""
        found: dict[str, int] = {}
        for name in (await self.reserved()).values():
            found[name] = found.get(name, 0) + 1
        return found

    async def leaving(self) -> list[str]:
        """Who was evicted and still holds quota."""
        return [
            entry["metadata"]["name"]
            for entry in await self.workloads()
            if wl.is_evicted(entry) and wl.has_quota(entry) and not wl.is_finished(entry)
        ]

    async def waiting(self) -> list[str]:
        """Who holds no quota."""
        return [
            entry["metadata"]["name"]
            for entry in await self.workloads()
            if not wl.has_quota(entry) and not wl.is_finished(entry)
        ]

    async def flavors(self, name: str) -> Obj:
        """What the pod sets of a Workload were given."""
        sets = wl.admission_of(await self.get(name)).get("podSetAssignments") or []
        return {key: value for entry in sets for key, value in (entry.get("flavors") or {}).items()}

    async def usage(self, name: str) -> list[Obj]:
        """What each pod set of a Workload counts for."""
        sets = wl.admission_of(await self.get(name)).get("podSetAssignments") or []
        return [entry.get("resourceUsage") or {} for entry in sets]

    async def write(self, name: str, change: Callable[[Obj, str], Obj]) -> None:
        found = await self.get(name)
        await self.client.update(WORKLOADS, change(found, self.clock.timestamp()), subresource="status")

    async def release(self, *workloads: str) -> None:
        """The pods of evicted Workloads have ended."""
        for name in workloads or await self.leaving():
            await self.write(name, lambda found, now: lifecycle.release_evicted(found, (), now))
        await self.settle()
        await self.advance(1)

    async def finish(self, *workloads: str) -> None:
        for name in workloads:
            await self.write(name, lambda found, now: lifecycle.finish(found, "Succeeded", "By test", now))
        await self.settle()
        await self.advance(1)

    async def remove(self, name: str) -> None:
        await self.client.delete(WORKLOADS, name, "default")
        await self.settle()

    async def say(self, name: str, check: str, state: str) -> None:
        """Write the state of a check, as its controller would."""

        def change(found: Obj, now: str) -> Obj:
            states = [
                {**entry, "state": state, "lastTransitionTime": now} if entry["name"] == check else entry
                for entry in wl.check_states_of(found)
            ]
            return {**found, "status": {**found["status"], "admissionChecks": states}}

        await self.write(name, change)
        await self.settle()

    async def activate(self, check: str) -> None:
        found = await self.client.get(ADMISSION_CHECKS, check)
        entry = {"type": "Active", "status": "True", "reason": "Ready", "message": "here"}
        entry["lastTransitionTime"] = self.clock.timestamp()
        await self.client.update(ADMISSION_CHECKS, {**found, "status": {"conditions": [entry]}}, subresource="status")
        await self.settle()

    async def edit(self, resource: Resource, name: str, spec: Obj, namespace: str = "") -> None:
        await self.client.patch(resource, name, namespace, {"spec": spec})
        await self.settle()

    async def counted(self) -> None:
        """Until statuses and metrics have caught up."""
        await self.settle()
        await self.advance(3)
        await self.advance(3)

    def metric(self, name: str, **labels: str) -> dict[tuple[str, ...], float]:
        """Values of a metric by the labels that were not asked for, `replica_role` left out."""
        found = {}
        for metric, text, value in _SAMPLE.findall(self.manager.metrics.exposition().decode()):
            given = dict(re.findall(r'(\w+)="([^"]*)"', text))
            if metric == name and all(given.get(label) == wanted for label, wanted in labels.items()):
                rest = tuple(value for label, value in given.items() if label not in (*labels, "replica_role"))
                found[rest] = float(value)
        return found

    async def share(self, resource: Resource, name: str) -> int:
        """The weighted share a ClusterQueue or Cohort shows."""
        await self.counted()
        found = await self.client.get(resource, name)
        return int(found["status"]["fairSharing"]["weightedShare"])

    async def why(self, name: str) -> str:
        return (condition(await self.get(name), names.QUOTA_RESERVED) or ("", "", ""))[2]


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


@contextmanager
def no_crashes() -> Iterator[None]:
    """Fails when a controller met an error it did not expect, which it survives by trying again."""
    handler, logger = _Errors(), logging.getLogger("corral.runtime.controller")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    assert not handler.seen, "\n".join(handler.seen)


Scenario = Callable[[Lab], Awaitable[None]]


def lab(config: QueueingConfig | None = None, **gates: bool) -> Callable[[Scenario], Callable[[], None]]:
    """Make a test of a scenario: a fresh cluster in virtual time, with the given feature gates."""

    def test_of(scenario: Scenario) -> Callable[[], None]:
        def test() -> None:
            async def main() -> None:
                settings = replace(config or QueueingConfig(), gates=FeatureGates(gates))
                async with Lab(settings) as world:
                    await scenario(world)

            with no_crashes():
                run_virtual(main)

        test.__name__, test.__doc__ = getattr(scenario, "__name__", "test"), scenario.__doc__
        return test

    return test_of
