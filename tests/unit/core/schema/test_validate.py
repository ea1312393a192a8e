"""Structural schemas prune, default and complain as CustomResourceDefinitions do."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.schema.formats import find_check
from corral.core.schema.gate import gate_of
from corral.core.schema.prune import unknown_fields
from corral.core.schema.resource import ResourceSchema
from corral.core.schema.structural import OBJECT_META, compile_schema
from corral.core.schema.validate import validate

WIDGET = ResourceSchema.custom(
    {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "maximum": 10, "format": "int32"},
                    "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
                    "name": {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$", "nullable": True},
                    "tags": {
                        "type": "array",
                        "maxItems": 2,
                        "items": {"type": "string"},
                        "x-kubernetes-list-type": "set",
                    },
                    "ports": {
                        "type": "array",
                        "minItems": 1,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["number", "protocol"],
                        "items": {
                            "type": "object",
                            "required": ["number"],
                            "properties": {
                                "number": {"type": "integer", "minimum": 1},
                                "protocol": {"type": "string", "default": "TCP"},
                            },
                        },
                    },
                    "share": {"x-kubernetes-int-or-string": True},
                    "when": {"type": "string", "format": "date-time"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "labels": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
                    "nested": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 1}}},
                    "choice": {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]},
                    "embedded": {"type": "object", "x-kubernetes-embedded-resource": True},
                },
            },
            "status": {
                "type": "object",
                "properties": {"reason": {"type": "string", "minLength": 1}, "count": {"type": "integer"}},
            },
        },
    }
)


def widget(**spec: Any) -> dict[str, Any]:
    filled = {"mode": "A", "nested": {"x": 1}, **spec}
    return {"apiVersion": "errs.example/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": filled}


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({}, ["spec.size: Required value"]),
        ({"size": "big"}, ['spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"']),
        ({"size": None}, ['spec.size: Invalid value: "null": spec.size in body must be of type integer: "null"']),
        ({"size": 11}, ["spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"]),
        ({"size": 1, "mode": "C"}, ['spec.mode: Unsupported value: "C": supported values: "A", "B"']),
        ({"size": 1, "name": "toolong"}, ["spec.name: Too long: may not be more than 5 bytes"]),
        ({"size": 1, "name": "A"}, ["spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'"]),
        ({"size": 1, "name": "a\n"}, ["spec.name: Invalid value: \"a\\n\": spec.name in body should match '^[a-z]+$'"]),
        ({"size": 1, "tags": ["x", "x"]}, ['spec.tags[1]: Duplicate value: "x"']),
        ({"size": 1, "tags": ["x", "y", "z"]}, ["spec.tags: Too many: 3: must have at most 2 items"]),
        ({"size": 1, "ports": []}, ["spec.ports: Invalid value: 0: spec.ports in body should have at least 1 items"]),
        (
            {"size": 1, "ports": [{"number": 1, "protocol": "TCP"}, {"number": 1, "protocol": "TCP"}]},
            ['spec.ports[1]: Duplicate value: {"number":1,"protocol":"TCP"}'],
        ),
        ({"size": 1, "share": True}, ['spec.share: Invalid value: "boolean": spec.share in body must be of type integer,string: "boolean"']),
        ({"size": 1, "when": "now"}, ['spec.when: Invalid value: "now": spec.when in body must be of type date-time: "now"']),
        ({"size": 1, "when": {}}, ['spec.when: Invalid value: "": spec.when in body must be of type date-time: ""']),
        ({"size": 1, "labels": {"a": "1", "b": "2"}}, ["spec.labels: Too many: 2: must have at most 1 item"]),
        (
            {"size": 1, "choice": 3},
            [
                '<nil>: Invalid value: "": "spec.choice" must validate at least one schema (anyOf)',
                "spec.choice: Invalid value: 3: spec.choice in body should be greater than or equal to 5",
            ],
        ),
        ({"size": 1, "embedded": {"kind": "X"}}, ["spec.embedded.apiVersion: Required value"]),
        ({"size": 1.0, "name": None, "share": "5%", "when": "2024-02-29T00:00:00Z", "free": {"x": [1]}}, []),
        ({"size": 1, "embedded": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}}}, []),
    ],
)  # fmt: skip
def test_causes(spec: dict[str, Any], texts: list[str]) -> None:
    obj = widget(**spec)
    assert [str(cause) for cause in WIDGET.validate(obj)] == texts
    assert [str(cause) for cause in validate(obj, WIDGET.root)] == texts


def test_the_gate_agrees_that_a_good_object_is_good() -> None:
    obj = widget(size=1, tags=["a", "b"], ports=[{"number": 1, "protocol": "TCP"}])
    assert gate_of(WIDGET.root, strict=False).passes(obj)
    assert WIDGET.is_clean(obj)
    assert WIDGET.clean(obj) is obj


def test_status_causes_name_fields_relative_to_the_status() -> None:
    old = widget(size=1)
    new = {**old, "status": {"reason": "", "count": "x"}}
    assert [str(cause) for cause in WIDGET.validate_status(new, old)] == [
        'status.count: Invalid value: "string": count in body must be of type integer: "string"',
        'status.reason: Invalid value: "": reason in body should be at least 1 chars long',
    ]


def test_unchanged_faults_are_forgiven() -> None:
    bad = widget(size=11, ports=[{"number": 0, "protocol": "TCP"}])
    changed = widget(size=11, ports=[{"number": 5, "protocol": "UDP"}, {"number": 0, "protocol": "TCP"}], name="ok")
    assert WIDGET.validate(bad)
    assert WIDGET.validate(changed, bad) == []
    assert [str(cause) for cause in WIDGET.validate(widget(size=12), bad)] == [
        "spec.size: Invalid value: 12: spec.size in body should be less than or equal to 10"
    ]


def test_pruning_drops_and_lists_unknown_fields() -> None:
    obj = widget(size=1, bogus=1, free={"any": {"thing": 1}}, ports=[{"number": 1, "protocol": "TCP", "x": 1}])
    obj["extra"] = {}
    assert unknown_fields(obj, WIDGET.root) == ["spec.bogus", "spec.ports[0].x", "extra"]
    pruned = WIDGET.prune(obj)
    assert pruned == widget(size=1, free={"any": {"thing": 1}}, ports=[{"number": 1, "protocol": "TCP"}])
    assert pruned["spec"]["free"] is obj["spec"]["free"]
    assert WIDGET.prune(pruned) is pruned
    assert obj["spec"]["bogus"] == 1


def test_defaults_are_filled_in_and_stray_nulls_dropped() -> None:
    obj = {**widget(), "spec": {"size": 1, "mode": None, "tags": None, "name": None, "ports": [{"number": 1}]}}
    filled = WIDGET.apply_defaults(obj)
    assert filled["spec"] == {
        "size": 1,
        "mode": "A",
        "name": None,
        "ports": [{"number": 1, "protocol": "TCP"}],
        "nested": {"x": 1},
    }
    assert WIDGET.apply_defaults(filled) is filled
    assert WIDGET.apply_defaults({"kind": "Widget"}) == {"kind": "Widget"}
    filled["spec"]["nested"]["x"] = 5
    assert WIDGET.apply_defaults({"spec": {}})["spec"]["nested"] == {"x": 1}


def test_metadata_is_always_known_and_names_can_be_limited() -> None:
    schema = ResourceSchema.custom(
        {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}},
        }
    )
    obj = {"kind": "X", "metadata": {"name": "long", "labels": {"a": "b"}, "bogus": 1}}
    assert unknown_fields(obj, schema.root) == ["metadata.bogus"]
    assert [str(cause) for cause in schema.validate(obj)] == ["metadata.name: Too long: may not be more than 3 bytes"]


def test_references_and_cycles() -> None:
    definitions = {
        "a.Tree": {
            "type": "object",
            "properties": {
                "children": {"type": "array", "items": {"$ref": "#/$defs/a.Tree"}},
                "left": {"$ref": "#/$defs/a.Tree", "description": "itself", "x-kubernetes-patch-strategy": "replace"},
            },
        }
    }
    tree = compile_schema({"$ref": "#/$defs/a.Tree"}, definitions)
    assert tree.properties["children"].items is tree
    assert tree.properties["left"].patch_strategies == {"replace"}
    assert gate_of(tree, strict=True).passes({"children": [{"left": {"children": []}}]})
    assert not gate_of(tree, strict=True).passes({"children": [{"bogus": 1}]})
    shared: dict[str, Any] = {"type": "object", "properties": {}}
    shared["properties"]["self"] = shared
    assert compile_schema(shared).properties["self"].properties["self"].type == "object"


def test_merge_kinds() -> None:
    properties = OBJECT_META.properties
    assert properties["labels"].merge == "map"
    assert properties["finalizers"].merge == "set"
    assert properties["ownerReferences"].merge == "keyed"
    assert properties["ownerReferences"].items is not None
    assert properties["ownerReferences"].items.merge == "atomic"
    assert properties["managedFields"].merge == "atomic"
    assert properties["name"].merge == "scalar"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("ipv4", "10.0.0.1", "10.0.0"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("uuid", "f3766e39-510f-42d9-913b-aac1a3582f59", "f3766e39"),
        ("byte", "aGk=", "a"),
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-02-29T10:00:00+02:00", "2024-02-29 10:00"),
        ("duration", "1h30m", "1 fortnight"),
        ("duration", "22 ns", ""),
        ("hostname", "a.example", "-"),
        ("uri", "https://example.com/x", "example"),
        ("email", "a@b", "a"),
        ("mac", "00:00:5e:00:53:01", "00:00"),
        ("hexcolor", "#fff", "#ggg"),
        ("rgbcolor", "rgb(1,2,3)", "rgb(1)"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    check = find_check(name)
    assert check is not None
    assert check(good)
    assert not check(bad)


def test_unknown_formats_are_not_checked() -> None:
    assert find_check("int32") is None
    assert find_check("frobnicate") is None
