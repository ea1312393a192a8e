"""Events are written once each, repeats count up, whatever is written together."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster


async def seen(cluster: VirtualCluster) -> list[tuple[str, int]]:
    await cluster.advance(1.0)
    found = (await cluster.client.list(EVENTS, "default")).items
    return sorted((event["message"], event["count"]) for event in found)


def test_repeats_count_up_and_others_do_not() -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            about: Obj = await cluster.client.create(
                CONFIG_MAPS, {"metadata": {"name": "subject", "namespace": "default"}}
            )
            about = {"apiVersion": "v1", "kind": "ConfigMap", **about}
            recorder = cluster.manager.recorder.named("test")
            for message in ("once", "twice", "twice", *(f"many {number:02}" for number in range(40))):
                recorder.event(about, "Normal", "Told", message)
            many = [(f"many {number:02}", 1) for number in range(40)]
            assert await seen(cluster) == [*many, ("once", 1), ("twice", 2)]
            recorder.event(about, "Normal", "Told", "once")
            assert ("once", 2) in await seen(cluster)

    run_virtual(main)
