"""A worker needs no Corral: an API with Kueue's kinds is enough, here one whose Kueue and Job controller are a script."""

from __future__ import annotations

import asyncio
from typing import cast

from corral.core import conditions
from corral.core.meta import Obj, labels_of, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.served_kinds import builtin_registry, native_kinds
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import WORKLOADS
from corral.runtime.clock import VirtualClock
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.server.api import Api
from corral.server.local import LocalClient
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet
from corral.store import Store

TICK_S = 0.5
RUN_S = 5.0


class PlainCluster:
    """Store and API, and nobody who acts on them but `play`."""

    def __init__(self, name: str) -> None:
        self.name, self.clock = name, VirtualClock()
        registry = builtin_registry()
        for kind in native_kinds():
            registry.add(kind)
        api = Api(Store(now=self.clock.now), registry, clock=self.clock, random=Random(name))
        self.client = LocalClient(api)
        self.ran: list[str] = []

    async def start(self) -> None:
        await self.client.create(NAMESPACES, {"metadata": {"name": "default"}})
        self._script = asyncio.create_task(self.play())

    async def stop(self) -> None:
        self._script.cancel()

    async def play(self) -> None:
        """Admit what is asked for, run the jobs that come, and say when they are done."""
        while True:
            await asyncio.sleep(TICK_S)
            for workload in (await self.client.list(WORKLOADS)).items:
                if not conditions.is_true(workload, "Admitted"):
                    await self._write(WORKLOADS, workload, self._admitted(workload))
                    continue
                for job in (await self.client.list(JOBS)).items:
                    await self._advance(job, workload)

    async def _advance(self, job: Obj, workload: Obj) -> None:
        if spec_of(job).get("suspend"):
            await self.client.patch(JOBS, name_of(job), "default", {"spec": {"suspend": False}})
        elif not status_of(job).get("startTime"):
            self.ran.append(name_of(job))
            started = {"startTime": self.clock.timestamp(), "active": 1, "ready": 1}
            await self._write(JOBS, job, started)
        elif not conditions.is_true(job, "Complete"):
            await asyncio.sleep(RUN_S)
            await self._write(JOBS, job, self._completed(job))
        elif not conditions.is_true(workload, "Finished"):
            done = self._condition("Finished", "Succeeded", "Job finished successfully")
            status = {**status_of(workload), "conditions": [*status_of(workload)["conditions"], done]}
            await self._write(WORKLOADS, workload, status)

    async def _write(self, resource: Resource, obj: Obj, status: Obj) -> None:
        await self.client.update(resource, {**obj, "status": status}, subresource="status", manager="script")

    def _condition(self, kind: str, reason: str, message: str) -> Obj:
        now = self.clock.timestamp()
        return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}

    def _admitted(self, workload: Obj) -> Obj:
        pod_set = spec_of(workload)["podSets"][0]
        assignment = {
            "name": pod_set["name"],
            "count": pod_set["count"],
            "flavors": {"cpu": "default-flavor"},
            "resourceUsage": {"cpu": "1"},
        }
        return {
            "admission": {"clusterQueue": "cluster-queue", "podSetAssignments": [assignment]},
            "conditions": [
                self._condition("QuotaReserved", "QuotaReserved", "Quota reserved in ClusterQueue cluster-queue"),
                self._condition("Admitted", "Admitted", "The workload is admitted"),
            ],
        }

    def _completed(self, job: Obj) -> Obj:
        now = format_time(self.clock.now())
        ends = [
            {"type": kind, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": now}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        start = status_of(job)["startTime"]
        return {"startTime": start, "completionTime": now, "succeeded": 1, "conditions": ends}


def test_a_worker_without_corral_runs_a_job_from_create_to_finished() -> None:
    async def main() -> None:
        fleet = SimulatedFleet(("plain",))
        plain = PlainCluster("plain")
        fleet.workers["plain"] = cast(SimulatedCluster, plain)
        async with fleet:
            await fleet.introduce()
            await fleet.set_up_queues()
            await asyncio.sleep(1)
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
            spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
            labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
            metadata = {"name": "a", "namespace": "default", "labels": labels}
            await fleet.manager.client.create(JOBS, {"metadata": metadata, "spec": spec})
            await asyncio.sleep(4)
            (copy,) = (await plain.client.list(WORKLOADS)).items
            assert labels_of(copy)["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
            mirrored = await fleet.manager.client.get(JOBS, "a", "default")
            assert status_of(mirrored)["active"] == 1
            await asyncio.sleep(20)
            assert plain.ran == ["a"]
            finished = await fleet.manager.client.get(JOBS, "a", "default")
            assert conditions.is_true(finished, "Complete")
            (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
            assert (conditions.find(workload, "Finished") or {})["reason"] == "Succeeded"
            assert status_of(workload)["clusterName"] == "plain"
            assert (await plain.client.list(JOBS)).items == (await plain.client.list(WORKLOADS)).items == []

    run_virtual(main)
