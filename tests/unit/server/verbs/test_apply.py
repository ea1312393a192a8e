"""Server-side apply and field ownership through the API."""

from __future__ import annotations

from typing import Any

import pytest
from api_setup import ADMIN, CONFIG_MAPS, GADGETS, HandClock

from corral.core.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from corral.core.meta import Obj
from corral.server.api import Api, Stored, WriteOptions


async def apply(api: Api, manager: str, data: dict[str, Any], *, force: bool = False, **metadata: Any) -> Stored:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "ns", **metadata},
        "data": data,
    }
    options = WriteOptions(manager=manager, force=force)
    return (await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "apply", config, options))[0]


def owners(obj: Obj) -> dict[tuple[str, str], Obj]:
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]}


async def test_apply_creates_and_owns(api: Api, clock: HandClock) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    stored, created = await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "apply", config, WriteOptions(manager="m1"))
    assert created
    assert stored.obj["metadata"]["managedFields"] == [
        {
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": clock.timestamp(),
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:x": {}}},
        }
    ]


async def test_apply_again_changes_nothing(api: Api, clock: HandClock) -> None:
    first = await apply(api, "m1", {"x": "1"})
    clock.time += 60
    assert await apply(api, "m1", {"x": "1"}) is first


async def test_apply_conflicts_unless_forced(api: Api) -> None:
    await apply(api, "m1", {"x": "1", "y": "1"})
    with pytest.raises(Conflict) as caught:
        await apply(api, "m2", {"x": "2", "y": "2"})
    assert caught.value.message == 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.x\n- .data.y'
    stored = await apply(api, "m2", {"x": "2"}, force=True)
    assert stored.obj["data"] == {"x": "2", "y": "1"}
    assert owners(stored.obj) == {("m1", "Apply"): {"f:data": {"f:y": {}}}, ("m2", "Apply"): {"f:data": {"f:x": {}}}}


async def test_fields_given_up_disappear(api: Api) -> None:
    await apply(api, "m1", {"x": "1", "y": "1"})
    await apply(api, "m2", {"y": "1"})
    stored = await apply(api, "m1", {"z": "1"})
    assert stored.obj["data"] == {"y": "1", "z": "1"}


async def test_ordinary_writes_take_ownership(api: Api, clock: HandClock) -> None:
    body = {"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"k": "v"}}
    stored = await api.create(ADMIN, CONFIG_MAPS, "ns", body, WriteOptions(manager="creator"))
    assert owners(stored.obj) == {
        ("creator", "Update"): {"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}}
    }
    stored, _ = await api.patch(
        ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"data": {"k": "w"}}, WriteOptions(manager="changer")
    )
    assert owners(stored.obj)[("changer", "Update")] == {"f:data": {"f:k": {}}}
    cleared, _ = await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in cleared.obj["metadata"]


async def test_status_writes_are_recorded_with_their_subresource(api: Api) -> None:
    await api.create(ADMIN, GADGETS, "ns", {"metadata": {"name": "g"}, "spec": {"size": 2}}, WriteOptions(manager="c"))
    config = {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "g"},
        "spec": {"size": 9},
        "status": {"ready": 1},
    }
    stored, created = await api.patch(
        ADMIN, GADGETS, "ns", "g", "apply", config, WriteOptions(manager="s"), subresource="status"
    )
    assert not created
    assert (stored.obj["spec"], stored.obj["status"]) == ({"size": 2}, {"ready": 1})
    entry = stored.obj["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["subresource"], entry["fieldsV1"]) == (
        "s",
        "status",
        {"f:status": {"f:ready": {}}},
    )
    missing = {**config, "metadata": {"name": "nope"}}
    with pytest.raises(NotFound):
        await api.patch(ADMIN, GADGETS, "ns", "nope", "apply", missing, WriteOptions(manager="s"), subresource="status")


async def test_malformed_applies_are_refused(api: Api) -> None:
    await apply(api, "m1", {"x": "1"})
    with pytest.raises(Invalid, match=r"fieldManager: Required value: is required for apply patch"):
        await apply(api, "", {"x": "1"})
    with pytest.raises(BadRequest, match=r"^invalid object type: /, Kind=$"):
        await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "apply", {"data": {}}, WriteOptions(manager="m"))
    with pytest.raises(BadRequest, match=r"^metadata.managedFields must be nil$"):
        await apply(api, "m1", {}, managedFields=[{"manager": "x"}])
    with pytest.raises(BadRequest, match=r"the name of the object \(b\) does not match the name on the URL \(a\)"):
        await apply(api, "m1", {}, name="b")
    with pytest.raises(Conflict, match=r"the object has been modified"):
        await apply(api, "m1", {"x": "2"}, resourceVersion="99")
    bogus = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "bogus": 1}
    with pytest.raises(ApiError) as caught:
        await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "apply", bogus, WriteOptions(manager="m2"))
    assert caught.value.message == (
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .bogus: field not declared in schema"
    )
    assert (caught.value.code, caught.value.reason) == (500, "")


async def test_apply_on_create_with_a_uid_conflicts(api: Api) -> None:
    with pytest.raises(Conflict, match=r"uid mismatch"):
        await apply(api, "m1", {}, uid="some")
