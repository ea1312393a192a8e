"""Webhooks and aggregated APIs are called in the cluster and on other machines, never on the server's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.security.served import World, served

from corral.clusters.embedded_api import EmbeddedApi
from corral.core.errors import BadRequest
from corral.core.meta import Obj
from corral.server.extension.egress import NOT_ALLOWED, Egress
from corral.store import ObjectKey

OURS = ("127.64.0.0/16",)
OWN = [
    "127.0.0.1", "127.65.0.1", "127.1", "2130706433", "0x7f.1", "0.0.0.0", "169.254.169.254", "224.0.0.1", "240.0.0.1",
    "::1", "::", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "fe80::1", "ff02::1", "localhost",
]  # fmt: skip
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SERVICES = "/api/v1/namespaces/default/services"


@pytest.mark.parametrize("host", OWN)
@pytest.mark.parametrize("networks", [None, OURS, ()], ids=["unknown", "known", "none"])
async def test_this_machine_and_its_links_are_not_called(host: str, networks: tuple[str, ...] | None) -> None:
    with pytest.raises(OSError, match=NOT_ALLOWED):
        await Egress(networks).addresses(host)


@pytest.mark.parametrize("networks", [None, OURS, ()], ids=["unknown", "known", "none"])
async def test_other_machines_and_what_is_granted_are_called(networks: tuple[str, ...] | None) -> None:
    for host in ("10.0.0.1", "192.0.2.7", "8.8.8.8", "2001:db8::1", "::ffff:808:808", "fd00::7"):
        assert await Egress(networks).addresses(host) == [host]
    assert await Egress(networks, ["127.0.0.1/32"]).addresses("127.0.0.1") == ["127.0.0.1"]
    with pytest.raises(OSError, match=NOT_ALLOWED):
        await Egress(networks, ["127.0.0.1/32"]).addresses("127.0.0.2")
    assert await Egress(OURS).addresses("127.64.9.9") == ["127.64.9.9"]


async def test_what_is_granted_to_webhooks_is_not_granted_to_the_proxy() -> None:
    with pytest.raises(BadRequest):
        Egress(OURS, ["127.0.0.1/32"]).host("127.0.0.1", outside=True)


async def test_of_a_name_with_several_addresses_only_those_are_called_that_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def found(*_: object, **__: object) -> list[tuple[Any, ...]]:
        return [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.1", "10.1.2.3", "169.254.169.254", "10.1.2.4")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found, raising=False)
    assert await Egress(None).addresses("many.example") == ["10.1.2.3", "10.1.2.4"]


class Private:
    """A service of this machine that nobody should reach; it counts who comes, before any word is said."""

    def __init__(self) -> None:
        self.met = self.port = 0


@asynccontextmanager
async def private() -> AsyncIterator[Private]:
    kept = Private()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept.met += 1
        writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    kept.port = server.sockets[0].getsockname()[1]
    try:
        yield kept
    finally:
        server.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with served() as made:
        yield made


def ways(port: int) -> Iterator[tuple[str, Obj]]:
    """Every way to name that service in a webhook's clientConfig."""
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1", "2130706433"):
        yield host, {"url": f"https://{host}:{port}/x"}
    for name in ("by-address", "by-name", "by-endpoints"):
        yield name, {"service": {"namespace": "default", "name": name, "port": port}}


async def make_services(world: World, port: int) -> None:
    """Services that lead there: by their address, by a name, and by endpoints that a bug let in."""
    ports = [{"name": "p", "port": port}]
    for name, spec in {
        "by-address": {"clusterIP": "127.0.0.1"},
        "by-name": {"type": "ExternalName", "externalName": "localhost"},
        "by-endpoints": {},
    }.items():
        body = {"metadata": {"name": name}, "spec": {"ports": ports, **spec}}
        assert (await world.ask("POST", SERVICES, body)).status in (201, 422)
    store = world.cluster.store
    endpoints = {"subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]}
    key = ObjectKey("endpoints", "default", "by-endpoints")
    await store.put(key, {"metadata": {"name": "by-endpoints", "namespace": "default"}, **endpoints}, expected=0)


async def test_no_webhook_or_aggregated_api_leads_to_this_machine(world: World) -> None:
    async with private() as kept:
        await make_services(world, kept.port)
        rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
        for number, (_, config) in enumerate(ways(kept.port)):
            hook = {"name": "a.b.c", "clientConfig": config, "rules": rules, "sideEffects": "None"}
            hook["admissionReviewVersions"] = ["v1"]
            body = {"metadata": {"name": f"w{number}"}, "webhooks": [hook]}
            path = f"{ADMISSION}/validatingwebhookconfigurations"
            made = await world.ask("POST", path, body)
            if made.status == 422:
                continue
            assert made.status == 201, made.json
            config_map = {"metadata": {"name": f"c{number}"}}
            refused = await world.ask("POST", "/api/v1/namespaces/default/configmaps", config_map)
            assert refused.status == 500, config
            assert (await world.ask("DELETE", f"{path}/w{number}")).status == 200
        for name in ("by-address", "by-name", "by-endpoints"):
            service = {"namespace": "default", "name": name, "port": kept.port}
            spec = {"group": f"{name}.example", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10}
            spec |= {"service": service, "insecureSkipTLSVerify": True}
            body = {"metadata": {"name": f"v1.{name}.example"}, "spec": spec}
            assert (await world.ask("POST", "/apis/apiregistration.k8s.io/v1/apiservices", body)).status == 201
            assert (await world.ask("GET", f"/apis/{name}.example/v1/things")).status == 503
        assert kept.met == 0


async def test_a_webhook_on_a_network_that_was_named_is_called() -> None:
    cluster = EmbeddedApi(None, webhook_networks=["127.0.0.1/32"])
    await cluster.start()
    try:
        world = World(cluster)
        async with private() as kept:
            rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
            config = {"url": f"https://127.0.0.1:{kept.port}/x"}
            hook = {"name": "a.b.c", "clientConfig": config, "rules": rules, "sideEffects": "None"}
            body = {"metadata": {"name": "w"}, "webhooks": [{**hook, "admissionReviewVersions": ["v1"]}]}
            assert (await world.ask("POST", f"{ADMISSION}/validatingwebhookconfigurations", body)).status == 201
            made = await world.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
            assert made.status == 500
            assert kept.met == 1
    finally:
        await cluster.stop()
