"""Every kind of job goes to a worker, runs there under its copy of the Workload, and goes from there with its original."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from test_job_adapters import ROWS, Row

from corral.core import conditions
from corral.core.meta import Obj, labels_of, name_of, owner_references_of, status_of
from corral.jobs.framework.adapter import prebuilt_workload
from corral.jobs.framework.paths import get_in
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet

CONTAINERS = {
    "JAXJob": "jax", "PyTorchJob": "pytorch", "XGBoostJob": "xgboost", "TFJob": "tensorflow", "PaddleJob": "paddle",
}  # fmt: skip
"""What the container of a training job has to be called."""
HELD_BACK = ("pod", "statefulset", "deployment", "leaderworkerset")
"""Kinds that are dispatched by their pods or as sets; they have tests of their own."""


def fresh(job: Obj) -> Obj:
    """The job as a user would create it."""
    metadata = {"name": name_of(job), "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}}
    spec = json.dumps(job["spec"]).replace('"name": "main"', f'"name": "{CONTAINERS.get(job["kind"], "main")}"')
    return {"apiVersion": job["apiVersion"], "kind": job["kind"], "metadata": metadata, "spec": json.loads(spec)}


@pytest.mark.parametrize(
    "row", [row for row in ROWS if not row.framework.startswith(HELD_BACK)], ids=lambda row: row.framework
)
def test_it_runs_on_one_worker_under_its_copy(row: Row) -> None:
    async def main() -> None:
        async with SimulatedFleet() as fleet:
            await fleet.introduce()
            await fleet.set_up_queues()
            for cluster in fleet.clusters:
                for (resource, _), obj in row.known.items():
                    await cluster.client.create(resource, {**obj, "metadata": {"name": name_of(obj)}})
            await asyncio.sleep(1)
            await fleet.manager.client.create(row.adapter.resource, fresh(row.job))
            await asyncio.sleep(10)
            (held,) = (await fleet.manager.client.list(WORKLOADS)).items
            assert conditions.is_true(held, "Admitted"), status_of(held)
            worker = fleet.workers[status_of(held)["clusterName"]]
            there = await worker.client.get(row.adapter.resource, name_of(row.job), "default")
            assert labels_of(there)[names.MULTIKUEUE_ORIGIN] == "multikueue"
            assert prebuilt_workload(there) == name_of(held)
            assert owner_references_of(there) == []
            assert not row.adapter.is_suspended(there)
            path = row.adapter.managed_by_path
            assert path is None or get_in(there, path) != names.MULTIKUEUE_CONTROLLER
            others = [one for one in fleet.workers.values() if one is not worker]
            assert [one.name for one in others if (await one.client.list(WORKLOADS)).items] == []
            name = name_of(row.job)
            await fleet.manager.client.delete(row.adapter.resource, name, "default", propagation="Background")
            await asyncio.sleep(60)
            assert (await worker.client.list(row.adapter.resource)).items == []
            assert (await worker.client.list(WORKLOADS)).items == []

    run_virtual(main)
