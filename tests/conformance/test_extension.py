"""Third parties in the loop: admission webhooks, admission policies and aggregated APIs, over real HTTPS."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.converting import closed_port

from corral.clusters.embedded_api import EmbeddedApi
from corral.core.meta import Obj
from corral.server.access.certificates import Authority, load_pair

ADDRESS = "127.77.0.1"  # as pods of embedded clusters have them
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]


class Api:
    """A running server and a client for it."""

    def __init__(self, cluster: EmbeddedApi, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self._session = session

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, list[str]]:
        sent = {"Authorization": f"Bearer {self.cluster.server.admin_token}", **headers}
        async with self._session.request(method, self.cluster.server.url + path, json=body, headers=sent) as answer:
            return answer.status, await answer.json(), answer.headers.getall("Warning", [])

    async def create(self, path: str, body: Obj) -> Obj:
        status, answer, _ = await self.call("POST", path, body)
        assert status == 201, answer
        created: Obj = answer
        return created


class Hooks:
    """Webhook servers of a third party; `answers` decides, `seen` remembers the reviews."""

    def __init__(self) -> None:
        self.seen: list[Obj] = []
        self.answers: dict[str, Obj] = {}
        self.status = 200
        self.port = 0
        self.bundle = ""

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.seen.append(review["request"])
        response = {"uid": review["request"]["uid"], **self.answers.get(request.path, {"allowed": True})}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return web.json_response(body, status=self.status)

    def client_config(self, path: str) -> Obj:
        return {"url": f"https://{ADDRESS}:{self.port}{path}", "caBundle": self.bundle}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    cluster = EmbeddedApi(None, webhook_networks=["127.0.0.1/32"])
    cluster.server.pod_networks = ("127.77.0.0/16",)
    await cluster.start()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        yield Api(cluster, session)
    await cluster.stop()


async def _serve(app: web.Application, cluster: EmbeddedApi, names: list[str]) -> tuple[web.AppRunner, int, str]:
    now = cluster.clock.now()
    authority = Authority.create("third-party", now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, authority.issue_server(names, now))
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, ADDRESS, 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    return runner, port, base64.b64encode(authority.certificate).decode()


@pytest.fixture
async def hooks(api: Api) -> AsyncIterator[Hooks]:
    hooks = Hooks()
    app = web.Application()
    app.router.add_post("/{path:.*}", hooks.handle)
    runner, hooks.port, hooks.bundle = await _serve(app, api.cluster, [ADDRESS, "hook.default.svc"])
    yield hooks
    await runner.cleanup()


def _webhook(hooks: Hooks, kind: str, path: str, **more: Any) -> Obj:
    hook = {
        "name": "hook.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": RULES,
        "clientConfig": hooks.client_config(path),
        **more,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "h"},
        "webhooks": [hook],
    }


def _config_map(name: str, **metadata: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "b"}}


async def test_mutating_webhook_patches_and_warns(api: Api, hooks: Hooks) -> None:
    patch = base64.b64encode(json.dumps([{"op": "add", "path": "/data/added", "value": "yes"}]).encode()).decode()
    hooks.answers["/mutate"] = {"allowed": True, "patchType": "JSONPatch", "patch": patch, "warnings": ["careful"]}
    await api.create(
        f"{ADMISSION}/mutatingwebhookconfigurations", _webhook(hooks, "MutatingWebhookConfiguration", "/mutate")
    )
    status, created, warnings = await api.call("POST", CONFIG_MAPS, _config_map("a"))
    assert status == 201
    assert created["data"] == {"a": "b", "added": "yes"}
    assert warnings == ['299 - "careful"']
    review = hooks.seen[0]
    assert (review["operation"], review["kind"]["kind"], review["resource"]["resource"]) == (
        "CREATE",
        "ConfigMap",
        "configmaps",
    )
    assert review["userInfo"]["username"] == "kubernetes-admin"
    assert review["object"]["data"] == {"a": "b"}
    assert review["oldObject"] is None


async def test_validating_webhook_refuses_in_its_own_words(api: Api, hooks: Hooks) -> None:
    hooks.answers["/validate"] = {
        "allowed": False,
        "status": {"message": "not today", "code": 422, "reason": "Invalid"},
    }
    await api.create(
        f"{ADMISSION}/validatingwebhookconfigurations", _webhook(hooks, "ValidatingWebhookConfiguration", "/validate")
    )
    status, answer, _ = await api.call("POST", CONFIG_MAPS, _config_map("a"))
    assert status == 422
    assert answer["message"] == 'admission webhook "hook.example.com" denied the request: not today'
    assert answer["reason"] == "Invalid"
    hooks.answers["/validate"] = {"allowed": False}
    status, answer, _ = await api.call("POST", CONFIG_MAPS, _config_map("a"))
    assert status == 403
    assert answer["message"] == 'admission webhook "hook.example.com" denied the request without explanation'


async def test_selectors_and_conditions_narrow_what_is_asked(api: Api, hooks: Hooks) -> None:
    hooks.answers["/validate"] = {"allowed": False}
    narrowed = _webhook(
        hooks,
        "ValidatingWebhookConfiguration",
        "/validate",
        objectSelector={"matchLabels": {"checked": "yes"}},
        namespaceSelector={"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]},
        matchConditions=[{"name": "n", "expression": "object.metadata.name != 'exempt'"}],
    )
    await api.create(f"{ADMISSION}/validatingwebhookconfigurations", narrowed)
    checked = {"labels": {"checked": "yes"}}
    assert (await api.call("POST", CONFIG_MAPS, _config_map("a")))[0] == 201
    assert (await api.call("POST", CONFIG_MAPS, _config_map("exempt", **checked)))[0] == 201
    assert (await api.call("POST", CONFIG_MAPS, _config_map("b", **checked)))[0] == 403
    await api.create("/api/v1/namespaces", {"metadata": {"name": "other", "labels": {"free": "1"}}})
    elsewhere = CONFIG_MAPS.replace("default", "other")
    assert (await api.call("POST", elsewhere, _config_map("b", **checked)))[0] == 201


async def test_unreachable_webhooks_follow_their_failure_policy(api: Api, hooks: Hooks) -> None:
    with closed_port() as port:
        await _check_failure_policies(api, hooks, port)


async def _check_failure_policies(api: Api, hooks: Hooks, port: int) -> None:
    closed = {"url": f"https://127.0.0.1:{port}/x"}
    hook = _webhook(hooks, "ValidatingWebhookConfiguration", "/x", clientConfig=closed, failurePolicy="Ignore")
    made = await api.create(f"{ADMISSION}/validatingwebhookconfigurations", hook)
    assert (await api.call("POST", CONFIG_MAPS, _config_map("a")))[0] == 201
    made["webhooks"][0]["failurePolicy"] = "Fail"
    await api.call("PUT", f"{ADMISSION}/validatingwebhookconfigurations/h", made)
    status, answer, _ = await api.call("POST", CONFIG_MAPS, _config_map("b"))
    assert status == 500
    assert answer["message"].endswith(f"dial tcp 127.0.0.1:{port}: connect: connection refused")


async def test_webhooks_are_reached_through_services_and_skip_dry_runs_with_side_effects(
    api: Api, hooks: Hooks
) -> None:
    service = {
        "metadata": {"name": "hook"},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": hooks.port}]},
    }
    await api.create("/api/v1/namespaces/default/services", service)
    slice_ = {
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": hooks.port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
    }
    await api.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)
    config = {"service": {"namespace": "default", "name": "hook", "path": "/validate"}, "caBundle": hooks.bundle}
    hook = _webhook(hooks, "ValidatingWebhookConfiguration", "", clientConfig=config, sideEffects="Some")
    status, answer, _ = await api.call("POST", f"{ADMISSION}/validatingwebhookconfigurations", hook)
    if status == 201:
        status, answer, _ = await api.call("POST", f"{CONFIG_MAPS}?dryRun=All", _config_map("a"))
        assert (status, answer["message"]) == (400, 'admission webhook "hook.example.com" does not support dry run')
        await api.call("DELETE", f"{ADMISSION}/validatingwebhookconfigurations/h")
    await api.create(
        f"{ADMISSION}/validatingwebhookconfigurations",
        _webhook(hooks, "ValidatingWebhookConfiguration", "", clientConfig=config),
    )
    assert (await api.call("POST", CONFIG_MAPS, _config_map("a")))[0] == 201
    assert hooks.seen


async def test_policies_deny_warn_and_take_parameters(api: Api) -> None:
    await api.create(CONFIG_MAPS, {"metadata": {"name": "limits"}, "data": {"max": "3"}})
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "short"},
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": RULES},
            "variables": [{"name": "size", "expression": "object.metadata.name.size()"}],
            "validations": [
                {
                    "expression": "variables.size <= int(params.data.max)",
                    "messageExpression": "'name has ' + string(variables.size) + ' letters'",
                    "reason": "Forbidden",
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "everywhere"},
        "spec": {
            "policyName": "short",
            "paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"},
            "validationActions": ["Deny"],
        },
    }
    await api.create(f"{ADMISSION}/validatingadmissionpolicies", policy)
    made = await api.create(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    assert (await api.call("POST", CONFIG_MAPS, _config_map("abc")))[0] == 201
    status, answer, _ = await api.call("POST", CONFIG_MAPS, _config_map("abcd"))
    assert status == 403
    assert answer["message"].endswith("with binding 'everywhere' denied request: name has 4 letters")
    made["spec"]["validationActions"] = ["Warn"]
    await api.call("PUT", f"{ADMISSION}/validatingadmissionpolicybindings/everywhere", made)
    status, _, warnings = await api.call("POST", CONFIG_MAPS, _config_map("abcd"))
    assert status == 201
    assert "name has 4 letters" in warnings[0]


async def test_aggregated_apis_are_proxied_with_the_callers_identity(api: Api) -> None:
    seen: list[dict[str, str]] = []

    async def resources(request: web.Request) -> web.Response:
        row = {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get", "list"]}
        return web.json_response({"kind": "APIResourceList", "groupVersion": "far.example/v1", "resources": [row]})

    async def things(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        return web.json_response({"kind": "ThingList", "apiVersion": "far.example/v1", "metadata": {}, "items": []})

    app = web.Application()
    app.router.add_get("/apis/far.example/v1", resources)
    app.router.add_get("/apis/far.example/v1/namespaces/default/things", things)
    runner, port, bundle = await _serve(app, api.cluster, ["far.default.svc"])
    service = {"metadata": {"name": "far"}, "spec": {"ports": [{"name": "https", "port": 443}]}}
    await api.create("/api/v1/namespaces/default/services", service)
    subset = {"addresses": [{"ip": ADDRESS}], "ports": [{"name": "https", "port": port}]}
    await api.create("/api/v1/namespaces/default/endpoints", {"metadata": {"name": "far"}, "subsets": [subset]})
    registration = {
        "metadata": {"name": "v1.far.example"},
        "spec": {
            "group": "far.example",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "caBundle": bundle,
            "service": {"namespace": "default", "name": "far"},
        },
    }
    await api.create("/apis/apiregistration.k8s.io/v1/apiservices", registration)
    status, listed, _ = await api.call("GET", "/apis/far.example/v1/namespaces/default/things")
    assert (status, listed["kind"]) == (200, "ThingList")
    assert seen[0]["X-Remote-User"] == "kubernetes-admin"
    assert "Authorization" not in seen[0]
    await api.cluster.server.aggregation.refresh()
    _, groups, _ = await api.call("GET", "/apis")
    assert "far.example" in [group["name"] for group in groups["groups"]]
    _, service_now, _ = await api.call("GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1.far.example")
    assert service_now["status"]["conditions"][0]["status"] == "True"
    await runner.cleanup()


async def test_services_and_pods_are_reached_through_the_proxy(api: Api) -> None:
    async def hello(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path_qs, "secret": "authorization" in request.headers})

    app = web.Application()
    app.router.add_get("/{path:.*}", hello)
    runner, port, _ = await _serve(app, api.cluster, ["web.default.svc"])
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"name": "https", "port": 443}]}}
    await api.create("/api/v1/namespaces/default/services", service)
    subset = {"addresses": [{"ip": ADDRESS}], "ports": [{"name": "https", "port": port}]}
    await api.create("/api/v1/namespaces/default/endpoints", {"metadata": {"name": "web"}, "subsets": [subset]})
    status, answer, _ = await api.call("GET", "/api/v1/namespaces/default/services/https:web:https/proxy/a/b?c=d")
    assert (status, answer) == (200, {"path": "/a/b?c=d", "secret": False})
    status, answer, _ = await api.call("GET", "/api/v1/namespaces/default/services/web:nope/proxy/")
    assert status == 503
    status, answer, _ = await api.call("GET", "/api/v1/namespaces/default/services/nope/proxy/")
    assert status == 404
    await runner.cleanup()
