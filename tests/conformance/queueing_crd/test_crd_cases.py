"""The Kueue kinds answer as a real server with the real CRDs did: same defaults, same refusals, same tables.

The recording has no webhooks, so no admission plug-in runs here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral.core.admission import UserInfo
from corral.core.errors import ApiError
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import KINDS
from corral.kinds.machinery.tables import cells, column_definitions
from corral.runtime.virtual import run_virtual
from corral.server.verbs.options import ListOptions, WriteOptions
from corral.testing.cluster import VirtualCluster

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "kube-kueue-crd-cases.json").read_text()
)["cases"]
ADMIN = UserInfo("admin", ("system:masters",))
BY_PLURAL = {kind.plural: kind for kind in KINDS}
PATCHES = {"application/merge-patch+json": "merge"}
VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields")

QUOTA = {
    "coveredResources": ["cpu", "memory"],
    "flavors": [
        {
            "name": "default",
            "resources": [{"name": "cpu", "nominalQuota": "9"}, {"name": "memory", "nominalQuota": "36Gi"}],
        }
    ],
}
# What the recording has in its tables but not among its cases.
BEFORE: dict[str, list[Obj]] = {
    "resourceflavors": [{"metadata": {"name": "default"}}],
    "cohorts": [{"metadata": {"name": "team"}}],
    "clusterqueues": [
        {
            "metadata": {"name": "cq2"},
            "spec": {"cohortName": "team", "queueingStrategy": "StrictFIFO", "resourceGroups": [QUOTA]},
        },
        {"metadata": {"name": "b3"}, "spec": {"cohortName": "x", "resourceGroups": [QUOTA]}},
    ],
    "localqueues": [{"metadata": {"name": "lq0", "namespace": "kq"}, "spec": {}}],
}
# The recording converts by apiVersion only; a real installation converts fields, and so do we.
CONVERTED = "wl-v1beta1-read-of-v1beta2"


class Target:
    """A request path taken apart."""

    def __init__(self, path: str) -> None:
        parts = path.strip("/").split("/")
        _, group, version, *rest = parts
        self.namespace = ""
        if rest[0] == "namespaces":
            _, self.namespace, *rest = rest
        plural, *rest = rest
        self.name = rest[0] if rest else ""
        self.subresource = rest[1] if len(rest) > 1 else ""
        kind = BY_PLURAL[plural]
        self.resource = Resource(group, version, plural, kind.kind, kind.namespaced)


async def answer(cluster: VirtualCluster, request: dict[str, Any]) -> tuple[int, Obj]:
    target = Target(request["path"])
    api, options = cluster.api, WriteOptions()
    try:
        if request["method"] == "POST":
            stored = await api.create(ADMIN, target.resource, target.namespace, request["body"], options)
            return 201, stored.obj
        if request["method"] == "PATCH":
            stored, _ = await api.patch(
                ADMIN,
                target.resource,
                target.namespace,
                target.name,
                PATCHES[request["contentType"]],
                request["body"],
                options,
                subresource=target.subresource,
            )
            return 200, stored.obj
        return 200, (await api.get(ADMIN, target.resource, target.namespace, target.name)).obj
    except ApiError as error:
        return error.code, error.status


def stable(body: Obj) -> Obj:
    """The body without what no two runs share; a server lists the causes of one object in no fixed order."""
    if body.get("kind") == "Status":
        causes = sorted(body.get("details", {}).get("causes", []), key=json.dumps)
        several = len(causes) > 2
        return {**body, "details": {**body["details"], "causes": causes}, **({"message": ""} if several else {})}
    metadata = {name: value for name, value in body.get("metadata", {}).items() if name not in VOLATILE}
    return {**body, "metadata": metadata}


async def table(cluster: VirtualCluster, plural: str) -> tuple[list[Obj], list[list[Any]]]:
    kind = BY_PLURAL[plural]
    version = kind.storage_version
    listing = await cluster.api.list(ADMIN, kind.resource(), ListOptions())
    now = cluster.clock.now() + 1
    return column_definitions(kind, version), [cells(kind, version, item.obj, now) for item in listing.items]


def own_texts(definitions: list[Obj]) -> list[Obj]:
    """Columns without the long texts of Name and Age, which every kind shares and Kubernetes' own schema holds."""
    generic = ("Name must be unique within a namespace", "CreationTimestamp is a timestamp")
    return [
        {**entry, "description": ""} if entry["description"].startswith(generic) else entry for entry in definitions
    ]


async def check_all(failures: list[str]) -> None:
    async with VirtualCluster(namespaces=("kq",)) as cluster:
        for plural, objects in BEFORE.items():
            for obj in objects:
                namespace = obj["metadata"].get("namespace", "")
                await cluster.api.create(ADMIN, BY_PLURAL[plural].resource(), namespace, obj, WriteOptions())
        for case in CASES:
            if "request" not in case:
                definitions, rows = await table(cluster, case["id"].removeprefix("table-"))
                if own_texts(definitions) != own_texts(case["columnDefinitions"]) or rows != case["cells"]:
                    failures.append(f"{case['id']}: {definitions} {rows}")
                continue
            code, body = await answer(cluster, case["request"])
            expected = case["body"]
            if case["id"] == CONVERTED:
                priority = {"priorityClassName": "high", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}
                expected = {**expected, "spec": {**expected["spec"], **priority}}
            if (code, stable(body)) != (case["status"], stable(expected)):
                failures.append(
                    f"{case['id']}: {code} {json.dumps(stable(body))}\n  not {json.dumps(stable(expected))}"
                )


def test_all_recorded_cases_are_answered_alike() -> None:
    failures: list[str] = []
    run_virtual(lambda: check_all(failures))
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_kind_is_served_in_both_versions(kind: Any) -> None:
    assert [version.name for version in kind.served_versions] == ["v1beta2", "v1beta1"]
    assert kind.storage_version.name == "v1beta2"
