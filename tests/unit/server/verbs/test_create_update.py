"""The life of an object through the API: create, read, replace, delete."""

from __future__ import annotations

from typing import Any

import pytest
from api_setup import ADMIN, CONFIG_MAPS, GADGETS, JOBS, PODS, HandClock, kinds

from corral.core.errors import AlreadyExists, ApiError, BadRequest, Conflict, Invalid, NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.machinery.registry import Registry
from corral.runtime.random import Random
from corral.server.api import Api, DeleteOptions, ListOptions, WriteOptions
from corral.store import Store

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


def config(name: str, **metadata: Any) -> Obj:
    return {"metadata": {"name": name, **metadata}, "data": {"k": "v"}}


async def test_create_fills_in_what_the_system_owns(api: Api, clock: HandClock) -> None:
    sent = config("a", uid="mine", creationTimestamp="2000-01-01T00:00:00Z", generation=7)
    stored = await api.create(ADMIN, CONFIG_MAPS, "ns", sent)
    metadata = stored.obj["metadata"]
    assert stored.obj["kind"] == "ConfigMap"
    assert stored.obj["apiVersion"] == "v1"
    assert metadata["namespace"] == "ns"
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] == clock.timestamp()
    assert metadata["resourceVersion"] == str(stored.revision) == "1"
    assert "generation" not in metadata
    assert sent["metadata"]["uid"] == "mine"
    assert (await api.get(ADMIN, CONFIG_MAPS, "ns", "a")) is stored


async def test_create_of_a_kind_with_generation_starts_at_one_and_drops_status(api: Api) -> None:
    stored = await api.create(
        ADMIN, GADGETS, "ns", {"metadata": {"name": "g"}, "spec": {"size": 2}, "status": {"ready": 1}}
    )
    assert stored.obj["metadata"]["generation"] == 1
    assert "status" not in stored.obj


async def test_create_with_resource_version_is_a_server_error(api: Api) -> None:
    with pytest.raises(ApiError) as caught:
        await api.create(ADMIN, CONFIG_MAPS, "ns", config("a", resourceVersion="1"))
    assert (caught.value.code, caught.value.reason) == (500, "")


async def test_create_again_says_already_exists(api: Api) -> None:
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    with pytest.raises(AlreadyExists, match=r'^configmaps "a" already exists$'):
        await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))


async def test_create_in_another_namespace_than_the_url_is_refused(api: Api) -> None:
    with pytest.raises(BadRequest, match=r"does not match the namespace sent on the request"):
        await api.create(ADMIN, CONFIG_MAPS, "ns", config("a", namespace="other"))


async def test_generated_names_have_five_letters_and_avoid_collisions(api: Api) -> None:
    names = set()
    for _ in range(20):
        stored = await api.create(ADMIN, CONFIG_MAPS, "ns", {"metadata": {"generateName": "x-"}})
        names.add(stored.obj["metadata"]["name"])
    assert len(names) == 20
    assert all(len(name) == 7 and not set(name[2:]) & set("aeiou013") for name in names)


async def test_generated_name_is_tried_eight_times(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.random, "suffix", lambda length=5: "bbbbb")
    await api.create(ADMIN, CONFIG_MAPS, "ns", {"metadata": {"generateName": "x-"}})
    with pytest.raises(AlreadyExists, match=r"was not able to generate a unique name"):
        await api.create(ADMIN, CONFIG_MAPS, "ns", {"metadata": {"generateName": "x-"}})


async def test_nameless_object_is_invalid(api: Api) -> None:
    with pytest.raises(Invalid, match=r"name or generateName is required"):
        await api.create(ADMIN, CONFIG_MAPS, "ns", {"data": {}})


async def test_unknown_fields_warn_or_stop(api: Api) -> None:
    warnings: list[str] = []
    obj = {"metadata": {"name": "a"}, "bogus": 1}
    stored = await api.create(ADMIN, CONFIG_MAPS, "ns", obj, WriteOptions(warn=warnings.append, dry_run=True))
    assert "bogus" not in stored.obj
    assert warnings == ['unknown field "bogus"']
    with pytest.raises(BadRequest) as caught:
        await api.create(ADMIN, CONFIG_MAPS, "ns", obj, WriteOptions(field_validation="Strict"))
    assert caught.value.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "bogus"'
    )


async def test_dry_run_create_stores_nothing(api: Api) -> None:
    stored = await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"), WriteOptions(dry_run=True))
    assert stored.obj["metadata"]["uid"]
    assert api.store.revision == 0


async def test_an_object_beyond_the_limit_is_not_kept(api: Api) -> None:
    with pytest.raises(ApiError, match=r"^etcdserver: request is too large$") as caught:
        await api.create(ADMIN, PODS, "ns", pod("p", containers=[{"name": "c", "image": "i" * 1_600_000}]))
    assert (caught.value.code, caught.value.reason) == (500, "")
    assert api.store.revision == 0


async def test_update_keeps_system_metadata_and_makes_a_revision(api: Api, clock: HandClock) -> None:
    first = await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    clock.time += 10
    stored, created = await api.update(
        ADMIN, CONFIG_MAPS, "ns", "a", {"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "w"}}
    )
    assert not created
    assert stored.revision == 2
    assert stored.obj["metadata"]["uid"] == first.obj["metadata"]["uid"]
    assert stored.obj["metadata"]["creationTimestamp"] == first.obj["metadata"]["creationTimestamp"]
    assert stored.obj["data"] == {"k": "w"}


async def test_update_that_changes_nothing_makes_no_revision(api: Api) -> None:
    first = await api.create(ADMIN, GADGETS, "ns", {"metadata": {"name": "g"}, "spec": {"size": 2}})
    stored, _ = await api.update(ADMIN, GADGETS, "ns", "g", first.obj)
    assert stored is first
    assert api.store.revision == 1


async def test_update_with_an_old_version_conflicts(api: Api) -> None:
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    await api.update(ADMIN, CONFIG_MAPS, "ns", "a", {"metadata": {"name": "a"}, "data": {"k": "2"}})
    with pytest.raises(Conflict, match=r"the object has been modified"):
        await api.update(ADMIN, CONFIG_MAPS, "ns", "a", config("a", resourceVersion="1"))
    with pytest.raises(ApiError, match=r'strconv.ParseUint: parsing "abc": invalid syntax'):
        await api.update(ADMIN, CONFIG_MAPS, "ns", "a", config("a", resourceVersion="abc"))


async def test_update_of_another_uid_conflicts(api: Api) -> None:
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    with pytest.raises(Conflict, match=r"UID in precondition: other, UID in object meta: "):
        await api.update(ADMIN, CONFIG_MAPS, "ns", "a", config("a", uid="other"))


async def test_update_without_version_needs_a_kind_that_allows_it(api: Api) -> None:
    await api.create(ADMIN, GADGETS, "ns", {"metadata": {"name": "g"}})
    with pytest.raises(Invalid) as caught:
        await api.update(ADMIN, GADGETS, "ns", "g", {"metadata": {"name": "g"}})
    assert caught.value.message == (
        'gadgets.example.com "g" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update'
    )


async def test_update_of_a_missing_object(api: Api) -> None:
    with pytest.raises(NotFound):
        await api.update(ADMIN, CONFIG_MAPS, "ns", "a", config("a"))
    with pytest.raises(BadRequest, match=r"the name of the object \(b\) does not match the name on the URL \(a\)"):
        await api.update(ADMIN, CONFIG_MAPS, "ns", "a", config("b"))
    _, created = await api.update(ADMIN, LEASES, "ns", "a", {"metadata": {"name": "a"}})
    assert created
    with pytest.raises(Invalid, match=r"must be specified for an update"):
        await api.update(ADMIN, LEASES, "ns", "a", {"metadata": {"name": "a"}})
    with pytest.raises(Conflict):
        await api.update(ADMIN, LEASES, "ns", "b", {"metadata": {"name": "b", "resourceVersion": "1"}})


async def test_generation_grows_with_the_spec_only(api: Api) -> None:
    stored = await api.create(ADMIN, GADGETS, "ns", {"metadata": {"name": "g"}, "spec": {"size": 2}})
    obj = {**stored.obj, "spec": {"size": 3}, "status": {"ready": 9}}
    stored, _ = await api.update(ADMIN, GADGETS, "ns", "g", obj)
    assert stored.obj["metadata"]["generation"] == 2
    assert "status" not in stored.obj
    obj = {**stored.obj, "metadata": {**stored.obj["metadata"], "labels": {"a": "b"}}}
    stored, _ = await api.update(ADMIN, GADGETS, "ns", "g", obj)
    assert stored.obj["metadata"]["generation"] == 2


async def test_status_update_changes_status_alone(api: Api) -> None:
    stored = await api.create(ADMIN, GADGETS, "ns", {"metadata": {"name": "g"}, "spec": {"size": 2}})
    sent = {
        "metadata": {**stored.obj["metadata"], "labels": {"a": "b"}},
        "spec": {"size": 5},
        "status": {"ready": 1},
    }
    changed, _ = await api.update(ADMIN, GADGETS, "ns", "g", sent, subresource="status")
    assert changed.obj["status"] == {"ready": 1}
    assert changed.obj["spec"] == {"size": 2}
    assert "labels" not in changed.obj["metadata"]
    assert changed.obj["metadata"]["generation"] == 1


async def test_delete_answers_a_status_and_the_object_is_gone(api: Api) -> None:
    stored = await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    answer = await api.delete(ADMIN, CONFIG_MAPS, "ns", "a")
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": stored.obj["metadata"]["uid"]},
    }
    with pytest.raises(NotFound, match=r'^configmaps "a" not found$'):
        await api.get(ADMIN, CONFIG_MAPS, "ns", "a")
    with pytest.raises(NotFound):
        await api.delete(ADMIN, CONFIG_MAPS, "ns", "a")


async def test_finalizers_hold_an_object_until_the_last_is_gone(api: Api, clock: HandClock) -> None:
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a", finalizers=["example.com/f"]))
    held = await api.delete(ADMIN, CONFIG_MAPS, "ns", "a")
    assert held["metadata"]["deletionTimestamp"] == clock.timestamp()
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    with pytest.raises(AlreadyExists, match=r"^object is being deleted: configmaps"):
        await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    with pytest.raises(Invalid, match=r"no new finalizers can be added"):
        await api.update(ADMIN, CONFIG_MAPS, "ns", "a", config("a", finalizers=["example.com/f", "example.com/g"]))
    revision = api.store.revision
    assert (await api.delete(ADMIN, CONFIG_MAPS, "ns", "a")) == held
    assert api.store.revision == revision
    gone, _ = await api.update(ADMIN, CONFIG_MAPS, "ns", "a", config("a"))
    assert gone.obj["metadata"]["resourceVersion"] == str(revision + 1)
    with pytest.raises(NotFound):
        await api.get(ADMIN, CONFIG_MAPS, "ns", "a")


async def test_delete_checks_preconditions(api: Api) -> None:
    stored = await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    uid = stored.obj["metadata"]["uid"]
    with pytest.raises(Conflict) as caught:
        await api.delete(ADMIN, CONFIG_MAPS, "ns", "a", DeleteOptions(uid="other"))
    assert caught.value.message == (
        f'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the UID in '
        f"record ({uid}). The object might have been deleted and then recreated"
    )
    with pytest.raises(Conflict, match=r"the ResourceVersion in the precondition"):
        await api.delete(ADMIN, CONFIG_MAPS, "ns", "a", DeleteOptions(resource_version="99"))
    await api.delete(ADMIN, CONFIG_MAPS, "ns", "a", DeleteOptions(uid=uid, resource_version="1"))


def pod(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def test_running_pods_get_their_grace_and_a_second_delete_shortens_it(api: Api, clock: HandClock) -> None:
    await api.create(ADMIN, PODS, "ns", pod("p", nodeName="n", terminationGracePeriodSeconds=30))
    marked = await api.delete(ADMIN, PODS, "ns", "p")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    clock.time += 5
    same = await api.delete(ADMIN, PODS, "ns", "p", DeleteOptions(grace=60))
    assert same == marked
    shorter = await api.delete(ADMIN, PODS, "ns", "p", DeleteOptions(grace=10))
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 10
    assert shorter["metadata"]["deletionTimestamp"] < marked["metadata"]["deletionTimestamp"]
    gone = await api.delete(ADMIN, PODS, "ns", "p", DeleteOptions(grace=0))
    assert gone["kind"] == "Pod"
    with pytest.raises(NotFound):
        await api.get(ADMIN, PODS, "ns", "p")


async def test_unscheduled_pods_go_at_once(api: Api) -> None:
    await api.create(ADMIN, PODS, "ns", pod("p", terminationGracePeriodSeconds=30))
    await api.delete(ADMIN, PODS, "ns", "p")
    with pytest.raises(NotFound):
        await api.get(ADMIN, PODS, "ns", "p")


async def test_propagation_leaves_finalizers_for_the_garbage_collector(api: Api) -> None:
    warnings: list[str] = []
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": []}}}}
    await api.create(ADMIN, JOBS, "ns", job)
    held = await api.delete(ADMIN, JOBS, "ns", "j", DeleteOptions(warn=warnings.append))
    assert held["metadata"]["finalizers"] == ["orphan"]
    assert held["metadata"]["generation"] == 2
    assert len(warnings) == 1
    assert warnings[0].startswith("child pods are preserved by default")
    held = await api.delete(ADMIN, JOBS, "ns", "j", DeleteOptions(propagation="Foreground"))
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
    gone = await api.delete(ADMIN, JOBS, "ns", "j", DeleteOptions(propagation="Background"))
    assert gone["status"] == "Success"


async def test_delete_collection_deletes_what_matches(api: Api) -> None:
    from corral.core.selectors import parse_label_selector

    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.create(ADMIN, CONFIG_MAPS, "ns", config(name, labels={"l": label}))
    await api.create(ADMIN, CONFIG_MAPS, "other", config("a", labels={"l": "x"}))
    gone = await api.delete_collection(
        ADMIN, CONFIG_MAPS, ListOptions(namespace="ns", labels=parse_label_selector("l=x"))
    )
    assert [stored.key.name for stored in gone] == ["a", "c"]
    left = await api.list(ADMIN, CONFIG_MAPS)
    assert [(stored.key.namespace, stored.key.name) for stored in left.items] == [("ns", "b"), ("other", "a")]


async def test_other_versions_are_views_of_the_stored_one(api: Api) -> None:
    beta = GADGETS.at("v1beta1")
    stored = await api.create(ADMIN, beta, "ns", {"metadata": {"name": "g"}, "spec": {"size": 2}})
    assert stored.obj["apiVersion"] == "example.com/v1beta1"
    assert (await api.get(ADMIN, GADGETS, "ns", "g")).obj["apiVersion"] == "example.com/v1"
    changed, _ = await api.update(ADMIN, beta, "ns", "g", {**stored.obj, "spec": {"size": 3}})
    assert changed.obj["apiVersion"] == "example.com/v1beta1"
    assert changed.obj["metadata"]["generation"] == 2
    listing = await api.list(ADMIN, beta)
    assert [item.obj["apiVersion"] for item in listing.items] == ["example.com/v1beta1"]


async def test_objects_stored_in_an_older_version_are_shown_in_the_one_asked_for(api: Api) -> None:
    key = api.serving.find(GADGETS).key("ns", "old")
    obj = {"apiVersion": "example.com/v1beta1", "kind": "Gadget", "metadata": {"name": "old", "namespace": "ns"}}
    await api.store.put(key, obj)
    assert (await api.get(ADMIN, GADGETS, "ns", "old")).obj["apiVersion"] == "example.com/v1"
    assert (await api.list(ADMIN, GADGETS)).items[0].obj["apiVersion"] == "example.com/v1"
    (event,) = await api.watch(ADMIN, GADGETS).next()
    assert event.stored.obj["apiVersion"] == "example.com/v1"


async def test_fields_are_left_alone_where_they_are_not_tracked(clock: HandClock) -> None:
    store = Store(now=clock.now)
    api = Api(store, Registry(kinds()), clock=clock, random=Random(1), builtin_admission=False, track_fields=False)
    stored = await api.create(ADMIN, CONFIG_MAPS, "ns", config("a"))
    assert "managedFields" not in stored.obj["metadata"]


async def test_an_owner_named_twice_is_kept_once(api: Api) -> None:
    warnings: list[str] = []
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u1"}
    stored = await api.create(
        ADMIN, CONFIG_MAPS, "ns", config("a", ownerReferences=[owner, owner]), WriteOptions(warn=warnings.append)
    )
    assert stored.obj["metadata"]["ownerReferences"] == [owner]
    assert warnings[0].endswith("duplicate UID(s) observed: u1")
