"""Typed decoding against objects a real server stored, and its complaints against Go's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral.kinds.machinery import protobuf
from corral.kinds.machinery.decoding import DecodeError, decode

DATA = Path(__file__).parents[3] / "data"
GOLDEN = json.loads((DATA / "kinds" / "jobs.json").read_text())


def stored_objects(value: Any) -> list[dict[str, Any]]:
    found = []
    if isinstance(value, dict):
        if {"apiVersion", "kind", "metadata"} <= value.keys() and "uid" in value["metadata"]:
            found.append(value)
        for child in value.values():
            found += stored_objects(child)
    elif isinstance(value, list):
        for child in value:
            found += stored_objects(child)
    return found


def test_decoding_leaves_stored_objects_as_they_are_down_to_the_order_of_fields() -> None:
    objects = stored_objects(GOLDEN)
    assert len(objects) > 100
    for obj in objects:
        decoded, unknown = decode(protobuf.go_type_for(obj["apiVersion"], obj["kind"]), obj)
        assert json.dumps(decoded) == json.dumps(obj)
        assert unknown == []


@pytest.mark.parametrize(
    ("go_type", "value", "complaint"),
    [
        pytest.param(
            "batch/v1.Job",
            {"spec": {"parallelism": "two"}},
            "json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32",
            id="text for a number",
        ),
        pytest.param(
            "batch/v1.Job",
            {"spec": {"parallelism": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field JobSpec.spec.parallelism of type int32",
            id="fraction for an integer",
        ),
        pytest.param(
            "core/v1.ConfigMap",
            {"data": {"k": 1}},
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            id="number in a map of strings",
        ),
        pytest.param(
            "batch/v1.Job",
            {"spec": {"template": {"spec": {"containers": {"name": "c"}}}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type "
            "[]v1.Container",
            id="object for a list",
        ),
        pytest.param(
            "core/v1.Pod",
            {"spec": {"restartPolicy": 1}},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
            id="number for a named string",
        ),
        pytest.param(
            "core/v1.Pod",
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="malformed quantity",
        ),
        pytest.param(
            "core/v1.Secret", {"data": {"a": "!!"}}, "illegal base64 data at input byte 0", id="malformed base64"
        ),
        pytest.param(
            "core/v1.Pod",
            {"metadata": {"creationTimestamp": "x"}},
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
            id="malformed time",
        ),
    ],
)
def test_decoding_refuses_wrong_types_in_the_words_of_go(go_type: str, value: Any, complaint: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(go_type, value)
    assert str(caught.value) == complaint


def test_decoding_drops_and_reports_unknown_fields() -> None:
    pod, unknown = decode("core/v1.Pod", {"spec": {"containers": [{"name": "c", "bogus": 1}], "other": {}}})
    assert unknown == ["spec.containers[0].bogus", "spec.other"]
    assert pod == {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}, "status": {}}


def test_decoding_drops_empty_optional_fields_and_makes_quantities_canonical() -> None:
    resources = {"limits": {"cpu": 0.5, "memory": "1024Mi"}, "requests": {}}
    pod, _ = decode("core/v1.Pod", {"spec": {"nodeSelector": {}, "containers": [{"args": [], "resources": resources}]}})
    container = pod["spec"]["containers"][0]
    assert container == {"name": "", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}
    assert "nodeSelector" not in pod["spec"]


def test_decoding_shows_required_lists_as_null_when_they_are_missing() -> None:
    role, _ = decode("rbac/v1.Role", {"metadata": {"name": "r"}})
    assert role["rules"] is None
