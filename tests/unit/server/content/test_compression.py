"""Large answers are compressed for clients that take them so, and only those."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from corral.clusters.embedded_api import EmbeddedApi
from corral.server.content.compression import THRESHOLD, Compression
from corral.server.http.message import Request, Response

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Raw:
    """A client that shows bytes as they come."""

    def __init__(self, cluster: EmbeddedApi, session: aiohttp.ClientSession) -> None:
        self.cluster, self.session = cluster, session

    async def get(self, path: str, **headers: str) -> tuple[dict[str, str], bytes]:
        sent = {"Authorization": f"Bearer {self.cluster.server.admin_token}", "Accept-Encoding": "gzip", **headers}
        async with self.session.get(self.cluster.server.url + path, headers=sent) as answer:
            assert answer.status == 200
            return {name.lower(): value for name, value in answer.headers.items()}, await answer.read()

    async def put_large(self) -> None:
        body = {"metadata": {"name": "large"}, "data": {"a": "x" * THRESHOLD}}
        sent = {"Authorization": f"Bearer {self.cluster.server.admin_token}"}
        async with self.session.post(self.cluster.server.url + CONFIG_MAPS, json=body, headers=sent) as answer:
            assert answer.status == 201


@pytest.fixture
async def raw() -> AsyncIterator[Raw]:
    cluster = EmbeddedApi(None)
    await cluster.start()
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        yield Raw(cluster, session)
    await cluster.stop()


async def test_large_objects_lists_and_documents_are_compressed(raw: Raw) -> None:
    await raw.put_large()
    for path in (CONFIG_MAPS, f"{CONFIG_MAPS}/large", "/openapi/v3/apis/apps/v1", "/openapi/v2"):
        headers, body = await raw.get(path)
        assert headers.get("content-encoding") == "gzip", path
        assert "Accept-Encoding" in headers["vary"]
        assert int(headers["content-length"]) == len(body)
        plain_headers, plain = await raw.get(path, **{"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain_headers
        unpacked, expected = json.loads(gzip.decompress(body)), json.loads(plain)
        unpacked.pop("metadata", None), expected.pop("metadata", None)  # a list's revision moves on
        assert unpacked == expected


async def test_small_answers_and_watches_are_not(raw: Raw) -> None:
    headers, _ = await raw.get("/api/v1/namespaces")
    assert "content-encoding" not in headers
    await raw.put_large()
    headers, body = await raw.get(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1")
    assert "content-encoding" not in headers
    assert [json.loads(line)["type"] for line in body.splitlines()].count("ADDED") >= 1


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [("gzip", True), ("deflate, gzip, br", True), ("gzip;q=0", False), ("br", False), ("", False)],
)
async def test_the_client_decides(accepted: str, packed: bool) -> None:
    request = Request("GET", "/")
    request.headers["accept-encoding"] = accepted
    answer = await Compression().apply(request, Response(200, b"x" * (THRESHOLD + 1)))
    assert (("Content-Encoding", "gzip") in answer.headers) is packed


async def test_documents_are_compressed_once() -> None:
    compression, request = Compression(), Request("GET", "/")
    request.headers["accept-encoding"] = "gzip"
    body = b"x" * (THRESHOLD + 1)
    document = Response(200, body, headers=(("Etag", "1"), ("Vary", "Accept")))
    first, second = await compression.apply(request, document), await compression.apply(request, document)
    assert first.body is second.body
    assert ("Vary", "Accept-Encoding, Accept") in first.headers
    changing = Response(200, body + b"y")
    first, second = await compression.apply(request, changing), await compression.apply(request, changing)
    assert first.body is not second.body
