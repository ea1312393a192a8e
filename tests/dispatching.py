"""A simulated fleet on which a script finds a manager, its workers and the same queue on all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from corral.core.meta import Obj
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet

Script = Callable[[SimulatedFleet], Awaitable[None]]


def run_on_fleet(
    script: Script,
    configuration: Obj | None = None,
    *,
    workers: Sequence[str] = ("worker1", "worker2"),
    manager_cpu: str = "16",
) -> None:
    """Play the script in virtual time, a second after the queues are there."""

    async def main() -> None:
        async with SimulatedFleet(workers, configuration=configuration) as fleet:
            await fleet.introduce()
            await fleet.set_up_queues(manager_cpu=manager_cpu)
            await asyncio.sleep(1)
            await script(fleet)

    run_virtual(main)
