"""Questions gone wrong: every request that is known to make sense, with parts of it exchanged by chance.

Unlike bytes made up from nothing these get past the first checks, so they reach what validates, merges, prints and stores.
An answer may be a refusal of any kind a real server knows; it may not be a surprise to the server itself.
`CORRAL_FUZZ_SECONDS` makes it go on for longer, `CORRAL_FUZZ_SEED` chooses other questions.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from corral.clusters.embedded_api import EmbeddedApi

DATA = Path(__file__).parents[1] / "data"
SECONDS = float(os.environ.get("CORRAL_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("CORRAL_FUZZ_SEED", "7"))
QUESTIONS = 1500
pytestmark = pytest.mark.timeout(120 + 2 * int(SECONDS))

ODD: list[Any] = [
    None, -1, 0, 1, 10**20, -(10**30), 1.5, 1e308, "", "x", "x" * 3000, "-", "a/b", "..", "%", True, False, [], {}, [None],
    {"": None}, [[]], {"a": {"b": [1, {}]}}, "2026-13-45T00:00:00Z", "1Gi", "\0", "é\U0001f600", ["a", "a"], {"name": None},
    "=", "in (", "NaN",
]  # fmt: skip
FIELDS = (
    "spec",
    "metadata",
    "status",
    "kind",
    "apiVersion",
    "name",
    "$patch",
    "$retainKeys",
    "",
    "finalizers",
    "managedFields",
)
PARAMETERS = (
    "limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "timeoutSeconds",
    "watch", "allowWatchBookmarks", "sendInitialEvents", "dryRun", "fieldManager", "fieldValidation", "force", "pretty",
    "gracePeriodSeconds", "propagationPolicy", "includeObject", "container", "tailLines", "sinceTime", "command", "ports",
)  # fmt: skip
VALUES = (
    "1", "0", "-1", "true", "x", "", "%00", "%F0%9F%98%80", "a%3Db", "a%20in%20(b", "99999999999999999999", "NotOlderThan",
    "Exact", "All", "Strict", "metadata.name%3Da", "%25", "2026-01-01T00:00:00Z", "Foreground", "a,b",
)  # fmt: skip
SEGMENTS = ("", "..", "%2e", "x", "status", "scale", "watch", "v1", "%00", "a" * 300)
TYPES = (
    "application/json", "application/yaml", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/json-patch+json", "application/apply-patch+yaml", "application/vnd.kubernetes.protobuf", "text/plain", "",
)  # fmt: skip
ACCEPTED = (
    "*/*", "application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/yaml", "application/vnd.kubernetes.protobuf", "text/html,q=0.9", ";;;",
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "FOO")


def questions() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in ("api-questions", "kubectl-questions"):
        found += json.loads((DATA / f"{name}.json").read_text())["questions"]
    for case in json.loads((DATA / "kube-kueue-crd-cases.json").read_text())["cases"]:
        if "request" not in case:
            continue
        request = case["request"]
        path = request["path"].replace("/namespaces/errs/", "/namespaces/t/")
        kind = request.get("contentType") or "application/json"
        found.append({"method": request["method"], "path": path, "contentType": kind, "body": request.get("body")})
    return found


class Mischief:
    """Changes questions, by chance."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def spoiled(self, question: dict[str, Any]) -> tuple[str, str, bytes | None, dict[str, str]]:
        """Method, path, body and headers."""
        chance, pick = self._random.random, self._random.choice
        method = pick(METHODS) if chance() < 0.1 else question["method"]
        body = question["body"]
        if isinstance(body, dict | list):
            body = json.dumps(self._changed(body))
        if body and chance() < 0.05:
            place = self._random.randrange(len(body))
            body = body[:place] + pick(('"', "{", "]", "\\u", "\\ud83d", "\0")) + body[place + 1 :]
        headers = {"Accept": pick(ACCEPTED) if chance() < 0.2 else question.get("accept", "application/json")}
        kind = pick(TYPES) if chance() < 0.15 else question["contentType"]
        if kind:
            headers["Content-Type"] = kind
        data = None if body is None else body.encode("utf-8", "surrogatepass")
        return method, self._path(question["path"]), data, headers

    def _path(self, path: str) -> str:
        chance, pick = self._random.random, self._random.choice
        path, _, query = path.partition("?")
        if chance() < 0.1:
            parts = path.split("/")
            parts[self._random.randrange(1, len(parts))] = pick(SEGMENTS)
            path = "/".join(parts)
        given = [query] if query else []
        if chance() < 0.4:
            given += [f"{pick(PARAMETERS)}={pick(VALUES)}" for _ in range(self._random.randint(1, 3))]
        if "watch" in path or "watch" in query or any("watch" in each for each in given):
            given.append("timeoutSeconds=1")
        return f"{path}?{'&'.join(given)}" if given else path

    def _changed(self, value: Any) -> Any:
        value = copy.deepcopy(value)
        for _ in range(self._random.randint(1, 3)):
            places = [place for place in _places(value) if place]
            if places:
                self._change(value, self._random.choice(places))
        return value

    def _change(self, value: Any, place: tuple[Any, ...]) -> None:
        for step in place[:-1]:
            value = value[step]
        how, odd = self._random.random(), copy.deepcopy(self._random.choice(ODD))
        if how < 0.6:
            value[place[-1]] = odd
        elif how < 0.75:
            del value[place[-1]]
        elif isinstance(value, dict):
            value[self._random.choice(FIELDS)] = odd
        else:
            value.append(copy.deepcopy(value[place[-1]]))


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield from _places(item, (*place, step))


async def test_no_question_surprises_the_server(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    cluster = EmbeddedApi(None)
    await cluster.start()
    asked, mischief, until = questions(), Mischief(SEED), time.monotonic() + SECONDS
    order = random.Random(SEED)
    surprises: list[Any] = []
    left = iter(range(QUESTIONS))
    connector = aiohttp.TCPConnector(ssl=False, limit=16)
    async with aiohttp.ClientSession(connector=connector) as session:
        credentials = {"Authorization": f"Bearer {cluster.server.admin_token}"}

        async def send(method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, str]:
            url = URL(cluster.server.url + path, encoded=True)
            async with session.request(method, url, data=data, headers={**headers, **credentials}) as answer:
                return answer.status, (await answer.read()).decode("utf-8", "replace")

        async def ask() -> None:
            while next(left, None) is not None or time.monotonic() < until:
                spoiled = mischief.spoiled(order.choice(asked))
                try:
                    status, said = await asyncio.wait_for(send(*spoiled), 20)
                except (TimeoutError, aiohttp.ClientError) as error:
                    surprises.append((spoiled, repr(error)))
                    continue
                if status >= 500 and "Internal error occurred" in said:
                    surprises.append((spoiled, said))

        for question in asked:  # so that there is something to change
            if question["method"] == "POST" and isinstance(question["body"], dict):
                await send("POST", question["path"], json.dumps(question["body"]).encode(), {})
        await asyncio.gather(*(ask() for _ in range(8)))
        ready, _ = await send("GET", "/readyz", None, {})
    await cluster.stop()
    assert surprises == []
    assert [record.getMessage() for record in caplog.records] == []
    assert ready == 200
