"""Every refused create in the recordings of a real server, answered by kinds alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from corral.core import errors, validation
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.machinery.decoding import DecodeError, decode
from corral.kinds.machinery.definition import KindDef
from corral.kinds.machinery.gotypes import go_type_of

CASES = json.loads((Path(__file__).parents[3] / "data" / "kube-errors.json").read_text())["cases"]
REGISTRY = builtin_registry()
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ELSEWHERE = {"admission-policy-denied", "namespace-mismatch", "bad-dryRun", "wrong-kind", "unknown-kind"}


def target(path: str) -> tuple[KindDef | None, str, str]:
    """The kind, version and namespace a create goes to."""
    parts = path.partition("?")[0].strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = rest[1] if len(rest) == 3 and rest[0] == "namespaces" else ""
    return REGISTRY.get(group, rest[-1]) if len(rest) in (1, 3) else None, version, namespace


def creates() -> list[Any]:
    found = []
    for case in CASES:
        request = case.get("request", {})
        usual = case.get("status") in (400, 422) and isinstance(request.get("body"), dict)
        if request.get("method") != "POST" or not usual or case["id"] in ELSEWHERE:
            continue
        kind = target(request["path"])[0]
        if kind is not None and kind.builtin and kind.verbs != ("create",):
            found.append(pytest.param(case, id=case["id"]))
    return found


def answer(kind: KindDef, version: str, namespace: str, case: dict[str, Any]) -> errors.ApiError | None:
    served = kind.version(version)
    assert served is not None
    refused = f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: '
    try:
        obj, unknown = decode(go_type_of(served.definition), case["request"]["body"])
    except DecodeError as error:
        return errors.BadRequest(refused + str(error))
    if unknown and "Strict" in case["request"]["path"]:
        fields = ", ".join(f'unknown field "{field}"' for field in unknown)
        return errors.BadRequest(f"{refused}strict decoding error: {fields}")
    kind.default(obj)
    metadata, recorded = obj["metadata"], UID.search(json.dumps(case["body"]))
    metadata["uid"] = recorded[0] if recorded else "none"
    if kind.namespaced:
        metadata["namespace"] = namespace
    if metadata.get("generateName"):
        metadata["name"] = case["body"]["details"]["name"]
    if served.status:
        obj.pop("status", None)
    kind.prepare_create(obj)
    causes = validation.check_metadata(metadata, namespaced=kind.namespaced, check_name=kind.check_name)
    causes += kind.validate(obj)
    return errors.invalid(kind.kind, metadata.get("name") or "", causes, group=kind.group) if causes else None


@pytest.mark.parametrize("case", creates())
def test_create_is_refused_as_recorded(case: dict[str, Any]) -> None:
    kind, version, namespace = target(case["request"]["path"])
    assert kind is not None
    error = answer(kind, version, namespace, case)
    assert error is not None
    assert (error.code, error.message) == (case["status"], case["body"]["message"])
    if error.code == 422:
        assert error.details == case["body"]["details"]
