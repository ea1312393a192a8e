"""The same questions to Corral and to a real kube-apiserver: mostly mistakes, whose answers must agree by letter.

Add a question to tests/data/api-questions.json when you wonder what a real server says. KNOWN names the differences
we know of; most come from the real server being a newer release than the one Corral follows.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from cluster import TOKEN, ControlPlane, programs
from replay_errors import Answer, compare, in_order, mask

from corral.fleet.embedded_api import EmbeddedApi

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(200),
]
QUESTIONS = Path(__file__).parents[1] / "data" / "api-questions.json"
NEWER = "the real server is a newer release"
KNOWN = {
    "POST /api/v1/namespaces/t/services #1": NEWER,
    "POST /api/v1/namespaces/t/serviceaccounts #1": "the real cluster has no controller that makes it first",
    "PATCH /api/v1/namespaces/t/configmaps/a #7": "Go's printing of a broken patch",
    "PATCH /api/v1/namespaces/t/configmaps/a #8": "Go's printing of a broken patch",
    "PATCH /api/v1/namespaces/t/configmaps/a?fieldManager=x #3": "a foreign uid is a conflict here, an immutable field there",
    "PATCH /api/v1/namespaces/t/configmaps/a?fieldManager=x #5": "the wrong type of a value is noticed after the conflict",
    "PATCH /api/v1/namespaces/t/configmaps/a?fieldManager=x #6": "Go's printing of a value",
    "POST /api/v1/namespaces/t/resourcequotas #1": "the order of causes in a Go map",
    "PATCH /apis/apps/v1/namespaces/t/deployments/d/status #1": "the real cluster's controller may have counted pods first",
    "POST /api/v1/persistentvolumes #1": "volumes are stored, not checked",
    "POST /apis/autoscaling/v2/namespaces/t/horizontalpodautoscalers #1": NEWER,
    "POST /apis/networking.k8s.io/v1/namespaces/t/networkpolicies #1": NEWER,
    "POST /apis/apiregistration.k8s.io/v1/apiservices #1": "registrations are not checked yet",
}


async def _ask(session: aiohttp.ClientSession, url: str, token: str, question: dict[str, Any]) -> Answer:
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "questions", "Accept": "application/json"}
    body = question["body"]
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    if question["contentType"]:
        headers["Content-Type"] = question["contentType"]
    target = URL(url + question["path"], encoded=True)
    async with session.request(question["method"], target, data=data, headers=headers) as answer:
        text = await answer.text()
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = text
    return Answer(answer.status, {}, parsed)


def _differences(ours: Answer, theirs: Answer) -> list[str]:
    found = [] if ours.status == theirs.status else [f"status {ours.status}, not {theirs.status}"]
    refusals = [each.body for each in (ours, theirs) if isinstance(each.body, str) or each.body.get("kind") == "Status"]
    if refusals:
        compare(in_order(mask(theirs.body)), in_order(mask(ours.body)), "", found)
    return found


async def test_answers_agree(tmp_path: Path) -> None:
    assert BINARIES is not None
    real = ControlPlane("real", tmp_path, BINARIES)
    await asyncio.to_thread(real.start)
    cluster = EmbeddedApi(None)
    await cluster.start()
    wrong: dict[str, list[str]] = {}
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
            for question in json.loads(QUESTIONS.read_text())["questions"]:
                ours = await _ask(session, cluster.server.url, cluster.server.admin_token, question)
                theirs = await _ask(session, real.server, TOKEN, question)
                found = _differences(ours, theirs)
                if found and question["id"] not in KNOWN:
                    wrong[question["id"]] = found
                if question["path"] == "/api/v1/namespaces":
                    await asyncio.sleep(0.5)  # for the namespace's service account
    finally:
        await cluster.stop()
        await asyncio.to_thread(real.stop)
    assert wrong == {}
