"""Built-in admission over the real kinds: namespaces, pods, limits and quotas."""

from __future__ import annotations

from typing import Any

import pytest
from api_setup import ADMIN, HandClock

from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import (
    CONFIG_MAPS,
    LIMIT_RANGES,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
)
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES
from corral.runtime.random import Random
from corral.server.api import Api
from corral.store import Store


@pytest.fixture
async def api(clock: HandClock) -> Api:
    api = Api(Store(now=clock.now), builtin_registry(), clock=clock, random=Random(1))
    await api.create(ADMIN, NAMESPACES, "", {"metadata": {"name": "ns"}})
    return api


def pod(name: str = "p", **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def create(api: Api, resource: Resource, obj: Obj) -> Obj:
    return (await api.create(ADMIN, resource, "ns" if resource.namespaced else "", obj)).obj


async def test_nothing_is_created_in_a_namespace_that_is_not_there(api: Api) -> None:
    with pytest.raises(NotFound, match=r'^namespaces "nope" not found$'):
        await api.create(ADMIN, CONFIG_MAPS, "nope", {"metadata": {"name": "a"}})


async def test_nothing_is_created_in_a_namespace_that_ends(api: Api) -> None:
    await create(api, CONFIG_MAPS, {"metadata": {"name": "held"}})
    await api.delete(ADMIN, NAMESPACES, "", "ns")
    with pytest.raises(Forbidden) as caught:
        await create(api, CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert caught.value.message == (
        'configmaps "a" is forbidden: unable to create new content in namespace ns because it is being terminated'
    )
    assert caught.value.causes == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace ns is being terminated",
            "field": "metadata.namespace",
        }
    ]


async def test_some_namespaces_cannot_be_deleted(api: Api) -> None:
    await create(api, NAMESPACES, {"metadata": {"name": "kube-system"}})
    with pytest.raises(Forbidden, match=r'^namespaces "kube-system" is forbidden: this namespace may not be deleted$'):
        await api.delete(ADMIN, NAMESPACES, "", "kube-system")


async def test_a_pod_gets_account_token_priority_and_tolerations(api: Api) -> None:
    spec = (await create(api, PODS, pod()))["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    assert spec["containers"][0]["volumeMounts"] == [
        {"name": volume["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    ]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


async def test_a_pod_may_decline_token_and_tolerations(api: Api) -> None:
    await create(api, SERVICE_ACCOUNTS, {"metadata": {"name": "quiet"}, "automountServiceAccountToken": False})
    spec = (await create(api, PODS, pod(serviceAccountName="quiet", tolerations=[{"operator": "Exists"}])))["spec"]
    assert "volumes" not in spec
    assert spec["tolerations"] == [{"operator": "Exists"}]


async def test_accounts_and_priority_classes_must_exist(api: Api) -> None:
    with pytest.raises(Forbidden) as caught:
        await create(api, PODS, pod("sa1", serviceAccountName="nope"))
    assert caught.value.message == (
        'pods "sa1" is forbidden: error looking up service account ns/nope: serviceaccount "nope" not found'
    )
    with pytest.raises(Forbidden, match=r'^pods "pc1" is forbidden: no PriorityClass with name nope was found$'):
        await create(api, PODS, pod("pc1", priorityClassName="nope"))


async def test_priority_comes_from_the_class(api: Api) -> None:
    await create(api, PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    await create(api, PRIORITY_CLASSES, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
    spec = (await create(api, PODS, pod("a", priorityClassName="high")))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    spec = (await create(api, PODS, pod("b")))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 5)
    with pytest.raises(Forbidden, match=r"the integer value of priority \(7\) must not be provided in pod spec"):
        await create(api, PODS, pod("c", priority=7))
    with pytest.raises(Forbidden, match=r"PriorityClass usual is already marked as default"):
        await create(api, PRIORITY_CLASSES, {"metadata": {"name": "other"}, "value": 6, "globalDefault": True})


async def test_limit_ranges_fill_in_and_bound_containers(api: Api) -> None:
    limits = [
        {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "500m"}, "max": {"cpu": "4"}},
    ]
    await create(api, LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    spec = (await create(api, PODS, pod()))["spec"]
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}}
    greedy = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "8"}}}]
    with pytest.raises(Forbidden, match=r"maximum cpu usage per Container is 4, but limit is 8"):
        await create(api, PODS, pod("big", containers=greedy))


async def test_quotas_count_objects(api: Api) -> None:
    hard = {"count/leases.coordination.k8s.io": "0"}
    await create(api, RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    with pytest.raises(Forbidden) as caught:
        await create(api, LEASES, {"metadata": {"name": "q1"}, "spec": {}})
    assert caught.value.message == (
        'leases.coordination.k8s.io "q1" is forbidden: exceeded quota: q, requested: '
        "count/leases.coordination.k8s.io=1, used: count/leases.coordination.k8s.io=0, limited: "
        "count/leases.coordination.k8s.io=0"
    )


async def test_quotas_add_up_what_pods_request(api: Api) -> None:
    await create(api, RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "3"}}})

    def asking(name: str) -> Obj:
        return pod(name, containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}])

    await create(api, PODS, asking("a"))
    with pytest.raises(Forbidden, match=r"requested: requests.cpu=2, used: requests.cpu=2, limited: requests.cpu=3"):
        await create(api, PODS, asking("b"))


async def test_what_was_admitted_is_noted_in_the_status_of_the_quota(api: Api) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "1"}}}
    await create(api, RESOURCE_QUOTAS, quota)
    status = {"status": {"hard": {"configmaps": "1"}, "used": {"configmaps": "0"}}}
    await api.patch(ADMIN, RESOURCE_QUOTAS, "ns", "q", "merge", status, subresource="status")
    await create(api, CONFIG_MAPS, {"metadata": {"name": "a"}})
    stored = await api.get(ADMIN, RESOURCE_QUOTAS, "ns", "q")
    assert stored.obj["status"]["used"] == {"configmaps": "1"}
    with pytest.raises(Forbidden, match=r"used: configmaps=1, limited: configmaps=1"):
        await create(api, CONFIG_MAPS, {"metadata": {"name": "b"}})
