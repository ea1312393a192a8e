"""What a member and a user may do on the hub, with and without the guard rail."""

from __future__ import annotations

import pytest
from hub import Hub, on_hub

from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.guard_rail import GuardRail
from corral.core.admission import AdmissionRequest, UserInfo
from corral.core.errors import Forbidden
from corral.core.meta import Obj, spec_of
from corral.core.resource import Resource
from corral.kinds.fleet import (
    MEMBER_CLUSTERS,
    WORKS,
)
from corral.kinds.fleet.names import member_namespace
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kubernetes.rbac import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, ROLES
from corral.server.verbs.options import WriteOptions


def test_148_a_member_may_act_in_its_own_namespace_only() -> None:
    async def scenario(hub: Hub) -> None:
        everywhere = (await hub.client.list(ROLE_BINDINGS)).items
        mine = [
            one
            for one in everywhere
            if any(subject.get("name") == "cluster-1" for subject in one.get("subjects") or ())
        ]
        assert [one["metadata"]["namespace"] for one in mine] == [member_namespace("cluster-1")]
        role = await hub.client.get(ROLES, mine[0]["roleRef"]["name"], member_namespace("cluster-1"))
        # Inside it, everything of the fleet's own groups, and events; nothing else of the core group.
        groups = {group: rule["resources"] for rule in role["rules"] for group in rule["apiGroups"]}
        assert groups.pop("") == ["events"]
        assert set(groups) == {
            "cluster.kubernetes-fleet.io",
            "placement.kubernetes-fleet.io",
            "networking.fleet.azure.com",
        }
        wide = (await hub.client.list(CLUSTER_ROLE_BINDINGS)).items
        assert not [one for one in wide if any(s.get("name") == "cluster-1" for s in one.get("subjects") or ())]

    on_hub(scenario)


ONE = ("cluster-1",)


# The guard rail

ANN = UserInfo("ann", ("system:authenticated",))
LIE = {"status": {"resourceUsage": {"available": {"cpu": "1000"}}}}
MEMBER = UserInfo("system:serviceaccount:fleet-system:cluster-1", ("system:authenticated",))


def test_148_the_guard_rail() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        api = hub.cluster.api
        here, there = member_namespace("cluster-1"), member_namespace("cluster-2")

        async def touch(user: UserInfo, namespace: str) -> None:
            patch = {"metadata": {"annotations": {"touched": "by"}}}
            await api.patch(user, WORKS, namespace, "app-work", "merge", patch, WriteOptions())

        await touch(MEMBER, here)
        with pytest.raises(Forbidden) as refused:
            await touch(MEMBER, there)
        assert str(refused.value) == (
            'admission webhook "fleet.fleetmembernamespacedresources.guardrail.validating" denied the request: user:'
            " 'system:serviceaccount:fleet-system:cluster-1' in 'groups: [system:authenticated]' is not allowed to"
            f" UPDATE resource placement.kubernetes-fleet.io/v1beta1, Kind=Work/: {there}/app-work"
        )
        with pytest.raises(Forbidden, match=r"namespace\.guardrail"):
            await api.create(ANN, NAMESPACES, "", {"metadata": {"name": "kube-mine"}}, WriteOptions())
        await api.create(ANN, NAMESPACES, "", {"metadata": {"name": "mine"}}, WriteOptions())
        # Anybody may taint a member; only the system may say how it is.
        taints = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
        await api.patch(ANN, MEMBER_CLUSTERS, "", "cluster-1", "merge", taints, WriteOptions())
        with pytest.raises(Forbidden, match=r"membercluster\.guardrail"):
            await api.patch(ANN, MEMBER_CLUSTERS, "", "cluster-1", "merge", LIE, WriteOptions(), "status")
        mark = {"metadata": {"annotations": {"fleet.azure.com/x": "y"}}}
        with pytest.raises(Forbidden, match="add a fleet pre-fixed annotation"):
            await api.patch(ANN, MEMBER_CLUSTERS, "", "cluster-1", "merge", mark, WriteOptions())
        await touch(UserInfo("friend", ("system:authenticated",)), there)

    on_hub(scenario, settings=PlacementSettings(guard_rail=True, allowed_users=("friend",)))


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(UserInfo("root", ("system:masters",)), id="an administrator"),
        pytest.param(UserInfo("friend", ("system:authenticated",)), id="an allowed user"),
        pytest.param(UserInfo("ann", ("system:authenticated",)), id="anybody"),
        pytest.param(UserInfo("system:kube-controller-manager"), id="the system"),
    ],
)
def test_148_nobody_may_turn_a_member_into_one_of_the_provider_or_back(user: UserInfo) -> None:
    async def scenario(hub: Hub) -> None:
        api = hub.cluster.api

        async def mark(name: str, value: str | None) -> None:
            patch = {"metadata": {"annotations": {"fleet.azure.com/x": value}}}
            await api.patch(user, MEMBER_CLUSTERS, "", name, "merge", patch, WriteOptions())

        root = UserInfo("root", ("system:masters",))
        identity = {"kind": "User", "name": "theirs"}
        marked = {"metadata": {"name": "theirs", "annotations": {"fleet.azure.com/x": "y"}}}
        await api.create(root, MEMBER_CLUSTERS, "", {**marked, "spec": {"identity": identity}}, WriteOptions())
        with pytest.raises(Forbidden, match="no user is allowed to add a fleet pre-fixed annotation"):
            await mark("cluster-1", "y")
        with pytest.raises(Forbidden, match="no user is allowed to remove all fleet pre-fixed annotations"):
            await mark("theirs", None)

    on_hub(scenario, members=ONE, settings=PlacementSettings(guard_rail=True, allowed_users=("friend",)))


@pytest.mark.parametrize(
    "kind", ["InternalServiceExport", "InternalServiceImport", "EndpointSliceExport", "EndpointSliceImport"]
)
def test_148_a_member_may_write_its_services_in_its_own_namespace_only(kind: str) -> None:
    resource = Resource("networking.fleet.azure.com", "v1alpha1", f"{kind.lower()}s", kind)

    async def scenario(hub: Hub) -> None:
        guard = GuardRail(hub.client)
        own, other = member_namespace("cluster-1"), member_namespace("cluster-2")

        async def create(user: UserInfo, namespace: str) -> None:
            body: Obj = {"metadata": {"name": "web", "namespace": namespace}}
            request = AdmissionRequest("CREATE", resource, "", namespace, "web", user, body, None)
            assert guard.handles(request)
            await guard.validate(request)

        await create(MEMBER, own)
        for user, namespace in ((MEMBER, other), (MEMBER, "fleet-system"), (ANN, own)):
            with pytest.raises(Forbidden, match=r"namespacedresources\.guardrail"):
                await create(user, namespace)

    on_hub(scenario)


def test_148_without_it_the_role_is_all_there_is() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        assert spec_of(await hub.client.get(MEMBER_CLUSTERS, "cluster-1"))
        await hub.cluster.api.create(ANN, NAMESPACES, "", {"metadata": {"name": "kube-mine"}}, WriteOptions())

    on_hub(scenario, members=ONE)
