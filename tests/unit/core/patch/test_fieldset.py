"""Field sets combine as sets, whatever their tree looks like."""

from __future__ import annotations

import pytest

from corral.core.patch import fieldset
from corral.core.patch.fieldset import (
    FieldSetError,
    compare,
    contains,
    difference,
    fields_of,
    intersection,
    path_text,
    paths,
    union,
)
from corral.core.schema.structural import compile_schema

SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "data": {"type": "object", "additionalProperties": {"type": "string"}},
            "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "list": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {
                    "type": "object",
                    "properties": {
                        "port": {"type": "integer"},
                        "protocol": {"type": "string", "default": "TCP"},
                        "name": {"type": "string"},
                    },
                },
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
)


def test_members_and_ways() -> None:
    fields = {"f:a": {".": {}, "f:b": {}}, "f:c": {"f:d": {}}}
    assert contains(fields, ("f:a",))
    assert contains(fields, ("f:a", "f:b"))
    assert not contains(fields, ("f:c",))
    assert not contains(fields, ("f:x",))
    assert list(paths(fields)) == [("f:a",), ("f:a", "f:b"), ("f:c", "f:d")]


def test_operations() -> None:
    a = {"f:a": {".": {}, "f:b": {}}, "f:c": {}}
    b = {"f:a": {"f:b": {}, "f:x": {}}}
    assert union(a, b) == {"f:a": {".": {}, "f:b": {}, "f:x": {}}, "f:c": {}}
    assert difference(a, b) == {"f:a": {}, "f:c": {}}
    assert intersection(a, b) == {"f:a": {"f:b": {}}}
    assert union({"f:a": {}}, {"f:a": {"f:b": {}}}) == {"f:a": {".": {}, "f:b": {}}}
    assert difference({"f:a": {".": {}, "f:b": {}}}, {"f:a": {}}) == {"f:a": {"f:b": {}}}
    assert difference(a, a) == {}


def test_unchanged_sets_are_returned_as_they_are() -> None:
    a = {"f:a": {"f:b": {}}}
    assert difference(a, {"f:x": {}}) is a
    assert difference(a, {"f:a": {"f:x": {}}}) is a
    assert union(a, {"f:a": {"f:b": {}}}) is a


def test_fields_of_a_value() -> None:
    value = {
        "data": {"a": "1"},
        "atomic": {"x": "1"},
        "list": ["a"],
        "set": ["a", "b"],
        "ports": [{"port": 80, "name": "web"}],
        "free": {"a": {"b": [1]}},
    }
    assert fields_of(value, SCHEMA) == {
        "f:data": {"f:a": {}},
        "f:atomic": {},
        "f:list": {},
        "f:set": {'v:"a"': {}, 'v:"b"': {}},
        "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}},
        "f:free": {"f:a": {"f:b": {}}},
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"bogus": 1}, ".bogus: field not declared in schema"),
        ({"ports": [{"port": 1}, {"port": 1}]}, '.ports: duplicate entries for key [port=1,protocol="TCP"]'),
        ({"ports": [{"port": 1, "x": 1}]}, '.ports[port=1,protocol="TCP"].x: field not declared in schema'),
        ({"set": ["a", "a"]}, '.set: duplicate entries for set element ["a"]'),
        ({"ports": {}}, ".ports: expected list, got {}"),
        ({"data": [1]}, ".data: expected map, got [1]"),
    ],
)
def test_malformed_values(value: dict[str, object], message: str) -> None:
    with pytest.raises(FieldSetError) as caught:
        fields_of(value, SCHEMA)
    assert str(caught.value) == message


def test_comparison_names_what_was_touched_and_what_is_gone() -> None:
    old = {
        "data": {"a": "1", "b": "2"},
        "set": ["a"],
        "list": ["x"],
        "ports": [{"port": 1, "protocol": "TCP", "name": "n"}],
    }
    new = {
        "data": {"a": "2", "c": "3"},
        "set": ["b"],
        "list": ["y"],
        "ports": [{"port": 1, "protocol": "TCP"}],
        "free": {},
    }
    changes = compare(old, new, SCHEMA)
    assert changes.touched == {"f:data": {"f:a": {}, "f:c": {}}, "f:set": {'v:"b"': {}}, "f:list": {}, "f:free": {}}
    assert changes.removed == {
        "f:data": {"f:b": {}},
        "f:set": {'v:"a"': {}},
        "f:ports": {'k:{"port":1,"protocol":"TCP"}': {"f:name": {}}},
    }
    assert not compare(old, old, SCHEMA)


def test_new_containers_are_touched_themselves() -> None:
    assert compare({}, {"data": {"a": "1"}}, SCHEMA).touched == {"f:data": {".": {}, "f:a": {}}}
    assert compare({"data": None}, {"data": {"a": "1"}}, SCHEMA).touched == {"f:data": {"f:a": {}}}
    assert compare({"data": {"a": "1"}}, {}, SCHEMA).removed == {"f:data": {".": {}, "f:a": {}}}


def test_path_text() -> None:
    path = ("f:spec", 'k:{"name":"c","port":80}', "f:image")
    assert path_text(path) == '.spec[name="c",port=80].image'
    assert path_text(("f:set", 'v:"x"')) == '.set["x"]'
    assert fieldset.path_text(("f:list", "i:0")) == ".list[0]"
