"""A cluster with queueing, and short words to fill it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.setup import Queueing
from corral.core import conditions
from corral.core.admission import AdmissionPlugin
from corral.core.errors import NotFound
from corral.core.meta import Key, Obj
from corral.core.resource import Resource
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, names
from corral.testing.cluster import VirtualCluster

JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")


class World(VirtualCluster):
    """A virtual cluster whose jobs are queued."""

    def __init__(
        self, config: QueueingConfig | None = None, extra: Sequence[AdmissionPlugin] = (), **options: Any
    ) -> None:
        self.queueing = Queueing(config)
        super().__init__([self.queueing.setup], plugins=[*self.queueing.plugins, *extra], **options)

    async def job(self, name: str) -> Obj:
        return await self.client.get(JOBS, name, "default")

    async def workloads(self) -> list[Obj]:
        return (await self.client.list(WORKLOADS)).items

    async def workload_of(self, job: str) -> Obj:
        for workload in await self.workloads():
            if any(owner["name"] == job for owner in workload["metadata"].get("ownerReferences") or []):
                return workload
        raise NotFound(f"no workload of {job}")

    async def events_of(self, name: str) -> list[tuple[str, str]]:
        found = (await self.client.list(EVENTS)).items
        mine = [event for event in found if event["involvedObject"]["name"] == name]
        return [(event["reason"], event["message"]) for event in mine]

    async def set_job_status(self, name: str, status: Obj) -> None:
        job = await self.job(name)
        await self.client.update(JOBS, {**job, "status": {**job.get("status", {}), **status}}, subresource="status")
        await self.settle()

    async def finish_job(self, name: str, message: str = "Reached expected number of succeeded pods") -> None:
        now = self.clock.timestamp()
        done = {
            "status": "True",
            "reason": "CompletionsReached",
            "message": message,
            "lastTransitionTime": now,
            "lastProbeTime": now,
        }
        status = {
            "startTime": now,
            "completionTime": now,
            "succeeded": 1,
            "active": 0,
            "ready": 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "conditions": [{"type": "SuccessCriteriaMet", **done}, {"type": "Complete", **done}],
        }
        await self.set_job_status(name, status)


def condition(obj: Obj, kind: str) -> tuple[str, str, str] | None:
    """Status, reason and message of a condition."""
    found = conditions.find(obj, kind)
    return (found["status"], found["reason"], found["message"]) if found else None


def flavor(name: str = "default", **spec: Any) -> tuple[Resource, Obj]:
    return RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": spec}


def cluster_queue(
    name: str = "cq", cpu: str = "4", flavors: tuple[str, ...] = ("default",), **spec: Any
) -> tuple[Resource, Obj]:
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": each, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for each in flavors],
    }
    return CLUSTER_QUEUES, {
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
    }


def local_queue(name: str = "lq", queue: str = "cq", **spec: Any) -> tuple[Resource, Obj]:
    return LOCAL_QUEUES, {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterQueue": queue, **spec},
    }


def job(
    name: str = "sample", *, queue: str = "lq", cpu: str = "1", labels: Obj | None = None, **spec: Any
) -> tuple[Resource, Obj]:
    all_labels = {**({names.QUEUE_NAME: queue} if queue else {}), **(labels or {})}
    annotations = spec.pop("annotations", {})
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}],
        **spec.pop("pod", {}),
    }
    return JOBS, {
        "metadata": {"name": name, "namespace": "default", "labels": all_labels, "annotations": annotations},
        "spec": {"template": {"spec": pod}, **spec},
    }


async def fill(world: World, *objects: tuple[Resource, Obj]) -> None:
    for resource, obj in objects:
        await world.client.create(resource, obj)
    await world.settle()


def key(name: str) -> Key:
    return Key("default", name)
