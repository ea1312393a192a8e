"""Laws of structural schemas: the gate never waves through what the walker would refuse, and cleaning settles."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from corral.core.schema.defaults import apply_defaults
from corral.core.schema.gate import gate_of
from corral.core.schema.prune import prune, unknown_fields
from corral.core.schema.resource import ResourceSchema
from corral.core.schema.validate import validate

SCHEMA = ResourceSchema.custom(
    {
        "type": "object",
        "properties": {
            "int": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 5, "default": 1},
            "num": {"type": "number", "multipleOf": 0.5},
            "str": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-c]*$"},
            "enum": {"type": "string", "enum": ["a", "b"], "nullable": True},
            "ios": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"},
            "when": {"type": "string", "format": "date-time"},
            "set": {"type": "array", "maxItems": 3, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "map": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer", "nullable": True}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"n": {"type": "integer"}}},
            "obj": {
                "type": "object",
                "required": ["r"],
                "properties": {"r": {"type": "boolean"}, "d": {"type": "object", "default": {"x": 1}, "properties": {"x": {"type": "integer"}}}},
                "not": {"required": ["forbidden"]},
            },
            "list": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"d": {"type": "integer", "default": 2}}}},
        },
    }
)  # fmt: skip
words = st.one_of(
    st.text("abcd%1", max_size=4), st.sampled_from(["2024-02-30T00:00:00Z", "2024-01-01T00:00:00Z", "5%"])
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-1, 7), st.floats(-1, 7, allow_nan=False), words)
keys = st.sampled_from([*SCHEMA.root.properties, "r", "d", "n", "forbidden", "unknown"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=8,
)
likely = st.fixed_dictionaries(
    {},
    optional={
        "int": st.integers(-1, 7), "num": st.sampled_from([1, 1.5, 0.25]), "str": words, "enum": st.sampled_from(["a", "c", None]),
        "ios": st.sampled_from([5, "5%", "x", 1.5, True]), "when": words, "set": st.lists(st.sampled_from("ab"), max_size=4),
        "map": st.dictionaries(st.sampled_from("ab"), st.sampled_from([1, None, "x"])), "free": st.dictionaries(keys, scalars),
        "obj": st.dictionaries(keys, st.sampled_from([True, {}, 1])), "list": st.lists(st.dictionaries(keys, scalars, max_size=2), max_size=2),
        "unknown": scalars,
    },
)  # fmt: skip
objects = st.one_of(likely, st.dictionaries(keys, values, max_size=4))


@given(objects)
def test_the_gate_is_never_more_lenient_than_the_walker(obj: dict[str, Any]) -> None:
    if gate_of(SCHEMA.root, strict=False).passes(obj):
        assert validate(obj, SCHEMA.root) == []


@given(objects)
def test_whatever_passes_the_strict_gate_is_clean_and_valid(obj: dict[str, Any]) -> None:
    if SCHEMA.is_clean(obj):
        assert SCHEMA.prune(obj) is obj
        assert SCHEMA.apply_defaults(obj) is obj
        assert unknown_fields(obj, SCHEMA.root) == []


@given(objects)
def test_cleaning_settles_and_touches_nothing_given(obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)
    cleaned = SCHEMA.clean(obj)
    assert obj == before
    assert SCHEMA.clean(cleaned) is cleaned or SCHEMA.clean(cleaned) == cleaned
    assert unknown_fields(cleaned, SCHEMA.root) == []


@given(objects)
def test_the_short_way_to_defaults_agrees_with_the_long_one(obj: dict[str, Any]) -> None:
    assert SCHEMA.apply_defaults(obj) == apply_defaults(obj, SCHEMA.root)
    assert SCHEMA.clean(obj) == apply_defaults(prune(obj, SCHEMA.root), SCHEMA.root)


@given(objects)
def test_an_unchanged_object_is_always_valid_as_an_update(obj: dict[str, Any]) -> None:
    named = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    assert SCHEMA.validate(named, copy.deepcopy(named)) == []
