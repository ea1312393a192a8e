"""The same mistakes about every kind, to Corral and to a real kube-apiserver: methods, limits, deletions, bodies, names, conflicts.

The questions are made from one valid object of each kind, so that a kind that is served otherwise than its neighbours is
seen. EXPLAINED has the differences that are known, by the mistake and the resource, each with its reason.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from cluster import TOKEN, ControlPlane
from replay_errors import Answer
from test_same_answers import BINARIES, DATA, NEWER, _ask, differences

from corral.clusters.embedded_api import EmbeddedApi
from corral.jobs.framework.served_kinds import builtin_kinds

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(900),
]
JSON, MERGE = "application/json", "application/merge-patch+json"
STRATEGIC, PATCH, APPLY = (
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)
DRY = "dryRun=All&"
"""What might succeed must leave the objects as they are."""
UNMANAGED = "nothing here acts on such objects, so only their metadata is looked into"
SERVERS_OWN = "a real server gives the address first"
EXPLAINED: dict[str, str] = {
    "*: patch a label to a number": "Go's printing of a broken patch",
    "*: create from a bad prefix": "the end of the name is random",
    "services: create with a name that is *": NEWER,
    "jobs: create with a name that is *": NEWER,
    "replicationcontrollers: create with a name that is long": NEWER,
    "horizontalpodautoscalers: create nothing": NEWER,
    "services: create nothing": SERVERS_OWN,
    "events: create nothing": "a name is asked for first",
    **{f"{kind}: create nothing": UNMANAGED for kind in ("ingressclasses", "volumeattachments", "flowschemas")},
    "prioritylevelconfigurations: create nothing": UNMANAGED,
    "jobs: patch another uid": "the labels of its pods, which name the uid, are said to be wrong as well",
    "controllerrevisions: *patch*": "their data, which is raw there, is never what it was after a patch",
    **{
        f"customresourcedefinitions: {mistake}": "it tells its version"
        for mistake in ("delete of an old version", "delete with options in a body*")
    },
    **{
        f"{kind}: delete once more": "no controllers let it go there"
        for kind in (
            "persistentvolumeclaims",
            "persistentvolumes",
            "replicationcontrollers",
            "jobs",
            "customresourcedefinitions",
        )
    },
}


class Base(NamedTuple):
    """A kind, by an object of it that both servers have."""

    resource: str
    collection: str
    item: str
    body: dict[str, Any]


def bases() -> Iterator[Base]:
    """The first of each kind that the questions of kubectl create."""
    known = set()
    for question in json.loads((DATA / "kubectl-questions.json").read_text())["questions"]:
        body, path = question["body"], question["path"]
        plain = question["id"].startswith("create ") and question["method"] == "POST" and "?" not in path
        if plain and isinstance(body, dict) and (name := (body.get("metadata") or {}).get("name")):
            resource, group, version = path.rpartition("/")[2], *_version(path)
            kind = next((kind.kind for kind in builtin_kinds() if (kind.group, kind.plural) == (group, resource)), "")
            typed = {"apiVersion": f"{group}/{version}" if group else version, "kind": kind}
            if kind and resource not in known:
                known.add(resource)
                yield Base(resource, path, f"{path}/{name}", {**typed, **body})


def _version(path: str) -> tuple[str, str]:
    """The group and version in a path."""
    parts = path.split("/")
    return (parts[2], parts[3]) if parts[1] == "apis" else ("", parts[2])


def with_metadata(base: Base, **metadata: Any) -> dict[str, Any]:
    held = {**base.body["metadata"], **metadata}
    return {**base.body, "metadata": {name: value for name, value in held.items() if value is not None}}


def questions(base: Base) -> Iterator[tuple[str, str, str, Any, str]]:
    """The mistakes: what it is called, method, path, body, content type."""
    collection, item, body = base.collection, base.item, base.body
    yield "put to a collection", "PUT", collection, body, JSON
    yield "patch a collection", "PATCH", collection, {}, MERGE
    yield "post to an object", "POST", item, body, JSON
    yield "an unknown subresource", "GET", f"{item}/nothing", None, ""
    yield "put to an unknown subresource", "PUT", f"{item}/nothing", body, JSON
    for number, query in enumerate(
        (
            "limit=-1", "limit=99999999999999999999", "limit=1.5", "limit=many", "resourceVersion=old", "resourceVersion=-5",
            "resourceVersionMatch=Exact", "resourceVersion=1&resourceVersionMatch=Nearly", "continue=nonsense", "labelSelector=a%20b",
            "fieldSelector=spec.nothing%3Da", "fieldSelector=metadata.name", "timeoutSeconds=soon",
        )
    ):  # fmt: skip
        yield f"a list with query {number}: {query}", "GET", f"{collection}?{query}", None, ""
    for query in (
        "gracePeriodSeconds=-1", "gracePeriodSeconds=soon", "propagationPolicy=Nowhere", "dryRun=Some",
        "propagationPolicy=Orphan&orphanDependents=true",
    ):  # fmt: skip
        yield f"delete with {query}", "DELETE", f"{item}?{DRY if 'dryRun' not in query else ''}{query}", None, ""
    for what, options in {
        "of another uid": {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}},
        "of an old version": {"preconditions": {"resourceVersion": "1"}},
        "by a policy that is none": {"propagationPolicy": "Nowhere"},
        "in a negative time": {"gracePeriodSeconds": -1},
        "in a time that is none": {"gracePeriodSeconds": "soon"},
        "with another kind's options": {"kind": "Pod", "apiVersion": "v1"},
    }.items():
        trying = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"], **options}
        yield f"delete {what}", "DELETE", item, trying, JSON
    trying = {"dryRun": ["All"], "preconditions": {"resourceVersion": "1"}}
    yield "delete with options in a body, which hide those of the query", "DELETE", f"{item}?dryRun=Some", trying, JSON
    yield "delete with half a body", "DELETE", item, "{", JSON
    yield "delete what is not there", "DELETE", f"{collection}/nothing-there", None, ""
    yield "get what is not there", "GET", f"{collection}/nothing-there", None, ""
    yield "patch what is not there", "PATCH", f"{collection}/nothing-there", {}, MERGE
    yield (
        "put what is not there",
        "PUT",
        f"{collection}/nothing-there",
        with_metadata(base, name="nothing-there", uid="x"),
        JSON,
    )
    for kind in (MERGE, PATCH, APPLY, STRATEGIC):
        short = kind.partition("/")[2]
        query = "?fieldManager=me" if kind == APPLY else ""
        for what, patch in {
            "half": "{",
            "nothing": "",
            "a word": '"word"',
            "null": "null",
            "a list of nothing": "[1]",
        }.items():
            yield f"{short}: {what}", "PATCH", item + query, patch, kind
    for what, operations in {
        "an unknown operation": [{"op": "turn", "path": "/metadata"}],
        "nowhere": [{"op": "replace", "path": "/metadata/nowhere/at/all", "value": 1}],
        "a test that fails": [{"op": "test", "path": "/metadata/name", "value": "another"}],
        "no path": [{"op": "remove"}],
        "a name": [{"op": "replace", "path": "/metadata/name", "value": "another"}],
    }.items():
        yield f"json-patch of {what}", "PATCH", item, operations, PATCH
    yield "apply by nobody", "PATCH", item, {"apiVersion": body["apiVersion"], "kind": body["kind"]}, APPLY
    yield "apply another kind", "PATCH", f"{item}?fieldManager=me", {"apiVersion": "v1", "kind": "Nothing"}, APPLY
    yield "patch by a type that is none", "PATCH", item, {}, "application/xml"
    yield "patch an old version", "PATCH", item, {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}, MERGE
    yield "patch another uid", "PATCH", item, {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}, MERGE
    yield "patch to bad labels", "PATCH", item, {"metadata": {"labels": {"a b": "c d"}}}, MERGE
    yield "patch a label to a number", "PATCH", item, {"metadata": {"labels": {"a": 1}}}, MERGE
    yield "put an old version", "PUT", item, with_metadata(base, resourceVersion="1", labels={"a": "b"}), JSON
    yield "put a version that is none", "PUT", item, with_metadata(base, resourceVersion="old"), JSON
    yield "put another name", "PUT", item, with_metadata(base, name="another"), JSON
    yield "put another uid", "PUT", item, with_metadata(base, uid="00000000-0000-0000-0000-000000000000"), JSON
    yield "put another namespace", "PUT", f"{item}?{DRY}", with_metadata(base, namespace="elsewhere"), JSON
    yield "create again", "POST", collection, body, JSON
    yield "create with a version", "POST", collection, with_metadata(base, name="another", resourceVersion="1"), JSON
    yield (
        "create in another namespace",
        "POST",
        collection,
        with_metadata(base, name="another", namespace="elsewhere"),
        JSON,
    )
    for what, name in {"long": "x" * 254, "shouted": "A_B", "empty": "", "two paths": "a/b", "up": ".."}.items():
        yield f"create with a name that is {what}", "POST", collection, with_metadata(base, name=name), JSON
    yield "create without a name", "POST", collection, with_metadata(base, name=None), JSON
    yield "create from a bad prefix", "POST", collection, with_metadata(base, name=None, generateName="A_B"), JSON
    yield "create of another kind", "POST", collection, {**body, "kind": "Nothing"}, JSON
    yield "create of another version", "POST", collection, {**body, "apiVersion": "example.com/v1"}, JSON
    yield "create half", "POST", collection, json.dumps(body)[:-3], JSON
    yield "create nothing", "POST", collection, "null", JSON
    yield "create a list", "POST", collection, "[]", JSON
    yield "create metadata that is a word", "POST", collection, {**body, "metadata": "word"}, JSON
    yield (
        "create with bad owners",
        "POST",
        collection,
        with_metadata(base, name="a-1", ownerReferences=[{"name": "x"}]),
        JSON,
    )
    yield (
        "create with bad finalizers",
        "POST",
        collection,
        with_metadata(base, name="a-2", finalizers=["no domain"]),
        JSON,
    )
    yield (
        "create with bad annotations",
        "POST",
        collection,
        with_metadata(base, name="a-3", annotations={"a b": "c"}),
        JSON,
    )
    strict = f"{collection}?fieldValidation=Strict&dryRun=All"
    yield "create with a field too many", "POST", strict, {**with_metadata(base, name="a-4"), "nothing": 1}, JSON
    yield (
        "create with a field twice",
        "POST",
        strict,
        json.dumps(with_metadata(base, name="a-5"))[:-1] + f', "kind": "{body["kind"]}"}}',
        JSON,
    )
    yield "delete at last", "DELETE", item, None, ""
    yield "delete once more", "DELETE", item, None, ""


def once(answer: Answer) -> Answer:
    """The answer with each fault told once: some kinds are looked at twice or three times there, and say everything as often."""
    details = answer.body.get("details") if isinstance(answer.body, dict) else None
    if not isinstance(details, dict) or not details.get("causes"):
        return answer
    causes = [cause for number, cause in enumerate(details["causes"]) if cause not in details["causes"][:number]]
    return answer._replace(body={**answer.body, "message": "", "details": {**details, "causes": causes}})


def is_explained(mistake: str, resource: str) -> bool:
    return any(fnmatch.fnmatch(f"{resource}: {mistake}", pattern) for pattern in EXPLAINED)


async def test_the_same_mistakes_are_refused_alike(tmp_path: Path) -> None:
    assert BINARIES is not None
    real = ControlPlane("real", tmp_path, BINARIES)
    await asyncio.to_thread(real.start, controllers=False)
    cluster = EmbeddedApi(None)
    await cluster.start()
    wrong: dict[str, list[str]] = {}
    asked = 0
    try:
        connector, patience = aiohttp.TCPConnector(ssl=False), aiohttp.ClientTimeout(60)
        async with aiohttp.ClientSession(connector=connector, timeout=patience) as session:

            async def ask(method: str, path: str, body: Any, kind: str) -> list[str]:
                question = {"method": method, "path": path, "body": body, "contentType": kind}
                ours = await _ask(session, cluster.server.url, cluster.server.admin_token, question)
                theirs = await _ask(session, real.server, TOKEN, question)
                return differences(question, once(ours), once(theirs))

            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "u"}}
            await ask("POST", "/api/v1/namespaces", namespace, JSON)
            await asyncio.sleep(1)
            for base in bases():
                await ask("POST", base.collection, base.body, JSON)
                for mistake, method, path, body, kind in questions(base):
                    asked += 1
                    found = await ask(method, path, body, kind)
                    if found and not is_explained(mistake, base.resource):
                        wrong[f"{base.resource}: {mistake}"] = found
    finally:
        await cluster.stop()
        await asyncio.to_thread(real.stop)
    assert asked > 4000
    assert wrong == {}
