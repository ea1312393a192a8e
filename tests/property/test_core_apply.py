"""Laws of field sets and of server-side apply."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from corral.core.patch.apply import apply, managed_fields_of, track_update
from corral.core.patch.fieldset import FieldSet, compare, difference, fields_of, intersection, paths, union
from corral.core.schema.structural import compile_resource

steps = st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"y"'])
nodes: st.SearchStrategy[FieldSet] = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(st.one_of(steps, st.just(".")), inner, min_size=1, max_size=3),
    max_leaves=10,
)


def tidy(node: FieldSet) -> FieldSet:
    children = {step: tidy(inner) for step, inner in node.items() if step != "."}
    return {".": {}, **children} if "." in node and children else children


field_sets = st.dictionaries(steps, nodes, max_size=3).map(tidy)


def members(fields: FieldSet) -> set[tuple[str, ...]]:
    return set(paths(fields))


@given(field_sets, field_sets)
def test_operations_are_those_of_sets(a: FieldSet, b: FieldSet) -> None:
    assert members(union(a, b)) == members(a) | members(b)
    assert members(difference(a, b)) == members(a) - members(b)
    assert members(intersection(a, b)) == members(a) & members(b)


@given(field_sets, field_sets, field_sets)
def test_difference_distributes(a: FieldSet, b: FieldSet, c: FieldSet) -> None:
    assert difference(a, union(b, c)) == difference(difference(a, b), c)
    assert union(difference(a, b), intersection(a, b)) == a
    assert union(a, b) == union(b, a)


SCHEMA = compile_resource(
    {
        "type": "object",
        "properties": {
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "atomic": {"type": "array", "items": {"type": "string"}},
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "string"}, "w": {"type": "string"}}},
            },
        },
    }
)  # fmt: skip
words = st.sampled_from("pqrs")
configs = st.fixed_dictionaries(
    {},
    optional={
        "map": st.dictionaries(words, words, min_size=1),
        "set": st.lists(words, unique=True, min_size=1),
        "atomic": st.lists(words, min_size=1),
        "keyed": st.lists(
            st.fixed_dictionaries({"name": words}, optional={"v": words, "w": words}),
            unique_by=lambda item: item["name"],
            min_size=1,
            max_size=4,
        ),
    },
).map(lambda body: {"apiVersion": "e/v1", "kind": "E", "metadata": {"name": "e"}, **body})
T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def body(obj: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}


@given(configs, configs, configs)
def test_apply_is_idempotent(first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]) -> None:
    live = apply(None, first, SCHEMA, manager="a", now=T0)
    live = apply(live, second, SCHEMA, manager="b", now=T0, force=True)
    once = apply(live, third, SCHEMA, manager="a", now=T0, force=True)
    assert apply(once, third, SCHEMA, manager="a", now=T1, force=True) is once
    assert apply(once, third, SCHEMA, manager="a", now=T1) is once


@given(configs, configs)
def test_a_sole_applier_gets_exactly_what_it_declares(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = apply(None, first, SCHEMA, manager="a", now=T0)
    after = apply(live, second, SCHEMA, manager="a", now=T1)
    assert fields_of(body(after), SCHEMA) == fields_of(body(second), SCHEMA)
    assert not compare(body(after), body(second), SCHEMA)


@given(configs, configs)
def test_every_field_of_an_object_that_was_only_applied_has_an_owner(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    live = apply(None, first, SCHEMA, manager="a", now=T0)
    live = apply(live, second, SCHEMA, manager="b", now=T1, force=True)
    owned: FieldSet = {}
    for entry in managed_fields_of(live):
        owned = union(owned, entry["fieldsV1"])
    assert members(fields_of(body(live), SCHEMA)) == members(owned)


@given(configs, configs, configs)
def test_each_field_an_update_changed_belongs_to_it(
    first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]
) -> None:
    live = track_update({}, first, SCHEMA, manager="a", now=T0, creating=True)
    live = track_update(live, second, SCHEMA, manager="b", now=T1)
    assume(managed_fields_of(live))
    after = track_update(live, third, SCHEMA, manager="c", now=T1)
    changes = compare(body(second), body(third), SCHEMA)
    fields = {entry["manager"]: entry["fieldsV1"] for entry in managed_fields_of(after)}
    assert members(changes.touched) <= members(fields.get("c", {}))
    for manager in ("a", "b"):
        assert not intersection(fields.get(manager, {}), changes.touched)
    present = members(compare({}, body(third), SCHEMA).touched)
    assert set().union(*map(members, fields.values())) <= present if fields else True
