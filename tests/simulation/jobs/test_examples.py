"""Every example manifest comes to its end on simulated pods and virtual time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from corral.clusters.operators import set_up_operators
from corral.core import conditions
from corral.core.meta import Obj, name_of, namespace_of, status_of
from corral.core.resource import Resource
from corral.jobs.framework.served_kinds import builtin_kinds, native_kinds
from corral.node.agent import NodeAgent
from corral.node.node import NodeSpec
from corral.node.scheduler import Scheduler
from corral.node.simulated import SimulatedRuntime
from corral.runtime.controller import Manager
from corral.testing import VirtualCluster, run_virtual

EXAMPLES = Path(__file__).parents[3] / "examples"
RESOURCES = {(kind.group, kind.kind): kind.resource() for kind in (*builtin_kinds(), *native_kinds())}


def true(*kinds: str) -> Callable[[Obj], bool]:
    return lambda obj: any(conditions.is_true(obj, kind) for kind in kinds)


def equals(field: str, value: object) -> Callable[[Obj], bool]:
    return lambda obj: status_of(obj).get(field) == value


ENDS = [
    ("pytorchjob.yaml", "PyTorchJob", true("Succeeded")),
    ("tfjob.yaml", "TFJob", true("Succeeded")),
    ("xgboostjob.yaml", "XGBoostJob", true("Succeeded")),
    ("paddlejob.yaml", "PaddleJob", true("Succeeded")),
    ("jaxjob.yaml", "JAXJob", true("Succeeded")),
    ("mpijob.yaml", "MPIJob", true("Succeeded")),
    ("jobset.yaml", "JobSet", true("Completed")),
    ("training-runtimes.yaml trainjob.yaml", "TrainJob", true("Complete")),
    ("rayjob.yaml", "RayJob", equals("jobStatus", "SUCCEEDED")),
    ("raycluster.yaml", "RayCluster", equals("state", "ready")),
    ("rayservice.yaml", "RayService", true("Ready")),
    ("appwrapper.yaml", "AppWrapper", equals("phase", "Succeeded")),
    ("leaderworkerset.yaml", "LeaderWorkerSet", true("Available")),
    ("deployment.yaml", "Deployment", true("Available")),
    ("statefulset.yaml", "StatefulSet", equals("readyReplicas", 3)),
    ("cronjob.yaml", "CronJob", lambda obj: "lastSuccessfulTime" in status_of(obj)),
]


def resource_of(body: Obj) -> Resource:
    group, _, version = str(body["apiVersion"]).rpartition("/")
    return RESOURCES[group, body["kind"]].at(version)


@pytest.mark.parametrize(("example", "kind", "done"), ENDS, ids=[entry[1] for entry in ENDS])
def test_example_comes_to_its_end(example: str, kind: str, done: Callable[[Obj], bool]) -> None:
    async def main() -> None:
        cluster = VirtualCluster()

        def set_up(manager: Manager) -> None:
            cluster.api.chain.plugins.extend(set_up_operators(manager))
            nodes = [NodeSpec("node1", {"cpu": "64", "memory": "256Gi", "pods": "500"})]
            NodeAgent(manager, nodes, SimulatedRuntime(manager.clock))
            Scheduler(manager)

        cluster._set_up = [set_up]
        async with cluster:
            subject: Obj = {}
            files = [EXAMPLES / name for name in example.split()]
            for body in (body for file in files for body in yaml.safe_load_all(file.read_text())):
                made = await cluster.client.create(resource_of(body), body)
                subject = made if body["kind"] == kind else subject
            found: Obj = {}
            for _ in range(100):
                await cluster.advance(5)
                found = await cluster.client.get(resource_of(subject), name_of(subject), namespace_of(subject))
                if done(found):
                    return
            raise AssertionError(f"still waiting: {status_of(found)}")

    run_virtual(main)
