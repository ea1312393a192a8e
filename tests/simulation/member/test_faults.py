"""A member whose way to the hub breaks, or whose agent dies: nothing is lost, nothing is done twice, all converges."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
import yaml
from tests.simulation.member.test_works import job
from tests.simulation.member.world import MEMBER, NAMESPACE, MemberWorld, about, config_map, in_world, reasons

from corral.client import kubeconfig
from corral.client.kubeconfig import Access
from corral.client.protocol import Client
from corral.configuration.member import MemberSettings
from corral.controllers.member import set_up_member_by_secret
from corral.controllers.member.discovery import in_registry
from corral.core.errors import ConnectionFailed
from corral.core.meta import Obj, name_of, status_of
from corral.core.timestamps import parse_time
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.served_kinds import full_registry
from corral.kinds.fleet import APPLIED_WORKS, INTERNAL_MEMBER_CLUSTERS, WORKS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, SECRETS
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster


class Mortal:
    """A client whose process dies at its n-th write: that write and all after it never happen."""

    def __init__(self, target: Client, writes: int) -> None:
        self._target = target
        self.left = writes

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._target, name)
        if name not in ("create", "update", "patch", "apply", "delete"):
            return call

        async def write(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise ConnectionFailed("the process is gone")
            return await call(*args, **options)

        return write


@pytest.mark.parametrize("writes", range(13))
def test_an_agent_that_dies_between_any_two_writes_does_no_harm(writes: int) -> None:
    async def check(world: MemberWorld) -> None:
        client = world.member.client
        world.member.manager.client = world.member.client = Mortal(client, writes)  # type: ignore[assignment]
        await world.restart_agent()
        await world.send(config_map(), config_map("other"), job())
        await world.send(config_map(a="2"), job())
        world.member.client = client
        await world.restart_agent()
        await asyncio.sleep(30)
        work = await world.work()
        assert reasons(work)["Applied"] == ("True", "AllManifestsApplied")
        live = await world.live()
        assert live is not None
        assert live["data"] == {"a": "2"}
        assert await world.live("other") is None
        assert len(status_of(await world.applied())["appliedResources"]) == 2

    in_world(check)


@pytest.mark.parametrize("fault", ["cut", "hung", "lose_replies", "refused"])
def test_a_broken_link_to_the_hub_is_survived(fault: str) -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(config_map())
        world.link.set(**{fault: True})
        work = await world.hub.client.get(WORKS, "w", NAMESPACE)
        spec: Obj = {**work["spec"], "workload": {"manifests": [config_map(a="2")]}}
        await world.hub.client.update(WORKS, {**work, "spec": spec})
        await asyncio.sleep(300)
        assert await world.live() is not None
        world.link.set()
        world.link.break_streams()
        await asyncio.sleep(120)
        live = await world.live()
        assert live is not None
        assert live["data"] == {"a": "2"}
        assert about(await world.work())[1] == "Applied"
        beat = status_of(await world.cluster())["agentStatus"][0]["lastReceivedHeartbeat"]
        assert world.hub.clock.now() - parse_time(beat) < 70

    in_world(check)


def test_a_job_that_ends_and_goes_while_the_hub_is_away_is_not_run_again() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job())
        world.link.set(cut=True)
        live = await world.live("train", JOBS)
        assert live is not None
        now = world.member.clock.timestamp()
        entries = [
            {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": now}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        status = {**status_of(live), "conditions": entries, "startTime": now, "completionTime": now, "succeeded": 1}
        await world.member.client.update(JOBS, {**live, "status": status}, subresource="status")
        await asyncio.sleep(1)
        await world.member.client.delete(JOBS, "train", "ns", propagation="Background")
        await asyncio.sleep(100)
        world.link.set()
        await asyncio.sleep(200)
        assert await world.live("train", JOBS) is None
        assert about(await world.work())[1] == "Finished"

    in_world(check)


def test_the_agent_follows_the_secret_that_names_its_hub() -> None:
    registry = full_registry()
    hubs: dict[str, VirtualCluster] = {}

    def connect(access: Access) -> Client:
        return hubs[access.server.removeprefix("https://")].client

    def agent(manager: Manager) -> None:
        set_up_member_by_secret(manager, connect, "unnamed", MemberSettings(), in_registry(registry))

    def secret(hub: str) -> Obj:
        document = kubeconfig.document_for(hub, f"https://{hub}", b"", token="t")
        del document["clusters"][0]["cluster"]["certificate-authority-data"]
        data = {"kubeconfig": yaml.safe_dump(document), "member-name": MEMBER}
        return {
            "metadata": {"name": "hub-kubeconfig", "namespace": "fleet-system"},
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
        }

    async def main() -> None:
        hubs.update({name: VirtualCluster(name=name) for name in ("one", "two")})
        member = VirtualCluster([agent], name=MEMBER, registry=registry, namespaces=("default", "ns", "fleet-system"))
        async with hubs["one"], hubs["two"], member:
            for name, hub in hubs.items():
                await hub.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
                body = {"metadata": {"name": MEMBER, "namespace": NAMESPACE}, "spec": {"state": "Join"}}
                await hub.client.create(INTERNAL_MEMBER_CLUSTERS, body)
                work = {"workload": {"manifests": [config_map(name)]}}
                await hub.client.create(WORKS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": work})
            await asyncio.sleep(5)
            assert (await member.client.list(APPLIED_WORKS)).items == []
            created = await member.client.create(SECRETS, secret("one"))
            await asyncio.sleep(5)
            assert [name_of(one) for one in (await member.client.list(APPLIED_WORKS)).items] == ["one"]
            await member.client.update(SECRETS, {**created, "data": secret("two")["data"]})
            await asyncio.sleep(5)
            assert [name_of(one) for one in (await member.client.list(APPLIED_WORKS)).items] == ["one", "two"]
            names = [name_of(one) for one in (await member.client.list(CONFIG_MAPS, "ns")).items]
            assert names[-2:] == ["one", "two"]

    run_virtual(main)
