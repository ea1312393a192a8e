"""Odd objects of every kind, and the words in which a live kube-apiserver refused them.

Each case changes one field of a valid object. The answers were recorded from a kube-apiserver emulating v1.34; only
those whose words did not change between releases were kept.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from corral.core import errors, validation
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.machinery.decoding import DecodeError, decode
from corral.kinds.machinery.gotypes import go_type_of

RECORDED = json.loads((Path(__file__).parents[3] / "data" / "kinds" / "refused-creates.json").read_text())
REGISTRY = builtin_registry()
CASES = [
    pytest.param(case, id=f"{number}-{RECORDED['bases'][case['base']]['kind']}-{'.'.join(map(str, case['path']))}")
    for number, case in enumerate(RECORDED["cases"])
]


def changed(case: dict[str, Any]) -> dict[str, Any]:
    obj: dict[str, Any] = copy.deepcopy(RECORDED["bases"][case["base"]])
    *parents, last = case["path"]
    place: Any = obj
    for step in parents:
        place = place[step]
    if "set" in case:
        place[last] = case["set"]
    else:
        del place[last]
    return obj


def refusal(sent: dict[str, Any]) -> errors.ApiError | None:
    found = REGISTRY.find(sent["apiVersion"], sent["kind"])
    assert found is not None
    kind, version = found
    prefix = f'{kind.kind} in version "{version.name}" cannot be handled as a {kind.kind}: '
    try:
        obj, unknown = decode(go_type_of(version.definition), sent)
    except DecodeError as error:
        return errors.BadRequest(prefix + str(error))
    if unknown:
        fields = ", ".join(f'unknown field "{field}"' for field in unknown)
        return errors.BadRequest(f"{prefix}strict decoding error: {fields}")
    kind.default(obj)
    metadata = obj["metadata"]
    metadata |= {"uid": "f3766e39-510f-42d9-913b-aac1a3582f59", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if kind.namespaced:
        metadata["namespace"] = "default"
    if version.status and kind.kind != "Node":
        obj.pop("status", None)
    kind.prepare_create(obj)
    causes = validation.check_metadata(metadata, namespaced=kind.namespaced, check_name=kind.check_name)
    causes += kind.validate(obj)
    return errors.invalid(kind.kind, metadata.get("name") or "", causes, group=kind.group) if causes else None


@pytest.mark.parametrize("case", CASES)
def test_create_is_refused_in_the_same_words(case: dict[str, Any]) -> None:
    error = refusal(changed(case))
    assert error is not None
    assert (error.code, error.message) == (case["code"], case["message"])


@pytest.mark.parametrize("base", RECORDED["bases"], ids=lambda base: base["kind"])
def test_the_objects_the_cases_start_from_are_fine(base: dict[str, Any]) -> None:
    if base["kind"] != "ResourceQuota":  # starts with a scope that does not fit its resources
        assert refusal(base) is None
