"""Patches, the scale subresource and what is POSTed to pods."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from api_setup import ADMIN, CONFIG_MAPS, GADGETS, JOBS, PODS, HandClock, kinds

from corral.core.errors import ApiError, BadRequest, Conflict, Invalid, NotFound, UnsupportedMediaType
from corral.core.meta import Obj
from corral.kinds.machinery.registry import Registry
from corral.runtime.random import Random
from corral.server.api import Api, WriteOptions
from corral.store import SqliteJournal, Store


def config(name: str) -> Obj:
    return {"metadata": {"name": name, "labels": {"a": "b"}}, "data": {"k": "v"}}


async def test_merge_patch_changes_what_it_names(api: Api) -> None:
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    patch = {"data": {"x": "y", "k": None}, "metadata": {"labels": None}}
    stored, created = await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", patch)
    assert not created
    assert stored.obj["data"] == {"x": "y"}
    assert "labels" not in stored.obj["metadata"]
    assert stored.revision == 2


async def test_patch_that_changes_nothing_makes_no_revision(api: Api) -> None:
    first = await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    stored, _ = await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"data": {"k": "v"}})
    assert stored is first


async def test_patch_with_a_version_is_an_optimistic_lock(api: Api) -> None:
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    with pytest.raises(Conflict, match=r"the object has been modified"):
        await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"metadata": {"resourceVersion": "99"}})
    await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"metadata": {"resourceVersion": "1"}, "data": {"z": "1"}})


async def test_json_patch_and_its_failures(api: Api) -> None:
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    ops = [{"op": "test", "path": "/data/k", "value": "v"}, {"op": "replace", "path": "/data/k", "value": "w"}]
    stored, _ = await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "json", ops)
    assert stored.obj["data"] == {"k": "w"}
    for bad in ([{"op": "frob", "path": "/data/k"}], [{"op": "test", "path": "/data/k", "value": "no"}]):
        with pytest.raises(Invalid) as caught:
            await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "json", bad)
        assert caught.value.message == "the server rejected our request due to an error in our request"
        assert caught.value.details == {}


async def test_strategic_patch_merges_lists_by_key_for_built_in_kinds_only(api: Api) -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]},
    }
    await api.create(ADMIN, PODS, "ns", pod)
    patch = {"spec": {"containers": [{"name": "d", "image": "j"}]}}
    stored, _ = await api.patch(ADMIN, PODS, "ns", "p", "strategic", patch)
    assert [(c["name"], c["image"]) for c in stored.obj["spec"]["containers"]] == [("c", "i"), ("d", "j")]
    with pytest.raises(ApiError, match=r"map: map\[image:x\] does not contain declared merge key: name") as caught:
        await api.patch(ADMIN, PODS, "ns", "p", "strategic", {"spec": {"containers": [{"image": "x"}]}})
    assert (caught.value.code, caught.value.reason) == (500, "")
    await api.create(ADMIN, GADGETS, "ns", {"metadata": {"name": "g"}})
    with pytest.raises(UnsupportedMediaType):
        await api.patch(ADMIN, GADGETS, "ns", "g", "strategic", {"spec": {"size": 3}})


async def test_patch_that_makes_nonsense_is_invalid(api: Api) -> None:
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    with pytest.raises(Invalid) as caught:
        await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"data": "x"})
    assert caught.value.message.startswith(' "" is invalid: patch: Invalid value: "{\\"apiVersion\\":\\"v1\\",')
    assert caught.value.message.endswith(
        "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string"
    )
    with pytest.raises(Invalid, match=r'strict decoding error: unknown field "bogus"$'):
        await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"bogus": 1}, WriteOptions(field_validation="Strict"))
    with pytest.raises(BadRequest, match=r"the name of the object \(z\) does not match the name on the URL \(a\)"):
        await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"metadata": {"name": "z"}})
    with pytest.raises(BadRequest, match=r"cannot unmarshal array into Go value of type map\[string\]interface"):
        await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", [1])
    with pytest.raises(NotFound):
        await api.patch(ADMIN, CONFIG_MAPS, "ns", "nope", "merge", {})


async def test_status_patch_changes_status_alone(api: Api) -> None:
    await api.create(ADMIN, GADGETS, "ns", {"metadata": {"name": "g"}, "spec": {"size": 2}})
    patch = {"spec": {"size": 7}, "status": {"ready": 1}}
    stored, _ = await api.patch(ADMIN, GADGETS, "ns", "g", "merge", patch, subresource="status")
    assert (stored.obj["spec"], stored.obj["status"]) == ({"size": 2}, {"ready": 1})
    with pytest.raises(Invalid, match=r"status.ready: Invalid value: .* must be of type integer"):
        await api.patch(ADMIN, GADGETS, "ns", "g", "merge", {"status": {"ready": "x"}}, subresource="status")


async def test_custom_kinds_are_pruned_defaulted_and_checked(api: Api) -> None:
    warnings: list[str] = []
    sent = {"metadata": {"name": "g"}, "spec": {"bogus": 1}}
    stored = await api.create(ADMIN, GADGETS, "ns", sent, WriteOptions(warn=warnings.append))
    assert stored.obj["spec"] == {"size": 1}
    assert warnings == ['unknown field "spec.bogus"']
    with pytest.raises(Invalid) as caught:
        await api.create(ADMIN, GADGETS, "ns", {"metadata": {"name": "h"}, "spec": {"color": "blue"}})
    assert caught.value.message == (
        'Gadget.example.com "h" is invalid: spec.color: Unsupported value: "blue": supported values: "red", "green"'
    )


async def test_scale_reads_and_writes_the_replica_count(api: Api) -> None:
    await api.create(ADMIN, GADGETS, "ns", {"metadata": {"name": "g"}, "spec": {"size": 2}})
    scale = (await api.get(ADMIN, GADGETS, "ns", "g", subresource="scale")).obj
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
    changed, _ = await api.update(ADMIN, GADGETS, "ns", "g", {**scale, "spec": {"replicas": 5}}, subresource="scale")
    assert changed.obj["spec"] == {"replicas": 5}
    with pytest.raises(Conflict):
        await api.update(ADMIN, GADGETS, "ns", "g", {**scale, "spec": {"replicas": 6}}, subresource="scale")
    changed, _ = await api.patch(ADMIN, GADGETS, "ns", "g", "merge", {"spec": {"replicas": 3}}, subresource="scale")
    assert changed.obj["spec"] == {"replicas": 3}
    assert (await api.get(ADMIN, GADGETS, "ns", "g")).obj["spec"] == {"size": 3}


async def test_subresources_a_kind_lacks_are_not_found(api: Api) -> None:
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    with pytest.raises(NotFound, match=r"the server could not find the requested resource"):
        await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {}, subresource="status")
    with pytest.raises(NotFound, match=r"the server could not find the requested resource"):
        await api.get(ADMIN, JOBS, "ns", "a", subresource="scale")


async def test_concurrent_patches_of_one_object_all_arrive(tmp_path: Path) -> None:
    clock = HandClock()
    store = Store(SqliteJournal(tmp_path / "state.db"), now=clock.now)
    api = Api(store, Registry(kinds()), clock=clock, random=Random(1), builtin_admission=False)
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    await asyncio.gather(
        *(api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"data": {f"k{n}": "v"}}) for n in range(50))
    )
    stored = await api.get(ADMIN, CONFIG_MAPS, "ns", "a")
    assert len(stored.obj["data"]) == 51
    assert stored.revision == 51
    await store.close()
