"""A name stays a name: whatever a text contains, it never becomes another part of an API path."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from tests.conformance.served_cli import Run
from tests.web.test_dashboard import Get, with_page

import corral
from corral.client.http import HttpClient
from corral.client.kubeconfig import Access
from corral.client.sync import SyncClient
from corral.clusters.embedded_api import EmbeddedApi
from corral.core.errors import BadRequest
from corral.core.resource import Resource, api_path, version_path
from corral.dashboard.address import Address
from corral.dashboard.details import details, logs
from corral.inspect.lookup import waiting_path
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS

SOURCES = Path(corral.__file__).parent
HOSTILE = [
    "", ".", "..", "...", "/", "//", "a/b", "a/../b", "../secrets/x", "..%2fsecrets", "%2e%2e", "%2F", "a%2Fb", "%", "%00",
    "a?b", "?", "x?watch=true", "tenant-a/secrets/hidden?", "tenant-a/secrets?", "web?", "#", "a#b", "a;b", "a&b=c", "a b", " ",
    "\t", "a\nb", "a\r\nHost: evil", "\x00", "\x7f", "ä", "\u2215", "\u202e", "\ud800", "a\\b", "a:b", "@", "~", "*", "a" * 5000,
    "http://evil", "//evil/", "status/", "log?", "x/log",
]  # fmt: skip
MERGE: dict[str, Any] = {}


class Asked(Exception):
    """A request was about to be sent, to this path."""


class Recording(SyncClient):
    def _send(self, method: str, path: str, *args: Any, **options: Any) -> Any:
        raise Asked(path)


class RecordingAsync(HttpClient):
    async def _request(self, method: str, path: str, *args: Any, **options: Any) -> Any:
        raise Asked(path)


def named(name: str, namespace: str = "ns") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}}


def sync() -> Recording:
    return Recording(Access(server="http://127.0.0.1:1"))


def started(stream: Iterator[Any]) -> None:
    next(stream)


SYNC: dict[str, Callable[[str, str], Any]] = {
    "get": lambda namespace, name: sync().get(PODS, name, namespace),
    "patch": lambda namespace, name: sync().patch(PODS, name, namespace, MERGE),
    "apply": lambda namespace, name: sync().apply(PODS, named(name, namespace)),
    "delete": lambda namespace, name: sync().delete(PODS, name, namespace),
    "create_subresource": lambda namespace, name: sync().create_subresource(PODS, name, namespace, "eviction", {}),
    "log": lambda namespace, name: started(sync().lines(PODS.path(namespace, name, "log"))),
}


def later(ask: Callable[[RecordingAsync], Any]) -> Any:
    async def run() -> Any:
        found = ask(RecordingAsync(Access(server="http://127.0.0.1:1")))
        return await (anext(found) if isinstance(found, AsyncIterator) else found)

    return asyncio.run(run())


ASYNC: dict[str, Callable[[str, str], Any]] = {
    "get": lambda namespace, name: later(lambda to: to.get(PODS, name, namespace)),
    "update": lambda namespace, name: later(lambda to: to.update(PODS, named(name, namespace))),
    "patch": lambda namespace, name: later(lambda to: to.patch(PODS, name, namespace, MERGE)),
    "apply": lambda namespace, name: later(lambda to: to.apply(PODS, named(name, namespace), manager="m")),
    "delete": lambda namespace, name: later(lambda to: to.delete(PODS, name, namespace)),
    "get_subresource": lambda namespace, name: later(lambda to: to.get_subresource(PODS, name, namespace, "status")),
    "create_subresource": lambda namespace, name: later(
        lambda to: to.create_subresource(PODS, name, namespace, "eviction", {})
    ),
    "logs": lambda namespace, name: later(lambda to: to.logs(name, namespace)),
}
ASKING = {
    **{f"sync {name}": ask for name, ask in SYNC.items()},
    **{f"async {name}": ask for name, ask in ASYNC.items()},
}


def sent(ask: Callable[[], Any]) -> list[str] | None:
    """The parts of the path that would be asked for; None when it was refused."""
    with pytest.raises((BadRequest, Asked)) as caught:
        ask()
    if isinstance(caught.value, BadRequest):
        return None
    path = str(caught.value)
    assert not set("?#;& \r\n\t\\") & set(path)
    assert path.isascii()
    return [unquote(part) for part in path.split("/")]


@pytest.mark.parametrize("function", ASKING)
def test_a_hostile_name_asks_for_an_object_of_that_name_or_for_nothing(function: str) -> None:
    for name in HOSTILE:
        parts = sent(lambda name=name: ASKING[function]("ns", name))  # type: ignore[misc]
        assert parts is None or parts[:7] == ["", "api", "v1", "namespaces", "ns", "pods", name]
        assert (parts is None) == (name in ("", ".", "..", "\ud800") or "/" in name)


@pytest.mark.parametrize("function", ASKING)
def test_a_hostile_namespace_asks_in_a_namespace_of_that_name_or_for_nothing(function: str) -> None:
    for namespace in HOSTILE[1:]:
        parts = sent(lambda namespace=namespace: ASKING[function](namespace, "web"))  # type: ignore[misc]
        assert parts is None or parts[:7] == ["", "api", "v1", "namespaces", namespace, "pods", "web"]
        assert (parts is None) == (namespace in (".", "..", "\ud800") or "/" in namespace)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_part_of_a_path_can_become_two(text: str) -> None:
    builders: list[Callable[[], str]] = [
        lambda: api_path("apis", text),
        lambda: version_path("apps", text),
        lambda: Resource("apps", "v1", text, "Deployment").path("ns", "web"),
        lambda: PODS.path("ns", "web", text or "."),
        lambda: waiting_path(text),
        lambda: waiting_path(text, "ns"),
    ]
    for build in builders:
        try:
            path = build()
        except BadRequest:
            continue
        assert text in [unquote(part) for part in path.split("/")]
        assert not set("?#") & set(path)


@pytest.mark.parametrize("text", [text for text in HOSTILE if text not in ("a" * 5000, "...")])
def test_the_dashboard_asks_for_names_only(text: str) -> None:
    for ask in (
        lambda: logs(sync(), text, "web", ""),
        lambda: logs(sync(), "default", text, ""),
        lambda: details(sync(), text, "web"),
        lambda: details(sync(), "default", text),
    ):
        with pytest.raises(BadRequest, match="is not the name of one"):
            ask()


async def test_the_dashboard_hands_out_logs_and_nothing_else(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run, get: Get) -> None:
        metadata = {"name": "hidden", "namespace": "default"}
        await embedded.client.create(SECRETS, {"metadata": metadata, "stringData": {"key": "value"}})
        containers = [{"name": "main", "image": "i"}]
        await embedded.client.create(PODS, {**named("web", "default"), "spec": {"containers": containers}})
        for namespace, pod in (("default/secrets/hidden?", "x"), ("default/secrets?", "x"), ("default", "web?")):
            code, text = await get(f"/api/logs?namespace={quote(namespace, safe='')}&pod={quote(pod, safe='')}")
            assert code == 400
            assert "is not the name of one" in text
            assert "apiVersion" not in text

    await with_page(tmp_path, scenario)


@pytest.mark.parametrize(
    "header", ["127.0.0.1:1, evil", "127.0.0.1, evil", "127.0.0.1:evil", "evil:127.0.0.1", "", ":"]
)
def test_the_dashboard_knows_its_own_name(header: str) -> None:
    own_address = Address("127.0.0.1")
    assert not own_address.answers_to(header)
    assert all(own_address.answers_to(own) for own in ("127.0.0.1", "localhost:80", "[::1]:8470", "[::1]"))


CLIENTS = (
    "cli", "client", "clusters", "controllers", "dashboard", "decide", "fleet", "inspect", "jobs", "node", "simulate",
)  # fmt: skip
OTHERS = (("ray", "dashboard.py"), ("node", "agnhost.py"))
"""Another API with paths of its own, and a program whose made-up log lines look like requests."""


@pytest.mark.parametrize("folder", CLIENTS)
def test_only_one_function_builds_api_paths(folder: str) -> None:
    wrong = [
        f"{path.relative_to(SOURCES)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted((SOURCES / folder).rglob("*.py"))
        if path.parts[-2:] not in OTHERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr) and ("/api" in (text := ast.unparse(node)) or "namespaces/{" in text)
        if "/apis" in text or "/api/" in text or "namespaces/{" in text
    ]
    assert not wrong, "use Resource.path or corral.core.resource.api_path"
