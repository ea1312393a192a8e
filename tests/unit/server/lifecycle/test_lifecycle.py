"""Namespaces, garbage collection, custom definitions and expiring events, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from api_setup import ADMIN

from corral.core import conditions
from corral.core.errors import MethodNotAllowed, NotFound
from corral.core.meta import Obj, owner_ref, with_metadata
from corral.core.resource import Resource
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.core.kinds import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from corral.kinds.kubernetes.notices import sentences
from corral.runtime.clock import VirtualClock
from corral.runtime.controller import Manager
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.server.api import Api, DeleteOptions
from corral.server.lifecycle import EventExpiry, set_up_lifecycle
from corral.server.lifecycle.garbage import GarbageCollector
from corral.server.local import LocalClient
from corral.server.verbs.options import WriteOptions
from corral.store import ObjectKey, Store

WIDGETS = Resource("errs.example", "v1", "widgets", "Widget")


class Cluster:
    """An Api with its lifecycle controllers."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        random = Random(1)
        self.store = Store(now=self.clock.now)
        self.api = Api(self.store, builtin_registry(), clock=self.clock, random=random)
        self.manager = Manager(LocalClient(self.api), self.clock, random)

    async def start(self) -> None:
        set_up_lifecycle(self.api, self.manager)
        await self.manager.start()
        await self.create(NAMESPACES, {"metadata": {"name": "ns"}})
        await self.settle()

    async def create(self, resource: Resource, obj: Obj) -> Obj:
        return (await self.api.create(ADMIN, resource, "", obj)).obj

    async def settle(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0)

    def has(self, name: str, resource: str = "configmaps", namespace: str = "ns") -> bool:
        return self.store.get(ObjectKey(resource, namespace, name)) is not None


def in_cluster(scenario: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
    """Run a test inside a cluster on virtual time."""

    def test() -> None:
        async def main() -> None:
            cluster = Cluster()
            await cluster.start()
            try:
                await scenario(cluster)
            finally:
                await cluster.manager.stop()

        run_virtual(main)

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


def config(name: str, *owners: Obj, **metadata: Any) -> Obj:
    references = [owner_ref(owner) for owner in owners]
    return {"metadata": {"name": name, "namespace": "ns", "ownerReferences": references, **metadata}}


@in_cluster
async def test_a_namespace_gets_its_service_account_and_root_certificate(cluster: Cluster) -> None:
    assert cluster.has("default", "serviceaccounts")
    assert cluster.has("kube-root-ca.crt")
    await cluster.api.delete(ADMIN, SERVICE_ACCOUNTS, "ns", "default")
    await cluster.settle()
    assert cluster.has("default", "serviceaccounts")


@in_cluster
async def test_a_deleted_namespace_goes_with_all_its_content(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, config("a"))
    await cluster.create(SECRETS, config("s"))
    answer = await cluster.api.delete(ADMIN, NAMESPACES, "", "ns")
    assert answer["status"]["phase"] == "Terminating"
    await cluster.settle()
    assert not cluster.has("a")
    with pytest.raises(NotFound):
        await cluster.api.get(ADMIN, NAMESPACES, "", "ns")


@in_cluster
async def test_a_namespace_waits_for_finalizers_and_says_so(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, config("a", finalizers=["example.com/f"]))
    await cluster.api.delete(ADMIN, NAMESPACES, "", "ns")
    await cluster.settle()
    namespace = (await cluster.api.get(ADMIN, NAMESPACES, "", "ns")).obj
    remaining = conditions.find(namespace, "NamespaceFinalizersRemaining")
    assert remaining is not None
    assert remaining["message"] == (
        "Some content in the namespace has finalizers remaining: example.com/f in 1 resource instances"
    )
    await cluster.api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"metadata": {"finalizers": None}})
    await cluster.settle()
    with pytest.raises(NotFound):
        await cluster.api.get(ADMIN, NAMESPACES, "", "ns")


@in_cluster
async def test_dependents_follow_their_owner_in_the_background(cluster: Cluster) -> None:
    owner = await cluster.create(CONFIG_MAPS, config("owner"))
    child = await cluster.create(CONFIG_MAPS, config("child", owner))
    await cluster.create(CONFIG_MAPS, config("grandchild", child))
    await cluster.api.delete(ADMIN, CONFIG_MAPS, "ns", "owner")
    await cluster.settle()
    assert not cluster.has("child")
    assert not cluster.has("grandchild")


@in_cluster
async def test_a_dependent_with_another_owner_only_loses_the_reference(cluster: Cluster) -> None:
    first = await cluster.create(CONFIG_MAPS, config("first"))
    second = await cluster.create(CONFIG_MAPS, config("second"))
    references = [owner_ref(first, controller=True), owner_ref(second, controller=False)]
    await cluster.create(CONFIG_MAPS, config("child", ownerReferences=references))
    await cluster.api.delete(ADMIN, CONFIG_MAPS, "ns", "first")
    await cluster.settle()
    child = (await cluster.api.get(ADMIN, CONFIG_MAPS, "ns", "child")).obj
    assert [ref["name"] for ref in child["metadata"]["ownerReferences"]] == ["second"]


@in_cluster
async def test_foreground_deletion_waits_for_blocking_dependents(cluster: Cluster) -> None:
    owner = await cluster.create(CONFIG_MAPS, config("owner"))
    await cluster.create(CONFIG_MAPS, config("child", owner, finalizers=["example.com/f"]))
    await cluster.api.delete(ADMIN, CONFIG_MAPS, "ns", "owner", DeleteOptions(propagation="Foreground"))
    await cluster.settle()
    child = (await cluster.api.get(ADMIN, CONFIG_MAPS, "ns", "child")).obj
    assert child["metadata"]["deletionTimestamp"]
    assert cluster.has("owner")
    await cluster.api.patch(ADMIN, CONFIG_MAPS, "ns", "child", "merge", {"metadata": {"finalizers": None}})
    await cluster.settle()
    assert not cluster.has("child")
    assert not cluster.has("owner")


@in_cluster
async def test_orphaned_dependents_stay_without_their_owner(cluster: Cluster) -> None:
    owner = await cluster.create(CONFIG_MAPS, config("owner"))
    await cluster.create(CONFIG_MAPS, config("child", owner))
    await cluster.api.delete(ADMIN, CONFIG_MAPS, "ns", "owner", DeleteOptions(propagation="Orphan"))
    await cluster.settle()
    assert not cluster.has("owner")
    child = (await cluster.api.get(ADMIN, CONFIG_MAPS, "ns", "child")).obj
    assert "ownerReferences" not in child["metadata"]


@in_cluster
async def test_an_owner_is_known_by_its_uid(cluster: Cluster) -> None:
    owner = await cluster.create(CONFIG_MAPS, config("owner"))
    impostor = with_metadata(owner, uid="another")
    await cluster.create(CONFIG_MAPS, config("child", impostor))
    await cluster.settle()
    assert not cluster.has("child")
    stranger = {**owner, "apiVersion": "nobody.example/v1", "kind": "Unknown"}
    await cluster.create(CONFIG_MAPS, config("safe", stranger))
    await cluster.settle()
    assert cluster.has("safe")


@in_cluster
async def test_owners_in_a_circle_go_together(cluster: Cluster) -> None:
    first = await cluster.create(CONFIG_MAPS, config("first"))
    second = await cluster.create(CONFIG_MAPS, config("second", first))
    patch = {"metadata": {"ownerReferences": [owner_ref(second)]}}
    await cluster.api.patch(ADMIN, CONFIG_MAPS, "ns", "first", "merge", patch)
    await cluster.api.delete(ADMIN, CONFIG_MAPS, "ns", "first", DeleteOptions(propagation="Foreground"))
    await cluster.settle()
    assert not cluster.has("first")
    assert not cluster.has("second")


def widget_crd(**names: Any) -> Obj:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    return {
        "metadata": {"name": "widgets.errs.example"},
        "spec": {
            "group": "errs.example",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList", **names},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@in_cluster
async def test_a_definition_is_established_served_and_removed_with_its_objects(cluster: Cluster) -> None:
    with pytest.raises(NotFound):
        await cluster.api.list(ADMIN, WIDGETS)
    await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, widget_crd())
    await cluster.settle()
    crd = (await cluster.api.get(ADMIN, CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.errs.example")).obj
    assert conditions.is_true(crd, "Established")
    assert conditions.is_true(crd, "NamesAccepted")
    assert crd["status"]["storedVersions"] == ["v1"]
    assert "finalizers" not in crd["metadata"]  # it is held back only once it is deleted, as on a real server
    await cluster.create(WIDGETS, {"metadata": {"name": "w", "namespace": "ns"}, "spec": {"size": 1, "bogus": 2}})
    stored = await cluster.api.get(ADMIN, WIDGETS, "ns", "w")
    assert stored.obj["spec"] == {"size": 1}
    await cluster.api.delete(ADMIN, CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.errs.example")
    await cluster.settle()
    assert cluster.store.count("widgets.errs.example") == 0
    assert not cluster.has("widgets.errs.example", "customresourcedefinitions.apiextensions.k8s.io", "")
    with pytest.raises(NotFound):
        await cluster.api.list(ADMIN, WIDGETS)


@in_cluster
async def test_a_definition_with_taken_names_is_not_served(cluster: Cluster) -> None:
    await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, widget_crd())
    await cluster.settle()
    other = widget_crd(plural="gizmos")
    other["metadata"]["name"] = "gizmos.errs.example"
    await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, other)
    await cluster.settle()
    crd = (await cluster.api.get(ADMIN, CUSTOM_RESOURCE_DEFINITIONS, "", "gizmos.errs.example")).obj
    verdict = conditions.find(crd, "NamesAccepted")
    assert verdict is not None
    assert (verdict["status"], verdict["reason"]) == ("False", "SingularConflict")
    assert conditions.is_false(crd, "Established")
    with pytest.raises(NotFound):
        await cluster.api.list(ADMIN, Resource("errs.example", "v1", "gizmos", "Widget"))


@in_cluster
async def test_shipped_kinds_are_served_and_their_definitions_visible(cluster: Cluster) -> None:
    await cluster.settle()
    listing = await cluster.api.list(ADMIN, CUSTOM_RESOURCE_DEFINITIONS)
    shown = {stored.key.name for stored in listing.items}
    assert {"workloads.kueue.x-k8s.io", "pytorchjobs.kubeflow.org"} <= shown
    assert all(conditions.is_true(stored.obj, "Established") for stored in listing.items)


CLUSTER_QUEUES = "clusterqueues.kueue.x-k8s.io"


def older_definition(**metadata: Any) -> Obj:
    """A release that knew one version of ClusterQueues, and other fields."""
    names = {
        "plural": "clusterqueues",
        "kind": "ClusterQueue",
        "listKind": "ClusterQueueList",
        "singular": "clusterqueue",
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CLUSTER_QUEUES, **metadata},
        "spec": {"group": "kueue.x-k8s.io", "scope": "Cluster", "names": names, "versions": [version]},
    }


async def write_over(cluster: Cluster, how: str) -> None:
    definitions, api = CUSTOM_RESOURCE_DEFINITIONS, cluster.api
    if how == "update":
        held = (await api.get(ADMIN, definitions, "", CLUSTER_QUEUES)).obj
        version = held["metadata"]["resourceVersion"]
        await api.update(ADMIN, definitions, "", CLUSTER_QUEUES, older_definition(resourceVersion=version))
    elif how == "merge patch":
        patch = {"spec": older_definition()["spec"]}
        await api.patch(ADMIN, definitions, "", CLUSTER_QUEUES, "merge", patch)
    else:
        options = WriteOptions(manager="kubectl")
        await api.patch(ADMIN, definitions, "", CLUSTER_QUEUES, "apply", older_definition(), options)


@pytest.mark.parametrize("how", ["update", "merge patch", "server-side apply"])
def test_a_definition_of_another_release_is_taken_and_the_kind_stays_ours(how: str) -> None:
    @in_cluster
    async def scenario(cluster: Cluster) -> None:
        native = cluster.api.registry.get("kueue.x-k8s.io", "clusterqueues")
        await cluster.create(NAMESPACES, {"metadata": {"name": "default"}})
        for _ in range(2):
            await write_over(cluster, how)
            await cluster.settle()
            held = (await cluster.api.get(ADMIN, CUSTOM_RESOURCE_DEFINITIONS, "", CLUSTER_QUEUES)).obj
            assert [version["name"] for version in held["spec"]["versions"]] == ["v1beta1"]
            assert held["status"]["storedVersions"] == ["v1beta1"]
            assert conditions.is_true(held, "Established")
            assert cluster.api.registry.get("kueue.x-k8s.io", "clusterqueues") is native
        await cluster.clock.sleep(5)
        told = [stored.obj for stored in (await cluster.api.list(ADMIN, EVENTS)).items]
        assert [event["reason"] for event in told if event["involvedObject"]["name"] == CLUSTER_QUEUES] == [
            "ServedByCorral"
        ]
        said = sentences((await cluster.api.get(ADMIN, CONFIG_MAPS, "kube-system", "corral-notices")).obj)
        assert said == [f"Corral serves these kinds itself; their applied definitions have no effect: {CLUSTER_QUEUES}"]
        await cluster.api.delete(ADMIN, CUSTOM_RESOURCE_DEFINITIONS, "", CLUSTER_QUEUES)
        await cluster.settle()
        assert not sentences((await cluster.api.get(ADMIN, CONFIG_MAPS, "kube-system", "corral-notices")).obj)

    scenario()


@in_cluster
async def test_a_shipped_kind_is_still_served_after_its_definition_is_deleted(cluster: Cluster) -> None:
    native = cluster.api.registry.get("kueue.x-k8s.io", "clusterqueues")
    before = (await cluster.api.get(ADMIN, CUSTOM_RESOURCE_DEFINITIONS, "", CLUSTER_QUEUES)).obj
    await cluster.api.delete(ADMIN, CUSTOM_RESOURCE_DEFINITIONS, "", CLUSTER_QUEUES)
    await cluster.settle()
    after = (await cluster.api.get(ADMIN, CUSTOM_RESOURCE_DEFINITIONS, "", CLUSTER_QUEUES)).obj
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert cluster.api.registry.get("kueue.x-k8s.io", "clusterqueues") is native


@in_cluster
async def test_the_status_of_a_quota_follows_what_is_there(cluster: Cluster) -> None:
    await cluster.create(SECRETS, config("s"))
    quota = {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": {"secrets": "5", "pods": "2"}}}
    await cluster.create(RESOURCE_QUOTAS, quota)
    await cluster.settle()
    status = (await cluster.api.get(ADMIN, RESOURCE_QUOTAS, "ns", "q")).obj["status"]
    assert status == {"hard": {"secrets": "5", "pods": "2"}, "used": {"secrets": "1", "pods": "0"}}
    await cluster.api.delete(ADMIN, SECRETS, "ns", "s")
    await cluster.settle()
    status = (await cluster.api.get(ADMIN, RESOURCE_QUOTAS, "ns", "q")).obj["status"]
    assert status["used"]["secrets"] == "0"


def event(name: str) -> Obj:
    involved = {"kind": "Namespace", "name": "ns", "namespace": "ns"}
    return {"metadata": {"name": name, "namespace": "ns"}, "involvedObject": involved, "reason": "Test"}


@in_cluster
async def test_of_very_many_events_the_oldest_are_forgotten_early(cluster: Cluster) -> None:
    EventExpiry(cluster.api, cluster.manager, most=3)
    for number in range(5):
        await cluster.create(EVENTS, event(f"e{number}"))
        await asyncio.sleep(1)
    await cluster.settle()
    assert [number for number in range(5) if cluster.has(f"e{number}", "events")] == [2, 3, 4]


@in_cluster
async def test_events_are_forgotten_after_an_hour(cluster: Cluster) -> None:
    await cluster.create(EVENTS, event("early"))
    await asyncio.sleep(1800)
    await cluster.create(EVENTS, event("late"))
    await asyncio.sleep(1801)
    assert (cluster.has("early", "events"), cluster.has("late", "events")) == (False, True)
    await asyncio.sleep(1800)
    assert not cluster.has("late", "events")


@in_cluster
async def test_a_definition_on_its_way_out_takes_no_new_objects(cluster: Cluster) -> None:
    await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, widget_crd())
    await cluster.settle()
    held = {"metadata": {"name": "w", "namespace": "ns", "finalizers": ["example.com/f"]}}
    await cluster.create(WIDGETS, held)
    await cluster.api.delete(ADMIN, CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.errs.example")
    await cluster.settle()
    with pytest.raises(MethodNotAllowed, match=r"create not allowed while custom resource definition is terminating"):
        await cluster.create(WIDGETS, {"metadata": {"name": "x", "namespace": "ns"}})
    crd = (await cluster.api.get(ADMIN, CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.errs.example")).obj
    assert conditions.is_true(crd, "Terminating")
    await cluster.api.patch(ADMIN, WIDGETS, "ns", "w", "merge", {"metadata": {"finalizers": None}})
    await cluster.settle()
    assert not cluster.has("widgets.errs.example", "customresourcedefinitions.apiextensions.k8s.io", "")


@in_cluster
async def test_both_event_apis_show_the_same_events(cluster: Cluster) -> None:
    from corral.kinds.kubernetes.events import EVENTS as NEW_EVENTS

    regarding = {"kind": "Namespace", "name": "ns", "namespace": "ns"}
    event = {
        "metadata": {"name": "e", "namespace": "ns"},
        "regarding": regarding,
        "note": "hello",
        "reason": "Test",
        "action": "Testing",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/test",
        "reportingInstance": "one",
    }
    created = await cluster.create(NEW_EVENTS, event)
    assert (created["apiVersion"], created["note"]) == ("events.k8s.io/v1", "hello")
    old = (await cluster.api.get(ADMIN, EVENTS, "ns", "e")).obj
    assert (old["apiVersion"], old["message"], old["involvedObject"]) == ("v1", "hello", regarding)
    (listed,) = (await cluster.api.list(ADMIN, NEW_EVENTS)).items
    assert listed.obj["note"] == "hello"


@in_cluster
async def test_an_owner_in_another_namespace_does_not_count_and_is_reported(cluster: Cluster) -> None:
    await cluster.create(NAMESPACES, {"metadata": {"name": "other"}})
    far = await cluster.create(CONFIG_MAPS, {"metadata": {"name": "far", "namespace": "other"}})
    await cluster.create(CONFIG_MAPS, config("child", far))
    await cluster.settle()
    assert not cluster.has("child")
    await asyncio.sleep(1)
    events = (await cluster.api.list(ADMIN, EVENTS)).items
    assert [event.obj["reason"] for event in events] == ["OwnerRefInvalidNamespace"]


@in_cluster
async def test_an_owner_in_the_same_namespace_whose_removal_is_being_written_is_no_stranger(cluster: Cluster) -> None:
    owner = await cluster.create(CONFIG_MAPS, config("owner"))
    child = await cluster.create(CONFIG_MAPS, config("child", owner))
    stored = cluster.store.get(ObjectKey("configmaps", "ns", "child"))
    (collector,) = [
        each.reconciler for each in cluster.manager.controllers if isinstance(each.reconciler, GarbageCollector)
    ]
    assert stored is not None
    collector._warn_of_strangers(stored, child["metadata"]["ownerReferences"])
    await asyncio.sleep(1)
    assert not (await cluster.api.list(ADMIN, EVENTS)).items
