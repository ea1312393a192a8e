"""Nodes for a real API server that has none, as a process of its own: `python -m tools.acceptance.nodes KUBECONFIG FLEET.yaml`.

Corral's scheduler and its simulated pods, which start, run as their command says and end, and its operators of job kinds. No program runs,
so there is nothing to log, to exec into or to forward to."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import yaml

from corral.client.http import HttpClient
from corral.controllers.queueing.setup import may_be_missing
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.registry import job_kinds, made_by
from corral.node.agent import NodeAgent
from corral.node.node import NodeSpec
from corral.node.scheduler import Scheduler
from corral.node.simulated import SimulatedRuntime
from corral.runtime.clock import WallClock
from corral.runtime.controller import Manager
from corral.runtime.random import Random

KUBERNETES_OWN = ("batch-job", "pod", "statefulset")
"""Kinds whose controllers a real controller manager has."""
RUN_S = 30.0
"""How long a container runs whose command does not say it."""


def node_specs(fleet: Path) -> list[NodeSpec]:
    """The nodes of the only cluster of a fleet file."""
    (cluster,) = yaml.safe_load(fleet.read_text())["clusters"]
    return [
        NodeSpec(node["name"], {"cpu": str(node["cpu"]), "memory": node["memory"], "pods": "110"}, node["labels"])
        for node in cluster["nodes"]
    ]


async def serve(path: Path, fleet: Path) -> None:
    manager = Manager(HttpClient.from_kubeconfig(path), WallClock(), Random())
    manager.do_without(may_be_missing)
    agent = NodeAgent(manager, node_specs(fleet), SimulatedRuntime(manager.clock, run_s=RUN_S))
    Scheduler(manager)
    for kind in job_kinds():
        if kind.name not in KUBERNETES_OWN:
            made_by(kind, kind.operators, OperatorContext(manager))
    await agent.open()
    await manager.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
