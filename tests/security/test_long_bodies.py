"""Long bodies are read, completed and checked beside the event loop, whatever they are written in and whatever is wrong with them."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from corral.server.content import bodies, openapi
from corral.server.content.go_json_errors import PIECE, syntax_error
from corral.server.verbs import intake
from corral.server.verbs.steps import LONG_BODY

from .served import served

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[int]]:
    """The threads in which the steps of long requests were done, by the name of the step. The cluster's own writes are short."""
    seen: dict[str, set[int]] = {}

    def spy(module: Any, name: str) -> None:
        real = getattr(module, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            if len(repr(args)) >= LONG_BODY:
                seen.setdefault(name, set()).add(threading.get_ident())
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, noted)

    for module, name in (
        (bodies, "decode_json"), (bodies, "decode_yaml"), (bodies, "duplicates"), (intake, "read"),
        (intake, "complete"), (intake, "check_new"), (intake, "check_changed"),
    ):  # fmt: skip
        spy(module, name)
    return seen


def long_map(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {f"k{n}": "" for n in range(LONG_BODY // 8)},
    }


async def test_nothing_of_a_long_body_is_done_on_the_loop(threads: dict[str, set[int]]) -> None:
    async with served() as world:
        threads.clear()
        assert (await world.ask("POST", MAPS, long_map("a"))).status == 201
        assert (await world.ask("PUT", f"{MAPS}/a", {**long_map("a"), "data": {"x": "y" * LONG_BODY}})).status == 200
        for kind in ("merge", "strategic"):
            change = {"data": {f"{kind}-{n}": "" for n in range(LONG_BODY // 8)}}
            assert (await world.ask("PATCH", f"{MAPS}/a", change, kind=kind)).status == 200
        steps = [{"op": "add", "path": f"/data/j{n}", "value": ""} for n in range(LONG_BODY // 16)]
        assert (await world.ask("PATCH", f"{MAPS}/a", steps, kind="json")).status == 200
        apply = f"{MAPS}/b?fieldManager=x"
        assert (await world.ask("PATCH", apply, json.dumps(long_map("b")).encode(), kind="apply")).status == 201
        hollow = {"metadata": {"name": "p"}, "spec": {"containers": [{}] * LONG_BODY}}
        assert (await world.ask("POST", PODS, hollow)).status == 422
        assert (await world.ask("POST", MAPS, b"- a\n" * LONG_BODY, kind="application/yaml")).status == 400
        assert (await world.ask("POST", MAPS, b'{"a":[' + b"1," * LONG_BODY + b"x")).status == 400
    assert set(threads) >= {
        "decode_json",
        "decode_yaml",
        "duplicates",
        "read",
        "complete",
        "check_new",
        "check_changed",
    }
    on_the_loop = [name for name, found in threads.items() if threading.get_ident() in found]
    assert on_the_loop == []


async def test_a_body_of_more_values_than_could_be_stored_is_refused_before_they_cost_anything() -> None:
    async with served() as world:
        hollow = b'{"metadata":{"name":"p"},"spec":{"containers":[' + b"{}," * bodies.MAX_VALUES + b"{}]}}"
        answer = await world.ask("POST", PODS, hollow)
        assert answer.status == 413, answer.body[:200]
        assert "more than 100000 values" in answer.json["message"]


@pytest.mark.parametrize(
    "item", [b"1", b'"some text"', b'"\\u00e9\\n"', b"true", b"-1.5e9", b'"' + b"x" * PIECE + b'"']
)
def test_looking_for_an_error_in_pieces_finds_what_looking_at_once_does(item: bytes) -> None:
    many = item + b","
    for count in (1, PIECE // len(many), 2 * PIECE // len(many) + 3):
        said = "invalid character '!' looking for beginning of value"
        assert syntax_error(b"[" + many * count + b"!]") == said
        assert syntax_error(b"[" + many * count + item + b"]") == ""


async def test_a_document_of_the_api_is_made_once_and_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    made, real = list[int](), openapi.encode_document

    def noted(document: Any) -> bytes:
        made.append(threading.get_ident())
        return real(document)

    monkeypatch.setattr(openapi, "encode_document", noted)
    async with served() as world:
        head = f"GET /openapi/v2 HTTP/1.1\r\nHost: x\r\nAccept: {openapi.PROTOBUF_V2}\r\n"
        asked = f"{head}Authorization: Bearer {world.admin}\r\n\r\n".encode()
        answers = await asyncio.gather(*(world.send(asked) for _ in range(3)))
    assert [answer.status for answer in answers] == [200] * 3
    assert len(made) == 1
    assert made[0] != threading.get_ident()
