"""Corral's side: a cluster in memory, in virtual time.

`shuffle` lets what is ready at the same time run in another order, as it does in a busy process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from tools.differential import compare
from tools.differential.player import Player, Record
from tools.differential.scenario import SETTINGS, Scenario, scenario

from corral.configuration.queueing import load_config
from corral.controllers.queueing.setup import Queueing
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

QUIET_S = 3.0
UPSTREAM = {
    "requeueBatch": "1s",
    "waitForVictims": False,
    "victimsGiveWay": False,
    "tellOtherCohorts": False,
    "sampleStoppedQueues": False,
}
"""Where Corral differs from Kueue on purpose and can be told not to."""


def play_seed(seed: int, shuffle: int | None = None, pace: Sequence[float] = ()) -> Record:
    """As it is compared with Kueue, which took the times of `pace`."""
    return play(scenario(seed), shuffle, UPSTREAM, pace)


def first_variation(seed: int, times: int) -> str:
    """What differs between the first time and another, in a sentence; nothing when Corral decides the same each time.

    Half of the scenarios are played with the settings that ship, the others with those that are compared with Kueue.
    """
    own = UPSTREAM if seed % 2 else {}
    played = scenario(seed)
    first = play(played, None, own)
    for turn in range(1, times):
        if found := compare.decisions(first, play(played, turn, own)):
            return f"time {turn + 1} against the first (as kueue): {found}"
    return ""


def play(played: Scenario, shuffle: int | None, own: Mapping[str, Any], pace: Sequence[float] = ()) -> Record:
    """`own` are Corral's own settings."""

    async def main() -> Record:
        queueing = Queueing(load_config({"kind": "Configuration", "corral": own, **SETTINGS[played.settings]}))
        async with VirtualCluster([queueing.setup], plugins=queueing.plugins) as cluster:
            player = Player(cluster.client, cluster.clock, quiet_s=lambda: QUIET_S, poll_s=0.2)
            following = asyncio.create_task(player.follow())
            try:
                return await player.play(played, pace)
            finally:
                following.cancel()

    return run_virtual(main, seed=shuffle or 0, shuffle=shuffle is not None)
