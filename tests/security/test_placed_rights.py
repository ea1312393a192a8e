"""What a hub has its members apply is what its users may do on the hub: envelopes and overrides are no way around."""

from __future__ import annotations

from typing import Any

import pytest
from tests.security.deputies import TENANT, Court, hold_court
from tests.security.served import rule

from corral.clusters.hub_and_member import set_up_hub
from corral.core.errors import Forbidden
from corral.core.meta import Obj
from corral.kinds.fleet import CLUSTER_OVERRIDES, ENVELOPES, OVERRIDES

RBAC = "rbac.authorization.k8s.io"
FLEET = "placement.kubernetes-fleet.io"
WRAPS = rule("create get update patch", "resourceenvelopes resourceoverrides clusterresourceoverrides", FLEET)
POWERFUL = rule("*", "*", "*")
POD: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}


def hub(court: Court) -> None:
    court.base.api.chain.plugins.extend(set_up_hub(court.base, {}, admit_workloads=True))


def obj(api_version: str, kind: str, **fields: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "evil", "namespace": TENANT}, **fields}


def envelope(*objects: Obj) -> Obj:
    data = {f"{number}.yaml": one for number, one in enumerate(objects)}
    return {"metadata": {"name": "e", "namespace": TENANT}, "data": data}


ROLE = obj(f"{RBAC}/v1", "Role", rules=[POWERFUL])
BINDING = obj(
    f"{RBAC}/v1",
    "RoleBinding",
    roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
    subjects=[{"kind": "User", "name": "mallory", "apiGroup": RBAC}],
)
CARRIER = obj(
    "workload.codeflare.dev/v1beta2", "AppWrapper", spec={"components": [{"template": POD}, {"template": BINDING}]}
)
CONFIG = obj("v1", "ConfigMap")
MAY = [
    rule("create", "pods configmaps"),
    rule("create", "roles rolebindings", RBAC),
    rule("create", "appwrappers", "workload.codeflare.dev"),
]


@pytest.mark.parametrize(
    "wrapped",
    [ROLE, BINDING, CARRIER, obj("v1", "Secret"), obj("example.com/v1", "Unknown")],
    ids=lambda one: str(one["kind"]),
)
def test_nobody_sends_members_what_he_may_not_create(wrapped: Obj) -> None:
    async def script(court: Court) -> None:
        mallory = await court.user("mallory", WRAPS, *MAY)
        with pytest.raises(Forbidden, match="user mallory is not authorized to create"):
            await mallory.create(ENVELOPES, envelope(CONFIG, wrapped))
        made = await mallory.create(ENVELOPES, envelope(CONFIG))
        with pytest.raises(Forbidden, match="user mallory is not authorized to create"):
            await mallory.update(ENVELOPES, {**made, "data": envelope(wrapped)["data"]})
        with pytest.raises(Forbidden, match="user mallory is not authorized to create"):
            await mallory.patch(ENVELOPES, "e", TENANT, {"data": {"more.yaml": wrapped}})

    hold_court(script, set_up=hub)


def override(field: str, group: str, version: str, kind: str, **metadata: str) -> Obj:
    selector = {"group": group, "version": version, "kind": kind, "name": "x"}
    patch = {"op": "add", "path": "/rules", "value": [POWERFUL]}
    rules = [{"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [patch]}]
    return {"metadata": {"name": "o", **metadata}, "spec": {field: [selector], "policy": {"overrideRules": rules}}}


INSIDE = [
    ("", "v1", "Secret", "is not authorized to update"),
    (RBAC, "v1", "Role", "may grant any right"),
    (FLEET, "v1beta1", "ResourceEnvelope", "may grant any right"),
    ("workload.codeflare.dev", "v1beta2", "AppWrapper", "may grant any right"),
]
UPDATES = [
    rule("update", "configmaps"),
    rule("update", "roles", RBAC),
    rule("update", "appwrappers", "workload.codeflare.dev"),
]


@pytest.mark.parametrize(("group", "version", "kind", "text"), INSIDE, ids=[entry[2] for entry in INSIDE])
def test_nobody_overrides_what_he_may_not_change(group: str, version: str, kind: str, text: str) -> None:
    async def script(court: Court) -> None:
        mallory = await court.user("mallory", WRAPS, *UPDATES)
        with pytest.raises(Forbidden, match=text):
            await mallory.create(OVERRIDES, override("resourceSelectors", group, version, kind, namespace=TENANT))
        fine = override("resourceSelectors", "", "v1", "ConfigMap", namespace=TENANT)
        await mallory.create(OVERRIDES, fine)

    hold_court(script, set_up=hub)


def test_an_override_of_a_namespace_is_one_of_all_that_is_in_it() -> None:
    async def script(court: Court) -> None:
        body = override("clusterResourceSelectors", "", "v1", "Namespace")
        mallory = await court.user("mallory", WRAPS, rule("update", "namespaces"), namespace="")
        with pytest.raises(Forbidden, match="may grant any right"):
            await mallory.create(CLUSTER_OVERRIDES, body)
        granting = [rule("escalate", "roles", RBAC), rule("bind", "clusterroles", RBAC)]
        ann = await court.user("ann", WRAPS, rule("update", "namespaces"), *granting, namespace="")
        await ann.create(CLUSTER_OVERRIDES, body)

    hold_court(script, set_up=hub)
