"""Objects of a kind that is installed on the hub after the placement."""

from __future__ import annotations

from typing import Any

from hub import Hub, on_hub

from corral.core.resource import Resource
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS

ONE = ("cluster-1",)
LAMPS = Resource("example.com", "v1", "lamps", "Lamp")


async def install_lamps(hub: Hub) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    await hub.client.create(CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": "lamps.example.com"}, "spec": spec})
    await hub.advance(60)


async def lit(hub: Hub) -> list[Any]:
    return [one["lit"] for one in await hub.manifests("cluster-1", "app-work") if one["kind"] == "Lamp"]


def test_21_and_22_objects_of_a_kind_installed_later_are_followed() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        await install_lamps(hub)
        lamp = {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "lamp", "namespace": "app"}}
        await hub.client.create(LAMPS, {**lamp, "lit": True})
        await hub.advance(60)
        assert await lit(hub) == [True]
        await hub.patch(LAMPS, "lamp", {"lit": False}, "app")
        await hub.advance(60)
        assert await lit(hub) == [False]
        await hub.client.delete(LAMPS, "lamp", "app")
        await hub.advance(60)
        assert await lit(hub) == []

    on_hub(scenario, members=ONE)
