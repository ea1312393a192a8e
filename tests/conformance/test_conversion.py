"""Kinds of third parties in several versions: conversion by a webhook over real HTTPS, on every verb."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.converting import ADDRESS, DEFINITIONS, GROUP, Converter, by_webhook, closed_port, definition, serving

from corral.clusters.embedded_api import EmbeddedApi
from corral.core.meta import Obj

WIDGETS = f"/apis/{GROUP}/{{}}/namespaces/default/widgets"
V1, V2 = WIDGETS.format("v1"), WIDGETS.format("v2")


class Api:
    """A running server and a client for it."""

    def __init__(self, cluster: EmbeddedApi, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self._session = session

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = {"Authorization": f"Bearer {self.cluster.server.admin_token}", **headers}
        async with self._session.request(method, self.cluster.server.url + path, json=body, headers=sent) as answer:
            text = await answer.text()
        return answer.status, json.loads(text) if "\n" not in text else [json.loads(each) for each in text.splitlines()]

    async def succeed(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, answer = await self.call(method, path, body, **headers)
        assert status < 300, answer
        return answer

    async def patch(self, path: str, body: Any, kind: str = "merge-patch") -> Any:
        return await self.succeed("PATCH", path, body, **{"Content-Type": f"application/{kind}+json"})


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    cluster = EmbeddedApi(None, webhook_networks=["127.0.0.0/8"])
    await cluster.start()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        yield Api(cluster, session)
    await cluster.stop()


@pytest.fixture
async def converter() -> AsyncIterator[Converter]:
    async with serving(Converter()) as converter:
        yield converter


def widget(version: str, name: str, size: int, **metadata: Any) -> Obj:
    spec: Obj = {"size": size} if version == "v1" else {"dimensions": {"size": size}}
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


async def test_objects_are_read_and_written_in_both_versions(api: Api, converter: Converter) -> None:
    await api.succeed("POST", DEFINITIONS, definition(by_webhook(converter.client_config())))
    await api.succeed("POST", V1, widget("v1", "a", 1))
    made = await api.succeed("POST", V2, widget("v2", "b", 2))
    assert made["spec"]["dimensions"] == {"size": 2}
    assert (await api.succeed("GET", f"{V2}/a"))["spec"]["dimensions"] == {"size": 1}
    assert (await api.succeed("GET", f"{V1}/b"))["spec"]["size"] == 2
    assert "unknown" not in (await api.succeed("GET", f"{V2}/a"))["spec"]
    await api.patch(f"{V2}/a", {"spec": {"dimensions": {"size": 9}}})
    sizes = [item["spec"]["size"] for item in (await api.succeed("GET", V1))["items"]]
    assert sizes == [9, 2]
    review = converter.seen[0]
    assert (review["kind"], review["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")
    assert review["request"]["desiredAPIVersion"] == f"{GROUP}/v1"
    assert review["response"] == {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}


async def test_a_list_asks_once_and_readers_share_the_answer(api: Api, converter: Converter) -> None:
    await api.succeed("POST", DEFINITIONS, definition(by_webhook(converter.client_config())))
    for number in range(20):
        await api.succeed("POST", V1, widget("v1", f"w{number:02}", number))
    lists = await asyncio.gather(*(api.succeed("GET", V2) for _ in range(5)))
    assert [len(each["items"]) for each in lists] == [20] * 5
    assert len(converter.seen) == 1
    assert len(converter.seen[0]["request"]["objects"]) == 20
    await api.succeed("GET", f"{V2}/w07")
    assert len(converter.seen) == 1


async def test_a_watch_shows_the_requested_version(api: Api, converter: Converter) -> None:
    await api.succeed("POST", DEFINITIONS, definition(by_webhook(converter.client_config())))
    await api.succeed("POST", V1, widget("v1", "a", 1, labels={"app": "x"}))
    watching = asyncio.create_task(api.call("GET", f"{V2}?watch=1&labelSelector=app%3Dx&timeoutSeconds=6"))
    await asyncio.sleep(1)
    await api.succeed("POST", V1, widget("v1", "b", 2))
    await api.patch(f"{V1}/a", {"spec": {"size": 5}})
    await api.patch(f"{V1}/a", {"metadata": {"labels": {"app": None}}})
    await api.patch(f"{V1}/b", {"metadata": {"labels": {"app": "x"}}})
    await api.succeed("DELETE", f"{V1}/b")
    _, events = await watching
    seen = [(each["type"], each["object"]["metadata"]["name"], each["object"]["spec"]["dimensions"]) for each in events]
    assert seen == [
        ("ADDED", "a", {"size": 1}),
        ("MODIFIED", "a", {"size": 5}),
        ("DELETED", "a", {"size": 5}),
        ("ADDED", "b", {"size": 2}),
        ("DELETED", "b", {"size": 2}),
    ]
    assert all(each["object"]["apiVersion"] == f"{GROUP}/v2" for each in events)


async def test_field_selectors_see_converted_objects(api: Api, converter: Converter) -> None:
    await api.succeed("POST", DEFINITIONS, definition(by_webhook(converter.client_config())))
    for color in ("red", "blue", "blue"):
        body = widget("v1", "", 1, generateName="w-")
        await api.succeed("POST", V1, {**body, "spec": {"size": 1, "color": color}})
    found = await api.succeed("GET", f"{V2}?fieldSelector=spec.color%3Dblue")
    assert [item["spec"]["color"] for item in found["items"]] == ["blue", "blue"]
    _, events = await api.call("GET", f"{V2}?watch=1&fieldSelector=spec.color%3Dred&timeoutSeconds=1&pretty=false")
    assert [each["object"]["spec"]["color"] for each in (events if isinstance(events, list) else [events])] == ["red"]
    await api.succeed("DELETE", f"{V2}?fieldSelector=spec.color%3Dblue")
    assert len((await api.succeed("GET", V1))["items"]) == 1


async def test_a_webhook_behind_a_service_is_reached_by_its_endpoints(api: Api, converter: Converter) -> None:
    service = {"namespace": "default", "name": "converter", "path": "/convert"}
    await api.succeed("POST", DEFINITIONS, definition(by_webhook({"service": service, "caBundle": converter.bundle})))
    await api.succeed("POST", V1, widget("v1", "a", 1))
    status, answer = await api.call("GET", f"{V2}/a")
    assert (status, answer["message"]) == (
        500,
        f'conversion webhook for {GROUP}/v1, Kind=Widget failed: Post "https://converter.default.svc:443/convert?timeout=30s": '
        'service "converter" not found',
    )
    port = {"name": "https", "port": 443, "targetPort": converter.port}
    await api.succeed(
        "POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "converter"}, "spec": {"ports": [port]}}
    )
    endpoints = {"addresses": [{"ip": ADDRESS}], "ports": [{"name": "https", "port": converter.port}]}
    await api.succeed(
        "POST",
        "/api/v1/namespaces/default/endpoints",
        {"metadata": {"name": "converter"}, "subsets": [endpoints]},
    )
    assert (await api.succeed("GET", f"{V2}/a"))["spec"]["dimensions"] == {"size": 1}


async def test_a_webhook_that_is_down_stops_only_its_own_kind(api: Api, converter: Converter) -> None:
    with closed_port() as port:
        await _check_that_only_its_own_kind_stops(api, converter, port)


async def _check_that_only_its_own_kind_stops(api: Api, converter: Converter, port: int) -> None:
    nowhere = {"url": f"https://127.0.0.1:{port}/convert", "caBundle": converter.bundle}
    await api.succeed("POST", DEFINITIONS, definition(by_webhook(nowhere)))
    await api.succeed("POST", V1, widget("v1", "a", 1))
    words = (
        f'conversion webhook for {GROUP}/v1, Kind=Widget failed: Post "https://127.0.0.1:{port}/convert?timeout=30s": '
        f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    )
    for path in (f"{V2}/a", V2):
        status, answer = await api.call("GET", path)
        assert (status, answer["message"]) == (500, words)
    _, event = await api.call("GET", f"{V2}?watch=1&timeoutSeconds=1")
    assert (event[0] if isinstance(event, list) else event)["object"]["message"] == words
    assert (await api.succeed("GET", f"{V1}/a"))["spec"]["size"] == 1
    assert len((await api.succeed("GET", V1))["items"]) == 1
    await api.succeed("GET", "/api/v1/namespaces/default/configmaps")
    await api.succeed("DELETE", f"{V1}/a")
    await api.succeed("DELETE", f"{DEFINITIONS}/widgets.{GROUP}")


async def test_a_repaired_webhook_is_asked_again(api: Api, converter: Converter) -> None:
    await api.succeed("POST", DEFINITIONS, definition(by_webhook(converter.client_config())))
    await api.succeed("POST", V1, widget("v1", "a", 1))
    converter.spoil = lambda answer: {**answer, "response": {**answer["response"], "result": {"status": "Failed"}}}
    status, _ = await api.call("GET", f"{V2}/a")
    assert status == 500
    converter.spoil = lambda answer: answer
    assert (await api.succeed("GET", f"{V2}/a"))["spec"]["dimensions"] == {"size": 1}


async def test_objects_of_an_old_storage_version_stay_readable(api: Api, converter: Converter) -> None:
    conversion = by_webhook(converter.client_config())
    await api.succeed("POST", DEFINITIONS, definition(conversion))
    await api.succeed("POST", V1, widget("v1", "old", 1))
    spec = definition(conversion, stored="v2")["spec"]
    await api.patch(f"{DEFINITIONS}/widgets.{GROUP}", [{"op": "replace", "path": "/spec", "value": spec}], "json-patch")
    await asyncio.sleep(1)
    await api.succeed("POST", V2, widget("v2", "new", 2))
    assert [item["spec"]["size"] for item in (await api.succeed("GET", V1))["items"]] == [2, 1]
    assert [item["spec"]["dimensions"]["size"] for item in (await api.succeed("GET", V2))["items"]] == [2, 1]
    asked = len(converter.seen)
    await api.patch(f"{V2}/old", {"metadata": {"labels": {"moved": "yes"}}})
    await api.succeed("GET", f"{V2}/old")
    assert len(converter.seen) == asked, "what is stored in the version that is asked for needs no conversion"
    crd = await api.succeed("GET", f"{DEFINITIONS}/widgets.{GROUP}")
    assert crd["status"]["storedVersions"] == ["v1", "v2"]


async def test_admission_webhooks_see_the_version_they_asked_for(api: Api, converter: Converter) -> None:
    await api.succeed("POST", DEFINITIONS, definition(by_webhook(converter.client_config())))
    seen: list[Obj] = []

    class Admission(Converter):
        async def handle(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
            review = (await request.json())["request"]
            seen.append(review)
            answer = {"uid": review["uid"], "allowed": True}
            return aiohttp.web.json_response(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
            )

    async with serving(Admission()) as admission:
        rule = {"apiGroups": [GROUP], "apiVersions": ["v2"], "operations": ["*"], "resources": ["widgets"]}
        hook = {
            "name": "hook.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [rule],
            "clientConfig": admission.client_config(),
        }
        await api.succeed(
            "POST",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {"metadata": {"name": "h"}, "webhooks": [hook]},
        )
        await api.succeed("POST", V1, widget("v1", "a", 4))
        await api.succeed("DELETE", f"{V1}/a")
    assert seen[0]["object"]["spec"]["dimensions"] == {"size": 4}
    assert seen[1]["oldObject"]["spec"]["dimensions"] == {"size": 4}


async def test_a_new_default_shows_in_older_objects(tmp_path: Path) -> None:
    cluster = EmbeddedApi(tmp_path, webhook_networks=["127.0.0.0/8"])
    await cluster.start()
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
            api = Api(cluster, session)
            await api.succeed("POST", DEFINITIONS, definition({"strategy": "None"}))
            await api.succeed("POST", V1, widget("v1", "a", 1))
            fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
            change = [{"op": "add", "path": f"{fields}/weight", "value": {"type": "integer", "default": 3}}]
            await api.patch(f"{DEFINITIONS}/widgets.{GROUP}", change, "json-patch")
            await asyncio.sleep(1)
            assert (await api.succeed("GET", f"{V1}/a"))["spec"]["weight"] == 3
    finally:
        await cluster.stop()
    again = EmbeddedApi(tmp_path, webhook_networks=["127.0.0.0/8"])
    await again.start()
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
            listed = await Api(again, session).succeed("GET", V1)
            assert [item["spec"]["weight"] for item in listed["items"]] == [3]
    finally:
        await again.stop()
