"""The same questions to Corral and to a real kube-apiserver: mistakes, and what kubectl asks. Answers must agree by letter.

Add a question to tests/data/api-questions.json or kubectl-questions.json when you wonder what a real server says. A
question that is `whole` is compared also when it is answered; of a text like "*2000000" that many letters are sent.
KNOWN names the differences we know of; most come from the real server being a newer release than the one Corral follows.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from cluster import TOKEN, ControlPlane, eventually, programs
from replay_errors import Answer, compare, in_order, mask

from corral.clusters.embedded_api import EmbeddedApi

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(600),
]
DATA = Path(__file__).parents[1] / "data"
_AGE = re.compile(r"(\d+(\.\d+)?(ms|[smhdy]))+|<invalid>|<unknown>")
_LONG = re.compile(r'"\*(\d+)"')
NEWER = "the real server is a newer release"
VOLUMES = "nobody binds volumes, so nobody holds them back either"
KNOWN = {
    "POST /api/v1/namespaces/t/services #1": NEWER,
    "POST /api/v1/namespaces/t/serviceaccounts #1": "the real cluster has no controller that makes it first",
    "PATCH /api/v1/namespaces/t/configmaps/a #7": "Go's printing of a broken patch",
    "PATCH /api/v1/namespaces/t/configmaps/a #8": "Go's printing of a broken patch",
    "PATCH /api/v1/namespaces/t/configmaps/a?fieldManager=x #5": "the wrong type of a value is noticed after the conflict",
    "PATCH /api/v1/namespaces/t/configmaps/a?fieldManager=x #6": "Go's printing of a value",
    "PATCH /apis/apps/v1/namespaces/t/deployments/d/status #1": "the real cluster's controller may have counted pods first",
    "POST /apis/autoscaling/v2/namespaces/t/horizontalpodautoscalers #1": NEWER,
    "POST /apis/networking.k8s.io/v1/namespaces/t/networkpolicies #1": NEWER,
    "create persistentvolumeclaims": VOLUMES,
    "kubectl get persistentvolumeclaims pvc": VOLUMES,
    "kubectl get persistentvolumes u-pv": VOLUMES,
    "kubectl get endpoints ep": "the real cluster's controller may have removed them, as they are of no service",
    "kubectl get serviceaccounts sa": NEWER,
    "kubectl get nodes u-node": "the real cluster's controller annotates nodes, and " + NEWER,
    "kubectl get flowschemas u-fs": "no controller looks for the priority levels of flow schemas",
    "a custom object against a rule": NEWER,
    "apply a list without a key": NEWER,
    "a patch with another kind": "the patched object is read as what it says it is there, as what it should be here",
    "a pod's status of a wrong type": "Go's printing of a broken patch",
    "may somebody else": NEWER,
    "may nobody": NEWER,
    "may somebody see a path": NEWER,
    "the selector a/b/c%3Dd": NEWER,
    "the selector x%3Dvvvvvvvvvvvvvvvvvvvvvvvvvv": NEWER,
}


async def _ask(session: aiohttp.ClientSession, url: str, token: str, question: dict[str, Any]) -> Answer:
    accept = question.get("accept", "application/json")
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "questions", "Accept": accept}
    body = question["body"]
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    data = None if text is None else _LONG.sub(lambda found: f'"{"x" * int(found[1])}"', text).encode()
    if question["contentType"]:
        headers["Content-Type"] = question["contentType"]
    target = URL(url + question["path"], encoded=True)
    async with session.request(question["method"], target, data=data, headers=headers) as answer:
        text = await answer.text()
    return Answer(answer.status, {}, _parsed(text))


async def _until_served(session: aiohttp.ClientSession, url: str, spec: dict[str, Any]) -> None:
    """Return when a real server serves what it was given a definition of; what it cannot convert it never serves."""
    version, plural = f"{url}/apis/{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["plural"]

    async def is_served() -> bool:
        async with session.get(version, headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            listed = (await answer.json())["resources"] if answer.status == 200 else []
        return any(one["name"] == plural for one in listed)

    if "conversion" not in spec:
        await eventually(is_served)
    await asyncio.sleep(1)  # what is served and what is shown are not quite one


def _parsed(text: str) -> Any:
    """One JSON value, the values of a watch, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text


def _steady(value: Any) -> Any:
    """`value` without what differs between any two runs; ages in tables are times, too. Columns are described nowhere."""
    masked = mask(value)
    for table in [each.get("object", each) if isinstance(each, dict) else each for each in _each(masked)]:
        for row in (table.get("rows") or ()) if isinstance(table, dict) else ():
            row["cells"] = ["<age>" if _AGE.fullmatch(str(cell)) else cell for cell in row.get("cells") or ()]
        for column in (table.get("columnDefinitions") or ()) if isinstance(table, dict) else ():
            column["description"] = ""
    return in_order(masked)


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_refusal(body: Any) -> bool:
    return not isinstance(body, dict) or body.get("kind") == "Status"


def differences(question: dict[str, Any], ours: Answer, theirs: Answer) -> list[str]:
    found = [] if ours.status == theirs.status else [f"status {ours.status}, not {theirs.status}"]
    if question.get("whole") or _is_refusal(ours.body) or _is_refusal(theirs.body):
        compare(_steady(theirs.body), _steady(ours.body), "", found)
    return found


@pytest.mark.parametrize("file", ["api-questions", "kubectl-questions"])
async def test_answers_agree(tmp_path: Path, file: str) -> None:
    assert BINARIES is not None
    real = ControlPlane("real", tmp_path, BINARIES)
    await asyncio.to_thread(real.start)
    cluster = EmbeddedApi(None)
    await cluster.start()
    wrong: dict[str, list[str]] = {}
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
            for question in json.loads((DATA / f"{file}.json").read_text())["questions"]:
                ours = await _ask(session, cluster.server.url, cluster.server.admin_token, question)
                theirs = await _ask(session, real.server, TOKEN, question)
                found = differences(question, ours, theirs)
                if found and question["id"] not in KNOWN:
                    wrong[question["id"]] = found
                if question["path"] == "/api/v1/namespaces":
                    await asyncio.sleep(0.5)  # for the namespace's service account
                if question["path"].endswith("/customresourcedefinitions") and theirs.status == 201:
                    await _until_served(session, real.server, question["body"]["spec"])
    finally:
        await cluster.stop()
        await asyncio.to_thread(real.stop)
    assert wrong == {}
