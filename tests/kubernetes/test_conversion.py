"""The same story with a conversion webhook told to Corral and to a real kube-apiserver: every answer must agree."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from cluster import TOKEN, ControlPlane, eventually, programs
from replay_errors import in_order, mask
from tests.converting import DEFINITIONS, GROUP, Converter, by_webhook, definition, serving

from corral.clusters.embedded_api import EmbeddedApi
from corral.core.meta import Obj

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(600),
]
MERGE, APPLY, JSON_PATCH = (
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
)


def widgets(version: str, name: str = "", plural: str = "widgets") -> str:
    path = f"/apis/{GROUP}/{version}/namespaces/default/{plural}"
    return f"{path}/{name}" if name else path


def v1(name: str, size: int, **more: Any) -> Obj:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name, **more}, "spec": {"size": size}}


def v2(name: str, size: int, **more: Any) -> Obj:
    spec = {"dimensions": {"size": size}}
    return {"apiVersion": f"{GROUP}/v2", "kind": "Widget", "metadata": {"name": name, **more}, "spec": spec}


class Story:
    """Asks one server and writes down what it said, with what differs between any two runs masked."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str, converter: Converter) -> None:
        self._session, self._url, self._token = session, url, token
        self.converter = converter
        self.told: list[Any] = []

    async def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        target = URL(self._url + path, encoded=True)
        async with self._session.request(method, target, data=data, headers=headers) as answer:
            text = await answer.text()
        if answer.content_type != "application/json":
            return answer.status, text
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, [json.loads(line) for line in text.splitlines()]

    async def tell(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        status, answer = await self.ask(method, path, body, kind)
        said = json.dumps(in_order(mask(answer)), sort_keys=True)
        asked = re.sub(r"resourceVersion=\d+", "resourceVersion=<rv>", f"{method} {path}")
        self.told.append((asked, status, said.replace(str(self.converter.port), "<port>")))
        return answer

    async def until(self, path: str, what: Callable[[int, Any], bool]) -> None:
        """Definitions take effect after a while on a real server."""

        async def asked() -> bool:
            return what(*await self.ask("GET", path))

        await eventually(asked)

    async def taken_in(self, plural: str, mark: str) -> None:
        """Returns when a changed definition is served, which shows by the category that came with the change."""

        def shows(status: int, answer: Any) -> bool:
            listed = answer["resources"] if status == 200 else []
            return any(one["name"] == plural and mark in (one.get("categories") or ()) for one in listed)

        await self.until(f"/apis/{GROUP}/v2", shows)
        await asyncio.sleep(1)  # what is served and what is shown are not quite one in a real server

    async def serve(self, conversion: Obj, **more: Any) -> None:
        body = definition(conversion, **more)
        path = f"{DEFINITIONS}/{body['metadata']['name']}"
        status, said = await self.ask("POST", DEFINITIONS, body)
        if status == 409:
            names = body["spec"]["names"]
            spec = {**body["spec"], "names": {**names, "categories": ["served-again"]}}
            change = [{"op": "replace", "path": "/spec", "value": spec}]
            status, said = await self.ask("PATCH", path, change, JSON_PATCH)
            await self.taken_in(names["plural"], "served-again")
        assert status in (200, 201), said
        await self.until(
            path, lambda _, crd: any(c["type"] == "Established" for c in crd["status"].get("conditions") or ())
        )
        plural = body["spec"]["names"]["plural"]
        await self.until(widgets("v2", plural=plural), lambda status, _: status != 404)


async def working(story: Story) -> None:
    """A webhook that does what it should."""
    await story.serve(by_webhook(story.converter.client_config()))
    await story.tell("POST", widgets("v1"), v1("a", 1))
    await story.tell("POST", widgets("v2"), v2("b", 2, labels={"app": "x"}))
    for version in ("v1", "v2"):
        await story.tell("GET", widgets(version, "a"))
        await story.tell("GET", widgets(version))
        await story.tell("GET", widgets(version) + "?limit=1")
        await story.tell("GET", widgets(version) + "?labelSelector=app%3Dx")
        await story.tell("GET", widgets(version) + "?fieldSelector=spec.color%3Dred")
    await story.tell("PUT", widgets("v2", "nobody"), v2("nobody", 2))
    await story.tell("PATCH", widgets("v2", "a"), {"spec": {"dimensions": {"size": 5}}}, MERGE)
    await story.tell("PATCH", widgets("v2", "a"), {"spec": {"dimensions": {"size": -5}}}, MERGE)
    await story.tell("PATCH", widgets("v2", "a"), {"spec": {"size": 5}}, MERGE)
    await story.tell("PATCH", widgets("v1", "a"), [{"op": "test", "path": "/spec/size", "value": 5}], JSON_PATCH)
    await story.tell("PATCH", widgets("v2", "a") + "/status", {"status": {"phase": "good"}}, MERGE)
    await story.tell("PATCH", widgets("v2", "c") + "?fieldManager=m", v2("c", 7), APPLY)
    await story.tell("PATCH", widgets("v2", "c") + "?fieldManager=m", v2("c", 8), APPLY)
    current = await story.tell("GET", widgets("v2", "c"))
    await story.tell("PUT", widgets("v2", "c"), {**current, "spec": {"dimensions": {"size": 9}, "color": "blue"}})
    await story.tell("PUT", widgets("v2", "c"), {**current, "spec": {}})
    await story.tell("POST", widgets("v2"), v1("wrong", 1))
    await story.tell("POST", widgets("v2") + "?dryRun=All", v2("dry", 2))
    start = current["metadata"]["resourceVersion"]
    await story.tell("GET", widgets("v2") + f"?watch=1&resourceVersion={start}&timeoutSeconds=1")
    await story.tell("GET", widgets("v1") + f"?watch=1&resourceVersion={start}&timeoutSeconds=1")
    await story.tell("DELETE", widgets("v2", "b"))
    await story.tell("DELETE", widgets("v2") + "?fieldSelector=spec.color%3Dblue")
    await story.tell("GET", widgets("v2"))


def spoilers() -> dict[str, Callable[[Obj], Any]]:
    def change(**fields: Any) -> Callable[[Obj], Obj]:
        return lambda answer: {**answer, "response": {**answer["response"], **fields}}

    def each(edit: Callable[[Obj], Any]) -> Callable[[Obj], Obj]:
        def spoil(answer: Obj) -> Obj:
            objects = [edit(obj) for obj in answer["response"]["convertedObjects"]]
            return {**answer, "response": {**answer["response"], "convertedObjects": objects}}

        return spoil

    def metadata(**fields: Any) -> Callable[[Obj], Obj]:
        return each(lambda obj: {**obj, "metadata": {**obj["metadata"], **fields}})

    return {
        "failed": change(result={"status": "Failed", "message": "I would rather not"}),
        "failed silently": change(result={"status": "Failed"}),
        "no status": change(result={}),
        "too few": change(convertedObjects=[]),
        "other uid": change(uid="abc"),
        "no response": lambda answer: {**answer, "response": None},
        "other kind": lambda answer: {**answer, "kind": "Review"},
        "other version": lambda answer: {**answer, "apiVersion": "apiextensions.k8s.io/v9"},
        "not an object": lambda answer: [],
        "unconverted": each(lambda obj: {**obj, "apiVersion": f"{GROUP}/v7"}),
        "kind changed": each(lambda obj: {**obj, "kind": "Gadget"}),
        "no metadata": each(lambda obj: {key: value for key, value in obj.items() if key != "metadata"}),
        "name changed": metadata(name="zoe"),
        "namespace changed": metadata(namespace="zoe"),
        "uid changed": metadata(uid="zoe"),
        "labels added": metadata(labels={"added": "yes"}),
        "labels broken": metadata(labels={"added": 1}),
        "labels invalid": metadata(labels={"added": "not valid!"}),
        "annotations invalid": metadata(annotations={"not valid!": "x"}),
        "labels listed": metadata(labels=["x"]),
        "finalizers added": metadata(finalizers=["example.com/x"], generation=77),
    }


async def misbehaving(story: Story) -> None:
    """A webhook that answers wrongly, in every way we can think of."""
    await story.serve(by_webhook(story.converter.client_config()))
    for number, (name, spoil) in enumerate(spoilers().items()):
        await story.tell("POST", widgets("v1"), v1(f"bad{number}", 1))
        story.converter.spoil = spoil
        story.told.append(name)
        await story.tell("PATCH", widgets("v2", f"bad{number}"), {"metadata": {"labels": {"try": "this"}}}, MERGE)
    story.converter.spoil = lambda answer: answer
    for status in (400, 401, 403, 404, 409, 418, 422, 429, 500, 503):
        await story.tell("POST", widgets("v1"), v1(f"bad{status}", 1))
        story.converter.status = status
        await story.tell("PATCH", widgets("v2", f"bad{status}"), {"metadata": {"labels": {"try": "this"}}}, MERGE)
    story.converter.status = 200
    await story.tell("POST", widgets("v2"), v2("good", 3))


async def unreachable(story: Story) -> None:
    """A webhook that is down: its own kind cannot be read in the other version, everything else can."""
    nowhere = {"url": "https://127.0.0.1:1/convert", "caBundle": story.converter.bundle}
    await story.serve(by_webhook(nowhere), plural="gizmos")
    gizmo = {**v1("a", 1), "kind": "Gizmo"}
    await story.tell("POST", widgets("v1", plural="gizmos"), gizmo)
    await story.tell("GET", widgets("v1", "a", "gizmos"))
    await story.tell("GET", widgets("v1", plural="gizmos"))
    await story.tell("POST", widgets("v2", plural="gizmos"), {**v2("b", 1), "kind": "Gizmo"})
    await story.tell("PATCH", widgets("v2", "a", "gizmos"), {"metadata": {"labels": {"a": "b"}}}, MERGE)
    await story.tell("DELETE", widgets("v2", "a", "gizmos"))
    await story.tell("GET", "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dnone")
    service = {"service": {"namespace": "default", "name": "nobody"}, "caBundle": story.converter.bundle}
    await story.serve(by_webhook(service), plural="gizmos")
    await story.tell("PATCH", widgets("v2", "a", "gizmos"), {"metadata": {"labels": {"a": "b"}}}, MERGE)


async def moving(story: Story) -> None:
    """The storage version changes: what is stored in the old one is converted when it is read, until it is written again."""
    conversion = by_webhook(story.converter.client_config(), "v1beta1")
    await story.serve(conversion, plural="gears")
    await story.tell("POST", widgets("v1", plural="gears"), {**v1("old", 1), "kind": "Gear"})
    await story.serve(conversion, plural="gears", stored="v2")
    await story.tell("POST", widgets("v1", plural="gears"), {**v1("new", 2), "kind": "Gear"})
    for version in ("v1", "v2"):
        await story.tell("GET", widgets(version, "old", "gears"))
        await story.tell("GET", widgets(version, "new", "gears"))
    await story.tell("PATCH", widgets("v1", "old", "gears"), {"metadata": {"labels": {"moved": "yes"}}}, MERGE)
    await story.tell("GET", widgets("v2", "old", "gears"))
    _, crd = await story.ask("GET", f"{DEFINITIONS}/gears.{GROUP}")
    story.told.append(crd["status"]["storedVersions"])


async def unconverted(story: Story) -> None:
    """Without a webhook versions differ in their apiVersion; each shows what its schema knows."""
    await story.serve({"strategy": "None"}, plural="sprockets")
    await story.tell("POST", widgets("v1", plural="sprockets"), {**v1("a", 1), "kind": "Sprocket"})
    await story.tell("POST", widgets("v2", plural="sprockets"), {**v2("b", 1), "kind": "Sprocket"})
    for version in ("v1", "v2"):
        await story.tell("GET", widgets(version, "a", "sprockets"))
        await story.tell("GET", widgets(version, plural="sprockets"))
    await story.tell("PATCH", widgets("v2", "a", "sprockets"), {"metadata": {"labels": {"a": "b"}}}, MERGE)
    await story.tell("GET", widgets("v1", "a", "sprockets"))


async def evolving(story: Story) -> None:
    """A definition changes: objects that are older than it are read as if it had always been so."""
    await story.serve({"strategy": "None"}, plural="levers")
    await story.tell("POST", widgets("v1", plural="levers"), {**v1("a", 1), "kind": "Lever"})
    fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
    change = [
        {"op": "add", "path": f"{fields}/weight", "value": {"type": "integer", "default": 3}},
        {"op": "remove", "path": f"{fields}/size"},
        {"op": "add", "path": "/spec/names/categories", "value": ["changed"]},
    ]
    await story.ask("PATCH", f"{DEFINITIONS}/levers.{GROUP}", change, JSON_PATCH)
    await story.taken_in("levers", "changed")
    await story.tell("GET", widgets("v1", "a", plural="levers"))
    await story.tell("GET", widgets("v1", plural="levers"))
    await story.tell("GET", widgets("v2", "a", plural="levers"))
    await story.tell("PATCH", widgets("v1", "a", plural="levers"), {"metadata": {"labels": {"a": "b"}}}, MERGE)
    await story.tell("GET", widgets("v1", plural="levers") + "?watch=1&timeoutSeconds=1")


STORIES = [working, misbehaving, unreachable, moving, unconverted, evolving]


async def tell_all(url: str, token: str, tell: Callable[[Story], Awaitable[None]]) -> list[Any]:
    connector = aiohttp.TCPConnector(ssl=False)
    async with serving(Converter()) as converter, aiohttp.ClientSession(connector=connector) as session:
        story = Story(session, url, token, converter)
        await tell(story)
        for plural in ("widgets", "gizmos", "gears", "sprockets", "levers"):
            await story.ask("DELETE", f"{DEFINITIONS}/{plural}.{GROUP}")
            await story.until(f"{DEFINITIONS}/{plural}.{GROUP}", lambda status, _: status == 404)
        return story.told


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Any:
    assert BINARIES is not None
    plane = ControlPlane("real", tmp_path_factory.mktemp("real"), BINARIES)
    plane.start()
    yield plane
    plane.stop()


@pytest.mark.parametrize("tell", STORIES, ids=lambda each: each.__name__)
async def test_conversion_agrees(real: ControlPlane, tell: Callable[[Story], Awaitable[None]]) -> None:
    cluster = EmbeddedApi(None, webhook_networks=["127.0.0.0/8"])
    await cluster.start()
    try:
        ours = await tell_all(cluster.server.url, cluster.server.admin_token, tell)
    finally:
        await cluster.stop()
    assert ours == await tell_all(real.server, TOKEN, tell)
