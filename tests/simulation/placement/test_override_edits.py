"""Edits of overrides: members go from the old override to the new one, and never see the object without any."""

from __future__ import annotations

import asyncio

import pytest

from corral.core.admission import AdmissionRequest
from corral.core.conditions import is_false
from corral.core.meta import Obj, labels_of, name_of, spec_of, with_labels
from corral.core.resource import Resource
from corral.kinds.fleet import (
    CLUSTER_OVERRIDE_SNAPSHOTS,
    CLUSTER_OVERRIDES,
    OVERRIDE_SNAPSHOTS,
    OVERRIDES,
    WORKS,
)
from corral.kinds.fleet.names import IS_LATEST
from corral.runtime.controller import Manager

from .hub import Hub, on_hub

PLAIN, FIRST, SECOND = "plain", "first", "second"
NARROW = (OVERRIDES, OVERRIDE_SNAPSHOTS, "app")
WIDE = (CLUSTER_OVERRIDES, CLUSTER_OVERRIDE_SNAPSHOTS, "")
BOTH = pytest.mark.parametrize("kind", [pytest.param(NARROW, id="narrow"), pytest.param(WIDE, id="wide")])
Kind = tuple[Resource, Resource, str]


class SlowSnapshots:
    """Every write of an override snapshot takes its time, so that whatever looks in between sees the state in between."""

    name = "slow-snapshots"

    def handles(self, request: AdmissionRequest) -> bool:
        return request.resource in (OVERRIDE_SNAPSHOTS, CLUSTER_OVERRIDE_SNAPSHOTS)

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        await asyncio.sleep(1)
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        pass


def spec(kind: Kind, value: str) -> Obj:
    """An override that labels the ConfigMap, and the Namespace if it is a wide one."""
    return override(kind, {"op": "add", "path": "/metadata/labels", "value": {"v": value}})


def override(kind: Kind, patch: Obj) -> Obj:
    everywhere: Obj = {"clusterSelectorTerms": []}
    rules = [{"clusterSelector": everywhere, "overrideType": "JSONPatch", "jsonPatchOverrides": [patch]}]
    target = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
    if kind is NARROW:
        selectors = {"resourceSelectors": [{**target, "kind": "ConfigMap", "name": "conf"}]}
    else:
        selectors = {"clusterResourceSelectors": [target]}
    return {**selectors, "policy": {"overrideRules": rules}}


async def start(hub: Hub, kind: Kind) -> set[str]:
    """Place an overridden object; returns what the members are told of it from then on."""
    hub.cluster.api.chain.plugins.append(SlowSnapshots())
    await hub.namespace("app", conf={"a": "1"})
    metadata: Obj = {"name": "o", **({"namespace": kind[2]} if kind[2] else {})}
    await hub.client.create(kind[0], {"metadata": metadata, "spec": spec(kind, FIRST)})
    await hub.advance(5)
    await hub.place("app")
    seen: set[str] = set()

    def see(old: Obj | None, new: Obj | None) -> None:
        for manifest in spec_of(new or {}).get("workload", {}).get("manifests", ()):
            if name_of(manifest) == "conf":
                seen.add(labels_of(manifest).get("v", PLAIN))

    observer = Manager(hub.client, hub.cluster.clock, hub.cluster.random)
    observer.informer(WORKS).on_change(see)
    await observer.start()
    return seen


async def edit(hub: Hub, kind: Kind, new: Obj) -> None:
    await hub.edit(kind[0], "o", lambda one: {**one, "spec": new}, kind[2])
    await hub.advance(120)


async def marked(hub: Hub, kind: Kind) -> list[str]:
    found = (await hub.client.list(kind[1])).items
    return [name_of(one) for one in found if labels_of(one)[IS_LATEST] == "true"]


@BOTH
def test_an_edited_override_follows_the_old_one_without_a_gap(kind: Kind) -> None:
    async def scenario(hub: Hub) -> None:
        seen = await start(hub, kind)
        for number in range(14):  # more than are kept
            await edit(hub, kind, spec(kind, f"{SECOND}-{number}"))
        assert await marked(hub, kind) == ["o-14"]
        assert seen == {FIRST, *(f"{SECOND}-{number}" for number in range(14))}

    on_hub(scenario)


@BOTH
def test_an_override_that_cannot_be_applied_leaves_what_is_there(kind: Kind) -> None:
    async def scenario(hub: Hub) -> None:
        seen = await start(hub, kind)
        await edit(hub, kind, override(kind, {"op": "remove", "path": "/data/missing"}))
        assert any(is_false(one, "Overridden") for one in await hub.bindings("app"))
        assert seen == {FIRST}

    on_hub(scenario)


@BOTH
def test_of_two_snapshots_marked_as_the_latest_the_newer_counts_and_keeps_the_mark(kind: Kind) -> None:
    async def scenario(hub: Hub) -> None:
        seen = await start(hub, kind)
        await edit(hub, kind, spec(kind, SECOND))
        seen.clear()
        await hub.edit(kind[1], "o-0", lambda one: with_labels(one, {IS_LATEST: "true"}), kind[2])
        await hub.advance(120)
        assert await marked(hub, kind) == ["o-1"]
        assert not seen

    on_hub(scenario)


@BOTH
def test_an_override_that_is_deleted_goes_for_good_and_none_before_it_returns(kind: Kind) -> None:
    async def scenario(hub: Hub) -> None:
        seen = await start(hub, kind)
        for number in range(11):
            await edit(hub, kind, spec(kind, f"{SECOND}-{number}"))
        seen.clear()
        await hub.client.delete(kind[0], "o", kind[2])
        await hub.advance(120)
        assert seen == {PLAIN}

    on_hub(scenario)
