"""What an operator waits for: what it did and its cache does not show, and nothing else."""

from __future__ import annotations

from corral.core.meta import Key
from corral.jobs.framework.expectations import Expectations
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

OWNER = Key("default", "owner")


def test_a_child_that_came_and_went_before_it_was_noted_is_not_waited_for() -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            informer = cluster.manager.informer(CONFIG_MAPS)
            expectations = Expectations(informer, cluster.clock)
            await informer.synced()
            body = {"metadata": {"name": "child", "namespace": "default"}}
            child = await cluster.client.create(CONFIG_MAPS, body)
            expectations.made(OWNER, child)
            assert not expectations.met(OWNER)
            await cluster.client.delete(CONFIG_MAPS, "child", "default")
            await cluster.advance(0.1)
            assert expectations.met(OWNER)
            expectations.made(OWNER, child)
            assert expectations.met(OWNER)

    run_virtual(main)
