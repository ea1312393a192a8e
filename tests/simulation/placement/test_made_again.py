"""A placement that is deleted and made again under its name is a new one: nothing remembered of the old one holds for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from corral.core.errors import AlreadyExists
from corral.core.meta import Obj, name_of, with_finalizer, without_finalizer
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS

from .hub import Hub, config_selector, namespace_selector, on_hub

ALL = ["cluster-1", "cluster-2", "cluster-3"]
FOREIGN = "example.com/keep"


async def replace(hub: Hub, name: str, namespace: str = "", selectors: Sequence[Obj] = ()) -> None:
    """Delete a placement and make it again the moment its name is free, before any controller has looked."""
    resource = RESOURCE_PLACEMENTS if namespace else CLUSTER_RESOURCE_PLACEMENTS
    await hub.client.delete(resource, name, namespace)
    while True:
        try:
            await hub.place(name, namespace, selectors)
            return
        except AlreadyExists:
            await asyncio.sleep(0)


@pytest.mark.parametrize("namespace", ["", "app"])
def test_a_placement_made_again_at_once_is_scheduled(namespace: str) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        selectors = [config_selector("conf")] if namespace else []
        await hub.place("app", namespace, selectors)
        for _ in range(5):
            await replace(hub, "app", namespace, selectors)
            assert await hub.clusters("app", namespace) == ALL

    on_hub(scenario)


def test_a_placement_that_a_foreign_finalizer_outlived_its_bindings_is_scheduled_when_made_again() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        await hub.edit(CLUSTER_RESOURCE_PLACEMENTS, "app", lambda one: with_finalizer(one, FOREIGN))
        await hub.client.delete(CLUSTER_RESOURCE_PLACEMENTS, "app")
        await hub.settle()
        assert await hub.bindings("app") == []
        await hub.edit(CLUSTER_RESOURCE_PLACEMENTS, "app", lambda one: without_finalizer(one, FOREIGN))
        await hub.place("app")
        assert await hub.clusters("app") == ALL

    on_hub(scenario)


def test_a_placement_made_again_with_other_selectors_places_what_they_say() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("one", conf={"a": "1"})
        await hub.namespace("two", conf={"a": "2"})
        await hub.place("app", selectors=[namespace_selector("one")])
        await replace(hub, "app", selectors=[namespace_selector("two")])
        names = [name_of(one) for one in await hub.manifests("cluster-1", "app-work") if one["kind"] == "Namespace"]
        assert names == ["two"]

    on_hub(scenario)
