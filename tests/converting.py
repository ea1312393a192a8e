"""A third party's conversion webhook for tests: widgets, whose v1 has `spec.size` and whose v2 `spec.dimensions.size`."""

from __future__ import annotations

import base64
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web

from corral.core.meta import Obj
from corral.server.access.certificates import Authority, load_pair

GROUP = "example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADDRESS = "127.77.0.1"  # as pods of embedded clusters have them


@contextmanager
def closed_port() -> Iterator[int]:
    """A port nobody listens on and nobody else can take."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


class Converter:
    """The webhook. `spoil` may change a whole answer before it is sent; `seen` remembers the reviews."""

    def __init__(self) -> None:
        self.seen: list[Obj] = []
        self.spoil: Callable[[Obj], Any] = lambda answer: answer
        self.status = 200
        self.port = 0
        self.bundle = ""

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.seen.append(review)
        asked = review["request"]
        converted = [convert(obj, asked["desiredAPIVersion"]) for obj in asked["objects"]]
        response = {"uid": asked["uid"], "convertedObjects": converted, "result": {"status": "Success"}}
        answer = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
        return web.json_response(self.spoil(answer), status=self.status)

    def client_config(self) -> Obj:
        return {"url": f"https://{ADDRESS}:{self.port}/convert", "caBundle": self.bundle}


def convert(obj: Obj, api_version: str) -> Obj:
    """A widget in the other version; v2 also gets a field that no schema has."""
    spec = obj.get("spec") or {}
    if api_version.endswith("/v1"):
        changed = {"size": (spec.get("dimensions") or {}).get("size", 0)}
    else:
        changed = {"dimensions": {"size": spec.get("size", 0)}, "unknown": "pruned"}
    if "color" in spec:
        changed["color"] = spec["color"]
    return {**obj, "apiVersion": api_version, "spec": changed}


@asynccontextmanager
async def serving(converter: Converter) -> AsyncIterator[Converter]:
    now = time.time()
    authority = Authority.create("third-party", now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, authority.issue_server([ADDRESS, "converter.default.svc"], now))
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/{path:.*}", converter.handle)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, ADDRESS, converter.port, ssl_context=context).start()
    converter.port = runner.addresses[0][1]
    converter.bundle = base64.b64encode(authority.certificate).decode()
    try:
        yield converter
    finally:
        await runner.cleanup()


def _version(name: str, spec: Obj, *, storage: bool) -> Obj:
    # A real server takes versions that select by the same fields for one that has no schema, and refuses it.
    selectable = [{"jsonPath": f".spec.{field}"} for field in ("color", "note") if field in spec]
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "selectableFields": selectable,
    }


def definition(conversion: Obj, *, plural: str = "widgets", stored: str = "v1") -> Obj:
    """The definition of widgets with the given `spec.conversion`."""
    color = {"type": "string", "default": "red"}
    size = {"type": "integer", "minimum": 0}
    versions = [
        _version("v1", {"size": size, "color": color}, storage=stored == "v1"),
        _version(
            "v2",
            {"dimensions": {"type": "object", "properties": {"size": size}}, "color": color, "note": {"type": "string", "default": "none"}},
            storage=stored == "v2",
        ),
    ]  # fmt: skip
    kind = plural.removesuffix("s").capitalize()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": versions,
            "conversion": conversion,
        },
    }


def by_webhook(client_config: Obj, *versions: str) -> Obj:
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client_config, "conversionReviewVersions": list(versions or ("v1",))},
    }
