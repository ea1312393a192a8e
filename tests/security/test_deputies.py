"""Controllers that create what users describe are deputies: by none of them a user gets what he may not create himself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.security.deputies import STARTS_JOBS, TENANT, Court, hold_court
from tests.security.served import rule

from corral.core import conditions
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import Obj, annotations_of
from corral.core.resource import Resource
from corral.jobs.appwrapper.kind import APP_WRAPPERS, CREATOR
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS, SECRETS
from corral.kinds.kubernetes.rbac import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, ROLES

RBAC = "rbac.authorization.k8s.io"
WRAPS = rule("create get update patch", "appwrappers appwrappers/status", "workload.codeflare.dev")
PODS = rule("create", "pods")
EVERYTHING_INSIDE = rule("*", "*", "*")


def pod() -> Obj:
    spec = {"containers": [{"name": "c", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def wrapper(*objects: Obj, **metadata: Any) -> Obj:
    components = [{"template": obj} for obj in (pod(), *objects)]
    return {"metadata": {"name": "aw", "namespace": TENANT, **metadata}, "spec": {"components": components}}


def wrapped(api_version: str, kind: str, name: str = "evil", **fields: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def grant(kind: str) -> Obj:
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    mallory = {"kind": "User", "name": "mallory", "apiGroup": RBAC}
    return wrapped(f"{RBAC}/v1", kind, roleRef=role, subjects=[mallory])


TOKEN = wrapped("v1", "Secret", type="kubernetes.io/service-account-token")
TOKEN["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "default"}
WEBHOOK = wrapped("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", webhooks=[])
DEFINITION = wrapped(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "evils.example.com",
    spec={
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "evils", "singular": "evil", "kind": "Evil", "listKind": "EvilList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
)
WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "", False)
ATTACKS: dict[str, tuple[Obj, Resource, list[Obj]]] = {
    "a binding to cluster-admin": (grant("RoleBinding"), ROLE_BINDINGS, [rule("create", "rolebindings", RBAC)]),
    "a role that may do everything": (
        wrapped(f"{RBAC}/v1", "Role", rules=[rule("*", "*", "*")]), ROLES, [rule("create", "roles", RBAC)],
    ),
    "the token of a service account": (TOKEN, SECRETS, []),
    "a binding everywhere": (grant("ClusterRoleBinding"), CLUSTER_ROLE_BINDINGS, [EVERYTHING_INSIDE]),
    "a webhook": (WEBHOOK, WEBHOOKS, [EVERYTHING_INSIDE]),
    "a definition of a kind": (DEFINITION, CUSTOM_RESOURCE_DEFINITIONS, [EVERYTHING_INSIDE]),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_app_wrapper_does_not_create_what_its_creator_may_not(attack: str) -> None:
    body, resource, rights = ATTACKS[attack]

    async def script(court: Court) -> None:
        mallory = await court.user("mallory", WRAPS, PODS, *rights)
        with pytest.raises(Forbidden, match="User mallory is not authorized to create"):
            await mallory.create(APP_WRAPPERS, wrapper(body))
        await court.settle()
        assert body["metadata"]["name"] not in await court.names(resource)

    hold_court(script)


@pytest.mark.parametrize("attack", ATTACKS)
def test_rights_that_are_gone_when_its_components_are_created_do_not_count(attack: str) -> None:
    """Whatever admission thought of it: the components are created by the creator, through every guard."""
    body, resource, rights = ATTACKS[attack]

    async def script(court: Court) -> None:
        mallory = await court.user("mallory", WRAPS, PODS, *rights)
        everything = {"metadata": {"name": "everything"}, "roleRef": grant("x")["roleRef"]}
        await court.admin.create(CLUSTER_ROLE_BINDINGS, {**everything, "subjects": grant("x")["subjects"]})
        order = wrapper(body, annotations={"workload.codeflare.dev.appwrapper/retryLimit": "0"})
        await mallory.create(APP_WRAPPERS, {**order, "spec": {**order["spec"], "suspend": True}})
        await court.settle()
        await court.admin.delete(CLUSTER_ROLE_BINDINGS, "everything")
        await mallory.patch(APP_WRAPPERS, "aw", TENANT, {"spec": {"suspend": False}})
        await court.settle()
        assert body["metadata"]["name"] not in await court.names(resource)
        found = conditions.find(await court.admin.get(APP_WRAPPERS, "aw", TENANT), "Unhealthy")
        assert found is not None
        assert (found["status"], found["reason"]) == ("True", "CreateFailed")
        assert 'forbidden: User "mallory" cannot' in found["message"] or 'user "mallory"' in found["message"]
        events = (await court.admin.list(EVENTS, TENANT)).items
        assert any(event["reason"] == "CreateFailed" and "mallory" in event["message"] for event in events)

    hold_court(script)


@pytest.mark.parametrize("way", ["update", "patch", "apply", "status", "create"])
def test_the_creator_is_not_the_users_to_write(way: str) -> None:
    async def script(court: Court) -> None:
        mallory = await court.user("mallory", WRAPS, PODS)
        forged = json.dumps({"username": "root", "groups": ["system:masters"]})
        marks = {CREATOR: forged} if way == "create" else {}
        order = wrapper(annotations=marks)
        made = await mallory.create(APP_WRAPPERS, {**order, "spec": {**order["spec"], "suspend": True}})
        body = {"metadata": {"name": "aw", "namespace": TENANT, "annotations": {CREATOR: forged}}}
        if way == "update":
            await mallory.update(APP_WRAPPERS, {**made, "metadata": {**made["metadata"], **body["metadata"]}})
        elif way == "patch":
            await mallory.patch(APP_WRAPPERS, "aw", TENANT, body)
            await mallory.patch(APP_WRAPPERS, "aw", TENANT, {"metadata": {"annotations": {CREATOR: None}}})
        elif way == "apply":
            await mallory.apply(APP_WRAPPERS, body, manager="me")
        elif way == "status":
            await mallory.patch(APP_WRAPPERS, "aw", TENANT, {**body, "status": {"retries": 1}}, subresource="status")
        found = json.loads(annotations_of(await court.admin.get(APP_WRAPPERS, "aw", TENANT))[CREATOR])
        assert found == {"username": "mallory", "groups": ["system:authenticated"]}

    hold_court(script)


def test_what_is_added_to_pods_later_needs_the_right_to_create_them() -> None:
    async def script(court: Court) -> None:
        ann = await court.user("ann", WRAPS, PODS)
        mallory = await court.user("mallory", WRAPS)
        order = wrapper()
        made = await ann.create(APP_WRAPPERS, {**order, "spec": {**order["spec"], "suspend": True}})
        components = [{**made["spec"]["components"][0], "podSetInfos": [{"labels": {"app": "mine"}}]}]
        with pytest.raises(Forbidden, match="User mallory is not authorized to create Pod"):
            await mallory.patch(APP_WRAPPERS, "aw", TENANT, {"spec": {"components": components}})
        await ann.patch(APP_WRAPPERS, "aw", TENANT, {"spec": {"components": components}})

    hold_court(script)


def test_queueing_says_where_pods_go_without_the_right_to_create_them_and_changes_nothing_else() -> None:
    async def script(court: Court) -> None:
        ann = await court.user("ann", WRAPS, PODS)
        starter = await court.user(STARTS_JOBS, WRAPS)
        order = wrapper()
        made = await ann.create(APP_WRAPPERS, {**order, "spec": {**order["spec"], "suspend": True}})
        placed = [{**made["spec"]["components"][0], "podSetInfos": [{"nodeSelector": {"zone": "a"}}]}]
        await starter.patch(APP_WRAPPERS, "aw", TENANT, {"spec": {"suspend": False, "components": placed}})
        await court.settle()
        assert await court.names(Resource("", "v1", "pods", "Pod")) == ["p"]
        with pytest.raises(Forbidden, match="User starter is not authorized to create Pod"):
            await starter.create(APP_WRAPPERS, {**order, "metadata": {**order["metadata"], "name": "own"}})

    hold_court(script)


def test_an_app_wrapper_of_nobody_creates_nothing() -> None:
    """One that was stored before creators were kept: it says what to do about it."""

    async def script(court: Court) -> None:
        plugins = court.base.api.chain.plugins
        rules = next(plugin for plugin in plugins if plugin.name == "AppWrapperRules")
        plugins.remove(rules)
        order = wrapper(annotations={"workload.codeflare.dev.appwrapper/retryLimit": "0"})
        await court.admin.create(APP_WRAPPERS, order)
        await court.settle()
        with pytest.raises(NotFound):
            await court.admin.get(Resource("", "v1", "pods", "Pod"), "p", TENANT)
        found = conditions.find(await court.admin.get(APP_WRAPPERS, "aw", TENANT), "Unhealthy")
        assert found is not None
        assert "delete it and create it again" in found["message"]

    hold_court(script)


def test_an_app_wrapper_creates_what_its_creator_may() -> None:
    async def script(court: Court) -> None:
        held = rule("get", "configmaps")
        rights = [rule("create", "configmaps roles"), rule("create", "jobs", "batch"), rule("create", "roles", RBAC)]
        ann = await court.user("ann", WRAPS, PODS, held, *rights)
        template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
        job = wrapped("batch/v1", "Job", "j", spec={"template": template})
        small = wrapped(f"{RBAC}/v1", "Role", "small", rules=[held])
        await ann.create(APP_WRAPPERS, wrapper(job, small, wrapped("v1", "ConfigMap", "c")))
        await court.settle()
        assert (await court.admin.get(APP_WRAPPERS, "aw", TENANT))["status"]["phase"] == "Running"
        for resource, name in ((JOBS, "j"), (ROLES, "small"), (CONFIG_MAPS, "c")):
            assert (await court.admin.get(resource, name, TENANT))["metadata"]["ownerReferences"][0]["name"] == "aw"

    hold_court(script)


def test_service_accounts_and_groups_wrap_with_their_rights() -> None:
    async def script(court: Court) -> None:
        name = f"system:serviceaccount:{TENANT}:runner"
        runner = await court.user(name, WRAPS, PODS)
        with pytest.raises(ApiError):
            await runner.create(APP_WRAPPERS, wrapper(wrapped("v1", "ConfigMap", "c")))
        await runner.create(APP_WRAPPERS, wrapper())
        await court.settle()
        assert (await court.admin.get(APP_WRAPPERS, "aw", TENANT))["status"]["phase"] == "Running"

    hold_court(script)
