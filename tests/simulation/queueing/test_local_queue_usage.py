"""The usage history of LocalQueues as the controller keeps it in their statuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.configuration.queueing import QueueingConfig
from corral.core.meta import Obj, status_of, with_status
from corral.core.resource import Resource
from corral.decide.queueing.model.settings import AdmissionFairSharing
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES
from corral.runtime.virtual import run_virtual

from .world import World, cluster_queue, fill, flavor, job, local_queue

SHARING = QueueingConfig(admission_fair_sharing=AdmissionFairSharing(half_life_s=60.0, sampling_interval_s=5.0))
USAGE_BASED = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


async def history(world: World) -> Obj | None:
    queue = await world.client.get(LOCAL_QUEUES, "lq", "default")
    return (status_of(queue).get("fairSharing") or {}).get("admissionFairSharingStatus")


async def touch(world: World) -> None:
    """Have the controller look at the queue."""
    await world.client.patch(
        LOCAL_QUEUES, "lq", "default", {"metadata": {"labels": {"seen-at": str(int(world.clock.now()))}}}
    )
    await world.settle()


def test_afs_32_a_recent_sample_is_not_repeated_to_fill_a_status() -> None:
    async def main() -> None:
        async with World(SHARING) as world:
            await fill(world, flavor(), cluster_queue(**USAGE_BASED), local_queue())
            sampled = await history(world)
            assert sampled is not None
            queue = await world.client.get(LOCAL_QUEUES, "lq", "default")
            empty = {name: value for name, value in status_of(queue).items() if name != "fairSharing"}
            await world.client.update(LOCAL_QUEUES, with_status(queue, empty), subresource="status")
            await world.advance(1)
            await touch(world)
            assert await history(world) is None
            await world.advance(3.5)
            await touch(world)
            assert await history(world) is None
            await world.advance(1)
            again = await history(world)
            assert again is not None
            assert again["lastUpdate"] > sampled["lastUpdate"]

    run_virtual(main)


def test_usage_grows_towards_what_runs_sample_by_sample() -> None:
    async def main() -> None:
        async with World(SHARING) as world:
            await fill(world, flavor(), cluster_queue(**USAGE_BASED), local_queue(), job(cpu="4"))
            seen = []
            for _ in range(4):
                await world.advance(60)
                found = await history(world)
                assert found is not None
                seen.append(_cpu(found["consumedResources"]["cpu"]))
            assert seen == sorted(seen)
            assert 1.8 < seen[0] < 2.3
            assert 3.6 < seen[-1] < 4.0

    run_virtual(main)


STOPPED_S = 60.0


@pytest.mark.parametrize(
    "samples", [True, False], ids=["is counted as unused", "as upstream is not counted before it is over"]
)
@pytest.mark.parametrize("stop", [LOCAL_QUEUES, CLUSTER_QUEUES], ids=["LocalQueue", "ClusterQueue"])
def test_the_time_in_which_a_queue_was_stopped(stop: Resource, samples: bool) -> None:
    name, within = ("lq", "default") if stop is LOCAL_QUEUES else ("cq", "")

    async def main() -> None:
        async with World(replace(SHARING, samples_stopped_queues=samples)) as world:
            await fill(world, flavor(), cluster_queue(**USAGE_BASED), local_queue(), job(cpu="4"))
            await world.client.patch(stop, name, within, {"spec": {"stopPolicy": "Hold"}})
            await world.advance(1)
            before = await history(world)
            await world.advance(STOPPED_S)
            meanwhile = await history(world)
            assert (meanwhile == before) is not samples
            await world.client.patch(stop, name, within, {"spec": {"stopPolicy": "None"}})
            await world.advance(10)
            after = await history(world)
            assert after is not None
            assert _cpu(after["consumedResources"]["cpu"]) > 1.8, "what ran all the time counts in either case"

    run_virtual(main)


def _cpu(text: str) -> float:
    return float(text.removesuffix("n")) / 1e9 if text.endswith("n") else float(text.removesuffix("u")) / 1e6
