"""A lease is held by one at a time: who cannot renew stops before the next may start."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from corral.core.errors import ConnectionFailed
from corral.core.meta import Key, Obj, spec_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.coordination import LEASES
from corral.runtime.leader import Claim, LeaderElector, LeaseTerms
from corral.runtime.tenure import HeldClient, Tenure
from corral.runtime.virtual import VirtualLoop, run_virtual
from corral.testing import VirtualCluster

LEASE = Key("default", "lease")


class Broken:
    """A client that stops working: it fails at once, or never answers."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self._cluster = cluster
        self.fails = self.hangs = False

    async def _pass(self) -> None:
        if self.hangs:
            await self._cluster.clock.sleep(10_000)
        if self.fails:
            raise ConnectionFailed("nobody there")

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        await self._pass()
        return await self._cluster.client.get(resource, name, namespace)

    async def create(self, resource: Resource, obj: Obj) -> Obj:
        await self._pass()
        return await self._cluster.client.create(resource, obj)

    async def update(self, resource: Resource, obj: Obj) -> Obj:
        await self._pass()
        return await self._cluster.client.update(resource, obj)


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_leader_that_is_cut_off_has_stopped_before_the_next_starts(how: str) -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            clock, told = cluster.clock, list[tuple[str, float]]()
            client = Broken(cluster)

            async def work(name: str) -> None:
                told.append((f"{name} starts", clock.monotonic()))
                try:
                    await clock.sleep(10_000)
                finally:
                    told.append((f"{name} stops", clock.monotonic()))

            first = LeaderElector(client, clock, [Claim(LEASE, "first")])  # type: ignore[arg-type]
            second = LeaderElector(cluster.client, clock, [Claim(LEASE, "second")])
            running = [asyncio.ensure_future(first.run(lambda: work("first")))]
            await clock.sleep(1)
            running.append(asyncio.ensure_future(second.run(lambda: work("second"))))
            await clock.sleep(30)
            assert [name for name, _ in told] == ["first starts"]
            setattr(client, how, True)
            cut_off = clock.monotonic()
            await clock.sleep(20)
            assert [name for name, _ in told] == ["first starts", "first stops", "second starts"]
            assert told[2][1] - cut_off <= LeaseTerms().duration_s + LeaseTerms().look_s
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    run_virtual(scenario)


def test_a_leader_stops_at_once_when_somebody_else_holds_its_lease() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            clock, runs = cluster.clock, list[bool]()

            async def work() -> None:
                runs.append(True)
                try:
                    await clock.sleep(10_000)
                finally:
                    runs.append(False)

            elector = LeaderElector(cluster.client, clock, [Claim(LEASE, "first")])
            running = asyncio.ensure_future(elector.run(work))
            await clock.sleep(3)
            lease = await cluster.client.get(LEASES, LEASE.name, LEASE.namespace)
            stolen = {**spec_of(lease), "holderIdentity": "thief", "leaseDurationSeconds": 60}
            await cluster.client.update(LEASES, {**lease, "spec": stolen})
            await clock.sleep(LeaseTerms().renew_s + 0.1)
            assert runs == [True, False]
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run_virtual(scenario)


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_leader_that_stood_still_goes_on_unless_somebody_took_its_place_and_sends_nothing_before_it_knows(
    is_taken: bool,
) -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            clock, told, loop = cluster.clock, list[str](), cast(VirtualLoop, asyncio.get_running_loop())
            tenure = Tenure(clock)
            client = HeldClient(cluster.client, tenure)

            async def work() -> None:
                told.append("starts")
                try:
                    await clock.sleep(2.5)
                    loop.jump(30)  # nothing of this process runs meanwhile
                    await client.get(LEASES, LEASE.name, LEASE.namespace)
                    told.append("acts")
                    await clock.sleep(10_000)
                finally:
                    told.append("stops")

            elector = LeaderElector(cluster.client, clock, [Claim(LEASE, "first")], tenure=tenure)
            running = asyncio.ensure_future(elector.run(work))
            await clock.sleep(2.2)
            if is_taken:
                lease = await cluster.client.get(LEASES, LEASE.name, LEASE.namespace)
                other = {**spec_of(lease), "holderIdentity": "second", "leaseDurationSeconds": 3600}
                await cluster.client.update(LEASES, {**lease, "spec": other})
            await clock.sleep(40)
            assert told == (["starts", "stops"] if is_taken else ["starts", "acts"])
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run_virtual(scenario)


def test_work_that_fails_is_told_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            attempts = list[int]()

            async def work() -> None:
                attempts.append(1)
                if len(attempts) < 3:
                    raise RuntimeError("no luck")

            await LeaderElector(cluster.client, cluster.clock, [Claim(LEASE, "one")]).run(work)
            assert len(attempts) == 3

    run_virtual(scenario)
    assert "no luck" in caplog.text


def test_several_leases_of_a_killed_leader_are_missed_no_longer_than_one() -> None:
    """They run out together, and were looked at together."""

    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            clock, started = cluster.clock, list[float]()
            keys = [Key("default", name) for name in ("a", "b", "c")]

            async def forever() -> None:
                started.append(clock.monotonic())
                await clock.sleep(10_000)

            electors = [
                LeaderElector(cluster.client, clock, [Claim(key, name) for key in keys]) for name in ("first", "second")
            ]
            first = asyncio.ensure_future(electors[0].run(forever))
            await clock.sleep(1)
            second = asyncio.ensure_future(electors[1].run(forever))
            await clock.sleep(30)
            assert len(started) == 1
            killed = clock.monotonic()
            first.cancel()  # nothing is released
            await clock.sleep(20)
            assert started[1] - killed <= LeaseTerms().duration_s + LeaseTerms().look_s
            second.cancel()
            await asyncio.gather(first, second, return_exceptions=True)

    run_virtual(scenario)


def test_a_lease_is_seized_from_strangers_only_and_nothing_is_done_before_theirs_would_have_ended() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            clock, started = cluster.clock, list[str]()
            spec = {"holderIdentity": "stranger", "leaseDurationSeconds": 15}
            metadata = {"name": LEASE.name, "namespace": LEASE.namespace}
            await cluster.client.create(LEASES, {"metadata": metadata, "spec": spec})

            async def work(name: str) -> None:
                started.append(name)
                await clock.sleep(10_000)

            running = []
            for name in ("ours:1", "ours:2"):
                claim = Claim(LEASE, name, seizes=True, spares="ours:")
                elector = LeaderElector(cluster.client, clock, [claim])
                running.append(asyncio.ensure_future(elector.run(lambda name=name: work(name))))  # type: ignore[misc]
                await clock.sleep(1)
                lease = await cluster.client.get(LEASES, LEASE.name, LEASE.namespace)
                assert spec_of(lease)["holderIdentity"] == "ours:1"
            await clock.sleep(12)
            assert started == []
            await clock.sleep(60)
            assert started == ["ours:1"]
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    run_virtual(scenario)


def test_a_lease_that_is_held_is_renewed_by_one_write_and_nothing_else() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            asked: list[str] = []

            class Counting(Broken):
                async def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
                    asked.append("get")
                    return await super().get(resource, name, namespace)

                async def update(self, resource: Resource, obj: Obj) -> Obj:
                    asked.append("update")
                    return await super().update(resource, obj)

            async def work() -> None:
                await cluster.clock.sleep(10_000)

            elector = LeaderElector(Counting(cluster), cluster.clock, [Claim(LEASE, "one")])  # type: ignore[arg-type]
            running = asyncio.ensure_future(elector.run(work))
            await cluster.clock.sleep(20.5 * LeaseTerms().renew_s)
            assert asked == ["get", *["update"] * 20]
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run_virtual(scenario)
