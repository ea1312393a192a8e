"""Unregistering while replicas run: they put nothing back before there was time to uninstall them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from test_registration import ENDPOINT, TERMS, registered

from corral.clusters.leader_run import Contender
from corral.clusters.process.roles import WEBHOOKS, leases_of
from corral.clusters.webhooks import certificate_secret
from corral.clusters.webhooks.certificate_secret import CertificateSecret
from corral.clusters.webhooks.configurations import MUTATING_NAME
from corral.clusters.webhooks.registration import Registrar
from corral.clusters.webhooks.service import converted_kinds
from corral.clusters.webhooks.unregistering import QUIET_S, may_register_again, unregister_for_a_while
from corral.core.errors import NotFound
from corral.core.meta import Key
from corral.kinds.kubernetes.admissionregistration.kinds import MUTATING_WEBHOOK_CONFIGURATIONS
from corral.runtime.controller import Manager
from corral.runtime.leader import Claim
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster

(LEASE,) = leases_of([WEBHOOKS], "kueue-system")


async def keep_registered(cluster: VirtualCluster) -> None:
    """What a replica does."""
    key = Key("kueue-system", certificate_secret.NAME)
    secret = CertificateSecret(cluster.client, cluster.clock, key, ENDPOINT.hosts, TERMS)

    async def bundle() -> bytes:
        return (await secret.renew()).bundle

    async def work() -> None:
        manager = Manager(cluster.client, cluster.clock, cluster.random)
        Registrar(manager, registered("host.example"), bundle, TERMS.look_again_s)
        await manager.start()
        try:
            await asyncio.Event().wait()
        finally:
            await manager.stop()

    await Contender(cluster.client, cluster.clock, "replica").lead([Claim(LEASE, "replica")], work)


async def is_registered(cluster: VirtualCluster) -> bool:
    try:
        await cluster.client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)
    except NotFound:
        return False
    return True


async def unregister(cluster: VirtualCluster) -> tuple[list[str], list[Key]]:
    return await unregister_for_a_while(cluster.client, cluster.clock, converted_kinds(), "corral-webhooks")


def test_a_replica_that_runs_puts_nothing_back_for_two_minutes() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            replica = asyncio.ensure_future(keep_registered(cluster))
            await cluster.advance(10)
            assert await is_registered(cluster)
            removed, leases = await unregister(cluster)
            assert f"mutatingwebhookconfigurations/{MUTATING_NAME}" in removed
            assert leases == [LEASE]
            await cluster.advance(QUIET_S - 10)
            assert not await is_registered(cluster)
            await cluster.advance(30)
            assert await is_registered(cluster), "who is not uninstalled goes on"
            replica.cancel()
            await asyncio.gather(replica, return_exceptions=True)

    run_virtual(scenario)


def test_who_installs_anew_is_registered_at_once() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            replica = asyncio.ensure_future(keep_registered(cluster))
            await cluster.advance(10)
            await unregister(cluster)
            await may_register_again(cluster.client)
            await cluster.advance(5)
            assert await is_registered(cluster)
            replica.cancel()
            await asyncio.gather(replica, return_exceptions=True)

    run_virtual(scenario)


def test_where_no_replica_is_left_nothing_is_held() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            replica = asyncio.ensure_future(keep_registered(cluster))
            await cluster.advance(10)
            replica.cancel()
            await asyncio.gather(replica, return_exceptions=True)
            removed, leases = await unregister(cluster)
            assert removed
            assert leases == []
            assert not await is_registered(cluster)

    run_virtual(scenario)
