"""Laws of patches: a diff applied gives the new value, and the reference library agrees with us."""

from __future__ import annotations

from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from corral.core.patch.json import json_equal, json_patch, merge_diff, merge_patch
from corral.core.patch.strategic import strategic_diff, strategic_merge
from corral.core.schema.structural import compile_schema

names = st.sampled_from(["a", "b", "c", "x/y", "t~u", ""])
scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.text("ab", max_size=2))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
objects = st.dictionaries(names, values, max_size=5)


@given(objects, objects)
def test_merging_the_difference_gives_the_new_object(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert json_equal(merge_patch(old, merge_diff(old, new)), new)


@given(objects, objects)
def test_merging_twice_is_merging_once(document: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) is once


@given(objects, objects)
def test_the_reference_library_and_ours_read_a_json_patch_alike(old: dict[str, Any], new: dict[str, Any]) -> None:
    operations = jsonpatch.make_patch(old, new).patch
    assert json_equal(json_patch(old, operations), jsonpatch.apply_patch(old, operations))


SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "string"}},
            "atomic": {"type": "array", "items": {"type": "string"}},
            "keyed": {
                "type": "array",
                "x-kubernetes-patch-strategy": "merge,retainKeys",
                "x-kubernetes-patch-merge-key": "name",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "inner": {
                            "type": "array",
                            "x-kubernetes-patch-strategy": "merge",
                            "x-kubernetes-patch-merge-key": "port",
                            "items": {"type": "object", "properties": {"port": {"type": "integer"}}},
                        },
                    },
                },
            },
        },
    }
)
words = st.sampled_from("pqrs")
inner = st.lists(st.fixed_dictionaries({"port": st.integers(1, 4)}, optional={"v": words}),
                 unique_by=lambda item: item["port"], max_size=4)  # fmt: skip
typed_objects = st.fixed_dictionaries(
    {},
    optional={
        "map": st.dictionaries(words, words),
        "set": st.lists(words, unique=True),
        "atomic": st.lists(words),
        "keyed": st.lists(
            st.fixed_dictionaries({"name": words}, optional={"inner": inner, "v": words, "w": words}),
            unique_by=lambda item: item["name"],
            max_size=4,
        ),
    },
)


@given(typed_objects, typed_objects)
def test_strategically_merging_the_difference_gives_the_new_object(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert strategic_merge(old, strategic_diff(old, new, SCHEMA), SCHEMA) == new


@given(typed_objects, typed_objects)
def test_a_strategic_merge_is_idempotent_as_a_set(document: dict[str, Any], patch: dict[str, Any]) -> None:
    once = strategic_merge(document, patch, SCHEMA)
    assert strategic_merge(once, patch, SCHEMA) == once
