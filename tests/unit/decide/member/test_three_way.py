"""Client-side apply: what the manifest says is set, what it used to say is removed, what others added stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.patch.json import merge_patch
from corral.core.patch.strategic import strategic_merge
from corral.core.schema.structural import Schema, compile_schema
from corral.decide.member.three_way import three_way
from corral.jobs.framework.served_kinds import builtin_registry

DATA = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123"), max_size=6)


def applied(original: dict[str, Any], modified: dict[str, Any], current: dict[str, Any]) -> dict[str, Any]:
    """`current` after the three-way patch."""
    schema = schema_of(modified)
    patch = three_way(original, modified, current, schema)
    if schema is None:
        assert patch.kind == "merge"
        merged: dict[str, Any] = merge_patch(current, patch.body)
        return merged
    assert patch.kind == "strategic"
    return strategic_merge(current, patch.body, schema)


def schema_of(obj: dict[str, Any]) -> Schema | None:
    found = builtin_registry().find(obj["apiVersion"], obj["kind"])
    return compile_schema(found[1].schema) if found is not None else None


@pytest.mark.parametrize("kind", [("v1", "ConfigMap"), ("example.com/v1", "Gadget")])
@given(original=DATA, modified=DATA, current=DATA)
def test_fields_of_the_manifest_win_and_fields_of_others_stay(
    kind: tuple[str, str], original: dict[str, str], modified: dict[str, str], current: dict[str, str]
) -> None:
    head = {"apiVersion": kind[0], "kind": kind[1]}
    result = applied({**head, "data": original}, {**head, "data": modified}, {**head, "data": current})
    kept = {key: value for key, value in current.items() if key not in original or key in modified}
    assert result["data"] == {**kept, **modified}


def test_lists_of_built_in_kinds_merge_by_key() -> None:
    def pod(*containers: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": list(containers)}}

    result = applied(
        pod({"name": "a", "image": "1"}, {"name": "b", "image": "1"}),
        pod({"name": "a", "image": "2"}),
        pod(
            {"name": "a", "image": "1", "imagePullPolicy": "Always"}, {"name": "b", "image": "1"}, {"name": "injected"}
        ),
    )
    assert result["spec"]["containers"] == [
        {"name": "a", "image": "2", "imagePullPolicy": "Always"},
        {"name": "injected"},
    ]


def test_an_object_that_is_as_it_should_be_needs_no_patch() -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}
    assert three_way(obj, obj, {**obj, "data": {"a": "1", "b": "2"}}, schema_of(obj)).body == {}


def test_an_empty_selector_does_not_touch_a_generated_one() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"selector": {"matchLabels": {}}, "suspend": True}}
    live = {**job, "spec": {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}, "suspend": False}}
    assert three_way(job, job, live, schema_of(job)).body == {"spec": {"suspend": True}}
