"""Strategic merge patches do what kubectl expects of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from corral.core.patch.strategic import StrategicPatchError, strategic_diff, strategic_merge
from corral.core.schema.structural import Schema, compile_schema

SCHEMA: Schema = compile_schema(
    {
        "type": "object",
        "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
            "args": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            "containers": {
                "type": "array",
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "env": {
                            "type": "array",
                            "x-kubernetes-patch-strategy": "merge",
                            "x-kubernetes-patch-merge-key": "name",
                            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                        },
                    },
                },
            },
            "strategy": {
                "type": "object",
                "x-kubernetes-patch-strategy": "retainKeys",
                "properties": {"type": {"type": "string"}, "rolling": {"type": "object"}},
            },
            "whole": {
                "type": "object",
                "x-kubernetes-patch-strategy": "replace",
                "properties": {"a": {"type": "string"}},
            },
        },
    }
)


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"a": None, "c": "3"}}, {"labels": {"b": "2", "c": "3"}}),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        ({"finalizers": ["a", "b"]}, {"finalizers": ["c"]}, {"finalizers": ["c", "a", "b"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        (
            {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]},
            {"containers": [{"name": "b", "image": "2"}]},
            {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]},
        ),
        ({"containers": named("a")}, {"containers": named("b")}, {"containers": named("b", "a")}),
        (
            {"containers": named("a", "b")},
            {"containers": [{"$patch": "delete", "name": "a"}]},
            {"containers": named("b")},
        ),
        ({"containers": named("a")}, {"containers": [{"$patch": "replace"}, *named("c")]}, {"containers": named("c")}),
        (
            {"containers": named("a", "b")},
            {"$setElementOrder/containers": named("b", "c", "a"), "containers": named("c")},
            {"containers": named("b", "c", "a")},
        ),
        (
            {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]},
            {"containers": [{"name": "a", "env": [{"name": "X", "value": None, "valueFrom": {}}]}]},
            {"containers": [{"name": "a", "env": [{"name": "X", "valueFrom": {}}]}]},
        ),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "b": "2"}}, {"labels": {"b": "2"}}),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
        (
            {"strategy": {"type": "Rolling", "rolling": {"x": 1}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
        ),
        ({"whole": {"a": "1", "b": "2"}}, {"whole": {"a": "3"}}, {"whole": {"a": "3"}}),
        ({}, {"labels": {"a": "1", "b": None}}, {"labels": {"a": "1"}}),
        ({}, {"containers": [{"$patch": "delete", "name": "a"}, *named("b")]}, {"containers": named("b")}),
        ({"unknown": {"a": {"b": 1}}}, {"unknown": {"a": {"c": 2}}}, {"unknown": {"a": {"b": 1, "c": 2}}}),
    ],
)
def test_merging(document: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy((document, patch))
    assert strategic_merge(document, patch, SCHEMA) == expected
    assert (document, patch) == before


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"containers": [{"image": "x"}]}, "map: map[image:x] does not contain declared merge key: name"),
        ({"labels": {"$patch": "frob"}}, "unknown patch type: frob in map: map[$patch:frob]"),
        ({"containers": [{"$patch": "merge"}]}, "merging lists cannot yet be specified in the patch"),
        ({"labels": {"$retainKeys": "x"}}, "invalid patch format of retainKeys"),
        ({"labels": {"$retainKeys": ["a"], "b": "1"}}, "invalid patch format of retainKeys"),
        ({"$setElementOrder/containers": "x"}, "invalid patch format of setElementOrder list"),
        ({"$deleteFromPrimitiveList": ["x"]}, "invalid patch format of primitive list"),
        ({"finalizers": [["x"]]}, "lists of lists are not supported"),
    ],
)
def test_senseless_patches(patch: dict[str, Any], message: str) -> None:
    document = {"labels": {"a": "1"}, "containers": named("a"), "finalizers": ["a"]}
    with pytest.raises(StrategicPatchError) as caught:
        strategic_merge(document, patch, SCHEMA)
    assert str(caught.value) == message


def test_order_must_agree_with_the_patch() -> None:
    patch = {"$setElementOrder/containers": named("a", "b"), "containers": named("b", "a")}
    with pytest.raises(StrategicPatchError, match="doesn't match"):
        strategic_merge({"containers": named("a")}, patch, SCHEMA)


def test_diff_keeps_order_and_deletes() -> None:
    old = {"containers": named("a", "b"), "finalizers": ["x", "y"], "strategy": {"type": "A"}}
    new = {"containers": named("c", "a"), "finalizers": ["z", "x"], "strategy": {"rolling": {}}}
    patch = strategic_diff(old, new, SCHEMA)
    assert patch["$setElementOrder/containers"] == named("c", "a")
    assert {"$patch": "delete", "name": "b"} in patch["containers"]
    assert patch["$deleteFromPrimitiveList/finalizers"] == ["y"]
    assert patch["strategy"] == {"type": None, "rolling": {}, "$retainKeys": ["rolling"]}
    assert strategic_merge(old, patch, SCHEMA) == new
