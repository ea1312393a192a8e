"""Bodies of requests: media types, kinds, duplicate fields, YAML."""

from __future__ import annotations

import json

import pytest

from corral.core.errors import BadRequest, UnsupportedMediaType
from corral.core.resource import Resource
from corral.server.content import bodies

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def test_objects_get_their_kind_from_the_endpoint() -> None:
    assert bodies.decode_object(b'{"data":{}}', "", CONFIG_MAPS) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {},
    }
    assert bodies.decode_object(b"data: {a: 2026-01-01}", "application/yaml", CONFIG_MAPS)["data"] == {
        "a": "2026-01-01"
    }


@pytest.mark.parametrize("body", [b"[]", b"1", b'"x"', b"{", b'{"kind":1}'])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="the object provided is unrecognized"):
        bodies.decode_object(body, "application/json", CONFIG_MAPS)


def test_unknown_media_types_are_refused() -> None:
    with pytest.raises(UnsupportedMediaType):
        bodies.decode_object(b"{}", "text/plain", CONFIG_MAPS)


def test_duplicate_fields_are_found() -> None:
    body = b'{"data":{"a":"1","a":"2"},"x":[{"y":1,"y":2}]}'
    assert bodies.duplicates(body, json.loads(body)) == ["data.a", "x[0].y"]
    twice = b'{"data":{"a":"1","a":"2"},"metadata":{"labels":{"x":"1"},"labels":{}}}'
    assert bodies.duplicates(twice, json.loads(twice)) == ["data.a", "metadata.labels"]
    clean = b'{"data" : {"a\\"b": "1"}, "more": {"b": 2}}'
    assert bodies.duplicates(clean, json.loads(clean)) == []


@pytest.mark.parametrize(
    "text",
    [b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (98 + i, 98 + i, 97 + i, 97 + i) for i in range(24)),
     b"a: &a [*a]", b"- " * 2000, b"[" * 2000 + b"]" * 2000],
    ids=["billion laughs", "an alias of itself", "nested items", "nested flow"],
)  # fmt: skip
def test_yaml_that_explodes_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"yaml|YAML"):
        bodies.decode_yaml(text)


def test_json_is_read_as_yaml_without_the_yaml_parser() -> None:
    assert bodies.decode_yaml(b'{"a": "2026-01-01", "b": 1.5}') == {"a": "2026-01-01", "b": 1.5}
    assert bodies.decode_yaml(b"{a: 1}") == {"a": 1}
    assert bodies.decode_yaml(b"2: x\ntrue: y") == {"2": "x", "true": "y"}
