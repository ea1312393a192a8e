"""Upstream's scenarios 1 to 27: what is selected, frozen in snapshots, and sent to members."""

from __future__ import annotations

import pytest
from hub import Hub, config_selector, namespace_selector, on_hub

from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.admission import NoWorkloads
from corral.core.meta import Obj, labels_of, name_of, status_of
from corral.core.resource import Resource
from corral.kinds.fleet import (
    CLUSTER_RESOURCE_PLACEMENTS,
    CLUSTER_RESOURCE_SNAPSHOTS,
    PLACEMENT_STATUSES,
)
from corral.kinds.kubernetes.apps.kinds import CONTROLLER_REVISIONS, DEPLOYMENTS, REPLICA_SETS
from corral.kinds.kubernetes.core.kinds import (
    CONFIG_MAPS,
    ENDPOINTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.kinds.kubernetes.rbac import CLUSTER_ROLES

ONE = ("cluster-1",)


def named(manifests: list[Obj]) -> list[tuple[str, str]]:
    return [(one["kind"], one["metadata"]["name"]) for one in manifests]


async def snapshots(hub: Hub, placement: str) -> dict[str, str]:
    found = (
        await hub.client.list(CLUSTER_RESOURCE_SNAPSHOTS, labels=f"kubernetes-fleet.io/parent-CRP={placement}")
    ).items
    return {name_of(one): labels_of(one).get("kubernetes-fleet.io/is-latest-snapshot", "") for one in found}


def test_01_a_namespace_selected_by_name_travels_with_its_contents() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        assert named(await hub.manifests("cluster-2", "app-work")) == [("Namespace", "app"), ("ConfigMap", "conf")]

    on_hub(scenario)


def test_02_and_03_and_04_labels_decide_what_is_selected_at_any_time() -> None:
    async def scenario(hub: Hub) -> None:
        for name in ("a", "b"):
            await hub.client.create(NAMESPACES, {"metadata": {"name": name, "labels": {"team": "x"}}})
        await hub.client.create(NAMESPACES, {"metadata": {"name": "c"}})
        selector = {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"team": "x"}}}
        await hub.place("team", selectors=[selector])
        assert named(await hub.manifests("cluster-1", "team-work")) == [("Namespace", "a"), ("Namespace", "b")]
        await hub.patch(NAMESPACES, "c", {"metadata": {"labels": {"team": "x"}}})
        await hub.advance(31)
        assert len(await hub.manifests("cluster-1", "team-work")) == 3
        await hub.patch(NAMESPACES, "a", {"metadata": {"labels": {"team": None}}})
        await hub.advance(31)
        assert named(await hub.manifests("cluster-1", "team-work")) == [("Namespace", "b"), ("Namespace", "c")]

    on_hub(scenario, members=ONE)


def test_05_to_07_changes_of_contents_make_the_next_snapshot() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        await hub.advance(40)
        await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": "2"}}, "app")
        await hub.advance(16)
        assert status_of(await hub.placement("app"))["observedResourceIndex"] == "1"
        assert (await hub.manifests("cluster-1", "app-work"))[1]["data"] == {"a": "2"}
        await hub.client.create(CONFIG_MAPS, {"metadata": {"name": "more", "namespace": "app"}})
        await hub.advance(31)
        assert len(await hub.manifests("cluster-1", "app-work")) == 3
        await hub.client.delete(CONFIG_MAPS, "more", "app")
        await hub.advance(31)
        assert len(await hub.manifests("cluster-1", "app-work")) == 2

    on_hub(scenario, members=ONE)


def test_08_a_reserved_namespace_is_refused_in_the_status() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.place("system", selectors=[namespace_selector("kube-system")])
        status, reason, message = (await hub.conditions("system"))["Scheduled"]
        assert (status, reason) == ("False", "InvalidResourceSelectors")
        assert message == (
            "The resource selectors are invalid: failed to process the request due to a client error: invalid"
            " clusterRresourcePlacement system: namespace kube-system is not allowed to propagate"
        )

    on_hub(scenario, members=ONE)


def test_09_an_object_selected_twice_is_refused() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.client.create(CLUSTER_ROLES, {"metadata": {"name": "role"}, "rules": []})
        selector = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "role"}
        await hub.place("twice", selectors=[selector, selector])
        assert (await hub.conditions("twice"))["Scheduled"][2].endswith(
            "found duplicate resource {Group:rbac.authorization.k8s.io Version:v1 Kind:ClusterRole Name:role Namespace:"
            " Envelope:<nil>}"
        )

    on_hub(scenario, members=ONE)


def test_10_and_11_cluster_scoped_objects_travel_and_missing_ones_are_nothing() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.client.create(CLUSTER_ROLES, {"metadata": {"name": "role"}, "rules": []})
        selector = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "role"}
        await hub.place("role", selectors=[selector])
        await hub.place("missing", selectors=[{**selector, "name": "nobody"}])
        assert named(await hub.manifests("cluster-1", "role-work")) == [("ClusterRole", "role")]
        assert (await hub.conditions("missing"))["Available"][0] == "True"
        assert await hub.manifests("cluster-1", "missing-work") == []

    on_hub(scenario, members=ONE)


def test_12_a_history_of_one_keeps_only_the_latest_snapshot() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app", revisionHistoryLimit=1)
        for value in "23":
            await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": value}}, "app")
            await hub.advance(60)
        # The one before stays as long as a binding rolls it out; nothing does here.
        assert list(await snapshots(hub, "app"))[-1] == "app-2-snapshot"
        assert len(await snapshots(hub, "app")) <= 2

    on_hub(scenario, members=ONE)


def test_13_a_long_history_keeps_all_and_marks_one() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        for value in "234":
            await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": value}}, "app")
            await hub.advance(60)
        assert await snapshots(hub, "app") == {
            "app-0-snapshot": "false",
            "app-1-snapshot": "false",
            "app-2-snapshot": "false",
            "app-3-snapshot": "true",
        }

    on_hub(scenario, members=ONE)


def test_14_a_large_selection_is_split_into_several_snapshots_and_works() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("big", **{f"conf{i}": {"blob": "x" * 500_000} for i in range(3)})
        await hub.place("big")
        assert sorted(await snapshots(hub, "big")) == ["big-0-0", "big-0-1", "big-0-snapshot"]
        works = [await hub.manifests("cluster-1", name) for name in ("big-work", "big-0", "big-1")]
        assert [len(one) for one in works] == [2, 1, 1]
        assert (await hub.conditions("big"))["Available"][0] == "True"

    on_hub(scenario, members=ONE)


def test_16_namespace_only_takes_nothing_inside() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app", selectors=[namespace_selector("app", "NamespaceOnly")])
        assert named(await hub.manifests("cluster-1", "app-work")) == [("Namespace", "app")]

    on_hub(scenario, members=ONE)


def test_17_to_19_selectors_pick_inside_one_namespace() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", one={"a": "1"}, two={"a": "2"})
        await hub.client.create(CLUSTER_ROLES, {"metadata": {"name": "role"}, "rules": []})
        inside = namespace_selector("app", "NamespaceWithResourceSelectors")
        role = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "role"}
        await hub.place("some", selectors=[inside, config_selector("two"), role])
        assert named(await hub.manifests("cluster-1", "some-work")) == [
            ("Namespace", "app"),
            ("ConfigMap", "two"),
            ("ClusterRole", "role"),
        ]
        await hub.place("bare", selectors=[inside])
        assert named(await hub.manifests("cluster-1", "bare-work")) == [("Namespace", "app")]

    on_hub(scenario, members=ONE)


def test_20_selectors_inside_a_missing_namespace_are_an_error() -> None:
    async def scenario(hub: Hub) -> None:
        inside = namespace_selector("nowhere", "NamespaceWithResourceSelectors")
        for name, others in (("lost", [config_selector("two")]), ("alone", [])):
            await hub.place(name, selectors=[inside, *others])
            _, reason, text = (await hub.conditions(name))["Scheduled"]
            assert reason == "InvalidResourceSelectors"
            assert text.endswith(
                "NamespaceWithResourceSelectors mode requires exactly one namespace, but no namespaces were selected"
            )
        await hub.namespace("nowhere", two={"a": "1"})
        await hub.advance(60)
        assert named(await hub.manifests("cluster-1", "lost-work")) == [("Namespace", "nowhere"), ("ConfigMap", "two")]
        assert named(await hub.manifests("cluster-1", "alone-work")) == [("Namespace", "nowhere")]

    on_hub(scenario, members=ONE)


def test_23_the_interval_between_snapshots_can_be_set() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": "2"}}, "app")
        await hub.advance(110)
        assert (await hub.manifests("cluster-1", "app-work"))[1]["data"] == {"a": "1"}
        await hub.advance(20)
        assert (await hub.manifests("cluster-1", "app-work"))[1]["data"] == {"a": "2"}

    on_hub(scenario, members=ONE, settings=PlacementSettings(collection=60, interval=120))


KINDS = (
    ("", "ConfigMap"),
    ("", "ServiceAccount"),
    ("", "Secret"),
    ("", "Endpoints"),
    ("", "PersistentVolumeClaim"),
    ("apps", "ReplicaSet"),
    ("apps", "ControllerRevision"),
    ("discovery.k8s.io", "EndpointSlice"),
)


async def furnish(hub: Hub) -> None:
    """A namespace with an object of every kind that a cluster also makes by itself, called mine, and such an object."""
    await hub.namespace("app", **{"kube-root-ca.crt": {"ca": "x"}, "mine": {"a": "1"}})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": True}
    labels = {"x": "y"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    replicas = {"selector": {"matchLabels": labels}, "template": pods}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    token = {"annotations": {"kubernetes.io/service-account.name": "mine"}}
    managed = {"labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}
    made: list[tuple[Resource, str, Obj, Obj]] = [
        (SERVICE_ACCOUNTS, "default", {}, {}),
        (SERVICE_ACCOUNTS, "mine", {}, {}),
        (SECRETS, "token", token, {"type": "kubernetes.io/service-account-token"}),
        (SECRETS, "mine", {}, {}),
        (ENDPOINTS, "served", {}, {}),
        (ENDPOINTS, "mine", {}, {}),
        (SERVICES, "served", {}, {"spec": {"ports": [{"port": 80}]}}),
        (PERSISTENT_VOLUME_CLAIMS, "mine", {}, {"spec": claim}),
        (REPLICA_SETS, "owned", {"ownerReferences": [owner]}, {"spec": replicas}),
        (REPLICA_SETS, "mine", {}, {"spec": replicas}),
        (CONTROLLER_REVISIONS, "owned", {"ownerReferences": [owner]}, {"revision": 1, "data": {}}),
        (CONTROLLER_REVISIONS, "mine", {}, {"revision": 1, "data": {}}),
        (ENDPOINT_SLICES, "made", managed, {"addressType": "IPv4", "endpoints": []}),
        (ENDPOINT_SLICES, "mine", {}, {"addressType": "IPv4", "endpoints": []}),
    ]
    for resource, name, metadata, body in made:
        await hub.client.create(resource, {"metadata": {"name": name, "namespace": "app", **metadata}, **body})


@pytest.mark.parametrize("way", ["namespace", "selectors", "resource placement"])
@pytest.mark.parametrize("runs_workloads", [True, False])
def test_24_what_a_cluster_makes_by_itself_stays_whichever_way_it_is_selected(way: str, runs_workloads: bool) -> None:
    async def scenario(hub: Hub) -> None:
        if not runs_workloads:  # what is refused there may be left from before
            hub.cluster.api.chain.plugins[:] = [
                one for one in hub.cluster.api.chain.plugins if not isinstance(one, NoWorkloads)
            ]
        await furnish(hub)
        kinds: list[Obj] = [{"group": group, "version": "v1", "kind": kind} for group, kind in KINDS]
        if way == "namespace":
            await hub.place("app")
        elif way == "selectors":
            await hub.place("app", selectors=[namespace_selector("app", "NamespaceWithResourceSelectors"), *kinds])
        else:
            await hub.place("app", "app", kinds)
        work = "app.app-work" if way == "resource placement" else "app-work"
        found = {one for one in named(await hub.manifests("cluster-1", work)) if one[0] not in ("Namespace", "Service")}
        expected = {(kind, "mine") for _, kind in KINDS}
        assert found == expected - ({("PersistentVolumeClaim", "mine")} if runs_workloads else set())

    on_hub(scenario, members=ONE, settings=PlacementSettings(admit_workloads=runs_workloads))


def test_15_and_25_order_and_what_is_stripped() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        port = {"port": 80, "nodePort": 30080}
        service = {"type": "NodePort", "selector": {"a": "b"}, "ports": [port]}
        await hub.client.create(SERVICES, {"metadata": {"name": "svc", "namespace": "app"}, "spec": service})
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        deployment = {"selector": {"matchLabels": labels}, "template": template}
        await hub.client.create(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": "app"}, "spec": deployment})
        await hub.place("app")
        manifests = await hub.manifests("cluster-1", "app-work")
        assert [kind for kind, _ in named(manifests)] == ["Namespace", "ConfigMap", "Service", "Deployment"]
        assert "clusterIP" not in manifests[2]["spec"]
        assert "nodePort" not in manifests[2]["spec"]["ports"][0]
        for manifest in manifests:
            assert not {"uid", "resourceVersion", "managedFields", "creationTimestamp"} & set(manifest["metadata"])
            assert "status" not in manifest

    on_hub(scenario, members=ONE)


def test_26_a_namespace_accessible_placement_mirrors_its_status() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app", statusReportingScope="NamespaceAccessible")
        status, reason, message = (await hub.conditions("app"))["StatusSynced"]
        assert (status, reason) == ("True", "StatusSyncSucceeded")
        assert message == "Successfully created or updated ClusterResourcePlacementStatus in namespace 'app'"
        copy = await hub.client.get(PLACEMENT_STATUSES, "app", "app")
        own = status_of(await hub.placement("app"))
        assert copy["sourceStatus"]["placementStatuses"] == own["placementStatuses"]
        assert all(not one["type"].endswith("StatusSynced") for one in copy["sourceStatus"]["conditions"])
        await hub.client.delete(PLACEMENT_STATUSES, "app", "app")
        await hub.settle()
        assert await hub.client.get(PLACEMENT_STATUSES, "app", "app")

    on_hub(scenario, members=ONE)


def test_27_a_namespace_accessible_placement_keeps_its_namespace() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        await hub.namespace("other")
        await hub.place("app", statusReportingScope="NamespaceAccessible")
        change = {"spec": {"resourceSelectors": [namespace_selector("other")]}}
        await hub.patch(CLUSTER_RESOURCE_PLACEMENTS, "app", change)
        await hub.settle()
        status, reason, message = (await hub.conditions("app"))["Scheduled"]
        assert (status, reason) == ("False", "InvalidResourceSelectors")
        assert "choosing a different namespace 'other' from what was originally picked 'app'" in message

    on_hub(scenario, members=ONE)
