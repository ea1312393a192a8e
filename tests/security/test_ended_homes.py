"""Nothing comes into a namespace, or is of a kind, behind its end: it would belong to the next one of that name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.security.served import RBAC, World, served
from tests.waiting import PATIENCE_S

from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj

TENANT = "/api/v1/namespaces/tenant"
MAPS = f"{TENANT}/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BINDING = {
    "metadata": {"name": "late"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    "subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}],
}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "late"}}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/tenant/leases"
WAYS = {
    "created": ("POST", MAPS, MAP, "application/json"),
    "with a generated name": ("POST", MAPS, {"metadata": {"generateName": "late-"}}, "application/json"),
    "a binding": ("POST", f"{RBAC}/namespaces/tenant/rolebindings", BINDING, "application/json"),
    "applied": ("PATCH", f"{MAPS}/late?fieldManager=m", MAP, "apply"),
    "put": ("PUT", f"{LEASES}/late", LEASE, "application/json"),
}


class Slow:
    """Takes its time about every write of somebody's, as a webhook may."""

    name = "Slow"

    def __init__(self) -> None:
        self.asked, self.may_go = asyncio.Event(), asyncio.Event()

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" and (request.name == "late" or str(request.obj).find("late-") > 0)

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        self.asked.set()
        await self.may_go.wait()


async def gone(world: World, path: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if (await world.ask("GET", path)).status == 404:
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ["gone", "ending", "made again"])
async def test_what_was_admitted_before_the_end_and_is_stored_after_it_is_refused(way: str, end: str) -> None:
    method, path, body, kind = WAYS[way]
    async with served() as world:
        slow = Slow()
        world.cluster.api.chain.plugins.append(slow)
        assert (await world.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "tenant"}})).status == 201
        if end == "ending":
            holds: Any = {"metadata": {"name": "holds", "finalizers": ["example.com/stay"]}}
            assert (await world.ask("POST", MAPS, holds)).status == 201
        writing = asyncio.create_task(world.ask(method, path, body, kind=kind))
        async with asyncio.timeout(PATIENCE_S):
            await slow.asked.wait()
        assert (await world.ask("DELETE", TENANT)).status == 200
        if end != "ending":
            await gone(world, TENANT)
        if end == "made again":
            assert (await world.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "tenant"}})).status == 201
        slow.may_go.set()
        assert (await writing).status == (403 if end == "ending" else 404)
        kinds = world.cluster.store.resources()
        assert [
            stored.key
            for each in kinds
            for stored in world.cluster.store.scan(each, "tenant")
            if "late" in stored.key.name
        ] == []


@pytest.mark.parametrize("is_back", [False, True], ids=["gone", "made again"])
async def test_what_was_admitted_before_the_end_of_its_kind_is_not_there_when_the_kind_comes_back(
    is_back: bool,
) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "late.example", "names": names, "scope": "Namespaced", "versions": [version]}
    kind = {"metadata": {"name": "things.late.example"}, "spec": spec}
    things = "/apis/late.example/v1/namespaces/default/things"
    async with served() as world:
        slow = Slow()
        world.cluster.api.chain.plugins.append(slow)
        assert (await world.ask("POST", CRDS, kind)).status == 201
        late = {"apiVersion": "late.example/v1", "kind": "Thing", "metadata": {"name": "late"}}
        writing = asyncio.create_task(world.ask("POST", things, late))
        async with asyncio.timeout(PATIENCE_S):
            await slow.asked.wait()
        assert (await world.ask("DELETE", f"{CRDS}/things.late.example")).status == 200
        await gone(world, f"{CRDS}/things.late.example")
        if is_back:
            assert (await world.ask("POST", CRDS, kind)).status == 201
        slow.may_go.set()
        assert (await writing).status == 405
        if not is_back:
            assert (await world.ask("POST", CRDS, kind)).status == 201
        assert (await world.ask("GET", things)).json["items"] == []
