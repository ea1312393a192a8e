"""What a cluster without nodes lacks, as a process of its own: operators of job kinds, and pods that a script starts and ends.

`python play.py KUBECONFIG`. Jobs and pods themselves belong to the real controller manager; the operators are Corral's own, as
somebody who has no others could run them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from multikueue.player import PodPlayer

from corral.client.http import HttpClient
from corral.controllers.queueing.setup import may_be_missing
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.registry import job_kinds, made_by
from corral.runtime.clock import WallClock
from corral.runtime.controller import Manager
from corral.runtime.random import Random

PLAYED = ("kubeflow", "jobset", "trainjob", "ray")


async def play(path: Path) -> None:
    client = HttpClient.from_kubeconfig(path, allow_exec=False)
    manager = Manager(client, WallClock(), Random())
    manager.do_without(may_be_missing)
    PodPlayer(manager)
    for kind in job_kinds():
        if kind.name in PLAYED:
            made_by(kind, kind.operators, OperatorContext(manager))
    await manager.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1])))
