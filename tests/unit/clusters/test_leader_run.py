"""Of several processes one leads; the next takes over when it leaves, or when nothing is heard of it."""

from __future__ import annotations

import asyncio

from corral.clusters.leader_run import Contender, run_while_leading
from corral.core.meta import Key, spec_of
from corral.kinds.kubernetes.coordination import LEASES
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster

LEASE = Key("default", "lease")


def contender(cluster: VirtualCluster, identity: str) -> Contender:
    return Contender(cluster.client, cluster.clock, identity)


class Controllers:
    """Remembers whether it runs."""

    def __init__(self) -> None:
        self.runs = False

    async def start(self) -> None:
        self.runs = True

    async def stop(self) -> None:
        self.runs = False


def test_the_next_leads_soon_after_the_first_has_left() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            first, second = Controllers(), Controllers()
            leading = asyncio.ensure_future(run_while_leading(first, contender(cluster, "first"), LEASE))
            await cluster.clock.sleep(1)
            waiting = asyncio.ensure_future(run_while_leading(second, contender(cluster, "second"), LEASE))
            await cluster.clock.sleep(60)
            assert (first.runs, second.runs) == (True, False)
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)
            assert (first.runs, second.runs) == (False, False)
            await cluster.clock.sleep(4)
            assert (first.runs, second.runs) == (False, True)
            lease = await cluster.client.get(LEASES, LEASE.name, LEASE.namespace)
            assert spec_of(lease)["holderIdentity"] == "second"
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    run_virtual(scenario)


def test_a_holder_nobody_hears_of_is_waited_for_as_long_as_its_lease() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            spec = {"holderIdentity": "gone", "leaseDurationSeconds": 15}
            body = {"metadata": {"name": LEASE.name, "namespace": LEASE.namespace}, "spec": spec}
            await cluster.client.create(LEASES, body)
            subject = Controllers()
            waiting = asyncio.ensure_future(run_while_leading(subject, contender(cluster, "next"), LEASE))
            await cluster.clock.sleep(13)
            assert not subject.runs
            await cluster.clock.sleep(5)
            assert subject.runs
            lease = await cluster.client.get(LEASES, LEASE.name, LEASE.namespace)
            assert (spec_of(lease)["holderIdentity"], spec_of(lease)["leaseTransitions"]) == ("next", 1)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert not subject.runs

    run_virtual(scenario)
