"""Requests that once held up everybody else, or filled the memory: each with its size and who may send it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from client import Connection

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/bench.corral.dev/v1/namespaces/default/things"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OPENAPI = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@dataclass(slots=True)
class Target:
    """The server, and the tokens of those who attack it."""

    port: int
    context: ssl.SSLContext
    admin: str
    nobody: str = ""
    viewer: str = ""

    async def ask(self, who: str, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> int:
        connection = await Connection(self.port, who, self.context).open()
        try:
            return (await connection.request(method, path, body, kind))[0]
        except (OSError, asyncio.IncompleteReadError):
            return 0  # it was cut off
        finally:
            connection.close()

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context)


Act = Callable[[Target], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    size: str
    who: str
    act: Act


def size_of(sent: int) -> str:
    return f"{sent} B" if sent < 1000 else f"{sent / 1000:.0f} KB" if sent < 1_000_000 else f"{sent / 1_000_000:.1f} MB"


def review(name: str, body: bytes, kind: str = "application/json") -> Attack:
    """Anybody may ask what he may do; nobody may hold up others with it."""
    return Attack(
        name, size_of(len(body)), "any identity", lambda target: target.ask(target.nobody, "POST", REVIEWS, body, kind)
    )


def as_editor(name: str, method: str, path: str, body: Any = b"", kind: str = "application/json") -> Attack:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Attack(
        name, size_of(len(raw or path)), "edit", lambda target: target.ask(target.admin, method, path, raw, kind)
    )


def merge_keys() -> bytes:
    lines = ["a0: &a0 {k: 1, l: 2}"]
    lines += [f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 8)]
    return "\n".join(lines).encode()


def pod(cpu: str) -> Any:
    return {
        "metadata": {"name": "q"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
    }


def thing(**spec: Any) -> Any:
    return {"apiVersion": "bench.corral.dev/v1", "kind": "Thing", "metadata": {"generateName": "t-"}, "spec": spec}


async def set_up(target: Target) -> None:
    """A kind with formats and an expression, and a collection of 27 MB, 74 MB as YAML."""
    text = {"type": "string"}
    spec = {
        "type": "object",
        "properties": {
            "isbn": {**text, "format": "isbn"}, "wait": {**text, "format": "duration"}, "text": {**text, "maxLength": 1_048_576},
            "words": {"type": "array", "maxItems": 2000, "items": {**text, "maxLength": 10}},
        },
        "x-kubernetes-validations": [{"rule": "!has(self.words) || self.words.all(w, !self.text.contains(w))"}],
    }  # fmt: skip
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    made = {"group": "bench.corral.dev", "scope": "Namespaced", "names": names, "versions": [version]}
    status = await target.ask(
        target.admin, "POST", CRDS, json.dumps({"metadata": {"name": "things.bench.corral.dev"}, "spec": made}).encode()
    )
    if status != 201:  # such an expression is too dear to be accepted: the rest is still of interest
        spec.pop("x-kubernetes-validations")
        await target.ask(
            target.admin,
            "POST",
            CRDS,
            json.dumps({"metadata": {"name": "things.bench.corral.dev"}, "spec": made}).encode(),
        )
    connection = await Connection(target.port, target.admin, target.context).open()
    for number in range(270):
        body = {"metadata": {"name": f"big-{number}", "labels": {"big": "yes"}}, "data": {"text": "x y\n" * 25_000}}
        await connection.request("POST", MAPS, json.dumps(body).encode())
    many = {"metadata": {"name": "many"}, "data": {f"k{n}": "" for n in range(60_000)}}
    await connection.request("POST", MAPS, json.dumps(many).encode())
    connection.close()


async def watches(target: Target, count: int, writes: int, size: int, selector: str = "") -> None:
    """Watches that nobody reads, and writes they have to be told of."""
    held = [await target.raw() for _ in range(count)]
    asked = f"{MAPS}?watch=true&labelSelector={selector or f'watched%3D{count}'}"
    head = f"GET {asked} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {target.viewer}\r\n\r\n"
    for _, writer in held:
        writer.write(head.encode())
    for number in range(writes):
        body = {
            "metadata": {"name": f"w-{count}-{number}", "labels": {"watched": str(count)}},
            "data": {"text": "x" * size},
        }
        await target.ask(target.admin, "POST", MAPS, json.dumps(body).encode())
    for _, writer in held:
        writer.transport.abort()


async def idle(target: Target, count: int) -> None:
    held = [await target.raw() for _ in range(count)]
    for _, writer in held:
        writer.transport.abort()


async def handshakes(target: Target, count: int) -> None:
    for _ in range(count // 20):
        opened = await asyncio.gather(*(target.raw() for _ in range(20)))
        for _, writer in opened:
            writer.transport.abort()


async def endless_body(target: Target) -> None:
    _, writer = await target.raw()
    writer.write(b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(200):
            writer.write(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
            await writer.drain()
    except OSError:
        pass  # it was cut off, as it should be
    writer.transport.abort()


async def long_names(target: Target, count: int, query: str) -> None:
    for _ in range(count):
        await target.ask("", "GET", query)


async def kept_open(target: Target, count: int, query: str) -> None:
    """Long questions of nobody, over connections that stay when they are answered."""
    held = [await target.raw() for _ in range(count)]
    for _, writer in held:
        writer.write(f"GET {query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    for reader, _ in held:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):  # it was cut off
            async with asyncio.timeout(5):
                await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(2)
    for _, writer in held:
        writer.transport.abort()


async def unfinished(target: Target, count: int) -> None:
    """Bodies that never end, of nobody."""
    held = [await target.raw() for _ in range(count)]
    for _, writer in held:
        writer.write(
            b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 2_900_000
        )
    for _, writer in held:
        try:
            async with asyncio.timeout(5):
                await writer.drain()
        except (OSError, TimeoutError):
            pass  # it was cut off, or is not read
        writer.transport.abort()


async def quiet(target: Target) -> None:
    await asyncio.sleep(2)


def all_attacks() -> list[Attack]:
    long, selector = "x" * 240_000, "a%3Db," * 40_000
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}"} for n in range(6000)]
    steps = [{"op": "add", "path": f"/data/n{n}", "value": ""} for n in range(10_000)]
    return [
        Attack("none", "", "", quiet),
        review("YAML merge keys", merge_keys(), YAML),
        review("duplicate JSON keys", b"{" + b",".join(b'"k%d":1' % (n // 2) for n in range(40_000)) + b"}"),
        review("YAML flat list", b"- a\n" * 262_144, YAML),
        review("YAML sexagesimal integer", b"a: 1" + b":1" * 60_000, YAML),
        review("broken JSON", b'{"a":[' + b"1," * 1_450_000 + b"x"),
        review("invalid UTF-8", b'{"a":"' + b"\xff" * 2_900_000 + b'"}'),
        review("review of a long verb", json.dumps({"spec": {"resourceAttributes": {"verb": "v" * 2_900_000}}}).encode()),
        Attack("OpenAPI as protobuf", "", "any identity", lambda target: read_all(target, target.nobody, "/openapi/v2", OPENAPI)),
        as_editor("ownerReferences", "POST", MAPS, {"metadata": {"name": "owned", "ownerReferences": owners}}),
        as_editor("JSON patch of 10 000 steps", "PATCH", f"{MAPS}/many", steps, "application/json-patch+json"),
        as_editor("quantity", "POST", PODS, pod("1" * 20_000 + "!")),
        as_editor("labelSelector `(((`", "GET", f"{PODS}?labelSelector=" + "(" * 240_000),
        as_editor("isbn format", "POST", THINGS, thing(isbn="1" * 4000 + "x")),
        as_editor("duration format", "POST", THINGS, thing(wait="1" * 8000)),
        as_editor("CEL contains in a loop", "POST", THINGS, thing(text="a" * 1_000_000, words=["ab"] * 2000)),
        Attack("YAML list answer", "74 MB", "edit", lambda target: read_big(target, YAML)),
        Attack("JSON list answer", "27 MB", "edit", lambda target: read_big(target, "application/json")),
        Attack("protobuf list answer", "27 MB", "edit", lambda target: read_big(target, PROTOBUF)),
        Attack("Table of whole objects", "27 MB", "edit", lambda target: read_big(target, TABLE, "&includeObject=Object")),
        as_editor("labelSelector of 24 000 absent labels", "GET", f"{MAPS}?labelSelector=" + ",".join(f"!k{n:06}" for n in range(24_000))),
        as_editor("labelSelector of 24 000 values", "GET", f"{MAPS}?labelSelector=k+in+(" + ",".join(f"v{n:06}" for n in range(24_000)) + ")"),
        as_editor("labelSelector of one label 24 000 times", "GET", f"{MAPS}?labelSelector=" + ",".join(f"k!=v{n:05}" for n in range(24_000))),
        as_editor("fieldSelector of 9 000 names", "GET", f"{MAPS}?fieldSelector=" + ",".join(f"metadata.name!=n{n:06}" for n in range(9_000))),
        Attack("100 watches with such selectors", "", "view", lambda target: watches(target, 100, 20, 10, ",".join(f"!k{n:06}" for n in range(24_000)))),
        Attack("300 unread watches, 400 KB writes", "", "view", lambda target: watches(target, 300, 5, 400_000)),
        Attack("1000 watches, 20 small writes", "", "view", lambda target: watches(target, 1000, 20, 10)),
        Attack("fieldSelector `a=b,`", "240 KB", "anonymous", lambda target: target.ask("", "GET", f"{PODS}?fieldSelector={selector}")),
        Attack("800 idle connections opened", "", "anonymous", lambda target: idle(target, 800)),
        Attack("800 handshakes", "", "anonymous", lambda target: handshakes(target, 800)),
        Attack("endless body", "200 MB", "anonymous", endless_body),
        Attack("900 long names", "240 KB each", "anonymous", lambda target: long_names(target, 900, f"{PODS}/{long}")),
        Attack("600 long selectors", "240 KB each", "anonymous", lambda target: long_names(target, 600, f"{PODS}?fieldSelector=metadata.name%3D{long}")),
        Attack("500 long selectors over connections that stay", "240 KB each", "anonymous", lambda target: kept_open(target, 500, f"{PODS}?fieldSelector=metadata.name%3D{long}")),
        Attack("60 unfinished bodies", "2.9 MB each", "anonymous", lambda target: unfinished(target, 60)),
    ]  # fmt: skip


async def read_big(target: Target, accept: str, more: str = "") -> None:
    await read_all(target, target.admin, f"{MAPS}?labelSelector=big%3Dyes{more}", accept)


async def read_all(target: Target, who: str, path: str, accept: str) -> int:
    """Read an answer in another format than JSON to its end; its status."""
    reader, writer = await target.raw()
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: {accept}\r\nAuthorization: Bearer {who}\r\n\r\n"
    writer.write(head.encode())
    status = int((await reader.readline()).split()[1])
    while await reader.read(1 << 20):
        pass
    writer.transport.abort()
    return status
