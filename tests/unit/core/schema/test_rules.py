"""Validation rules answer as a real API server does on the real Kueue definitions."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.schema.resource import ResourceSchema


def resource(spec: dict[str, Any], **root: Any) -> ResourceSchema:
    return ResourceSchema.custom({"type": "object", "properties": {"spec": spec}, **root})


def rule(expression: str, **more: Any) -> list[dict[str, Any]]:
    return [{"rule": expression, **more}]


def causes(schema: ResourceSchema, spec: Any, old: Any = None) -> list[str]:
    meta = {"apiVersion": "e/v1", "kind": "E", "metadata": {"name": "a"}}
    before = {**meta, "spec": old} if old is not None else None
    return [str(cause) for cause in schema.validate({**meta, "spec": spec}, before)]


WIDGET = resource(
    {
        "type": "object",
        "required": ["size"],
        "properties": {"size": {"type": "integer", "maximum": 10}, "mode": {"type": "string"}},
        "x-kubernetes-validations": rule("!has(self.mode) || self.mode != 'B' || self.size > 5", message="mode B needs size over 5"),
    }
)  # fmt: skip


def test_a_failed_rule_names_the_type_of_its_value() -> None:
    assert causes(WIDGET, {"size": 2, "mode": "B"}) == ['spec: Invalid value: "object": mode B needs size over 5']
    assert causes(WIDGET, {"size": 6, "mode": "B"}) == []


def test_rules_wait_until_the_shape_is_right() -> None:
    assert causes(WIDGET, {}) == [
        "spec.size: Required value",
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation",
    ]
    assert causes(WIDGET, {"size": 11, "mode": "B"}) == [
        "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"
    ]


def test_an_error_says_which_rule() -> None:
    schema = resource(
        {
            "type": "object",
            "properties": {"nodeLabels": {"type": "object", "additionalProperties": {"type": "string"}}, "topologyName": {"type": "string"}},
            "x-kubernetes-validations": rule(
                "!has(self.topologyName) || self.nodeLabels.size() >= 1",
                message="at least one nodeLabel is required when topology is set",
            ),
        }
    )  # fmt: skip
    assert causes(schema, {"topologyName": "t"}) == [
        'spec: Invalid value: "object": no such key: nodeLabels evaluating rule: '
        "at least one nodeLabel is required when topology is set"
    ]


def test_transition_rules_only_run_on_updates() -> None:
    schema = resource({"type": "object", "properties": {"queue": {"type": "string", "x-kubernetes-validations": rule("self == oldSelf", message="field is immutable")}}})  # fmt: skip
    assert causes(schema, {"queue": "a"}) == []
    assert causes(schema, {"queue": "a"}, {"queue": "a"}) == []
    assert causes(schema, {"queue": "b"}, {"queue": "a"}) == ['spec.queue: Invalid value: "string": field is immutable']
    assert causes(schema, {"queue": "b"}, {}) == []


def test_optional_old_self() -> None:
    schema = resource(
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True,
         "x-kubernetes-validations": rule("oldSelf.hasValue() || self.size == 1", optionalOldSelf=True, message="starts at 1")}
    )  # fmt: skip
    assert causes(schema, {"size": 2}) == ['spec: Invalid value: "object": starts at 1']
    assert causes(schema, {"size": 2}, {"size": 1}) == []


def test_unchanged_faults_are_forgiven() -> None:
    items = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "v": {"type": "integer", "x-kubernetes-validations": rule("self < 5", message="small")}},
    }  # fmt: skip
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": items}
    schema = resource({"type": "object", "properties": {"items": keyed}})
    old = {"items": [{"name": "a", "v": 9}]}
    assert causes(schema, old) == ['spec.items[0].v: Invalid value: "integer": small']
    assert causes(schema, {"items": [{"name": "b", "v": 1}, {"name": "a", "v": 9}]}, old) == []
    assert causes(schema, {"items": [{"name": "b", "v": 1}, {"name": "a", "v": 8}]}, old) == [
        'spec.items[1].v: Invalid value: "integer": small'
    ]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, 'spec: Invalid value: "object": failed rule: self.size > 5'),
        ({"messageExpression": "'size is ' + string(self.size)"}, 'spec: Invalid value: "object": size is 1'),
        ({"messageExpression": "self.nope", "message": "m"}, 'spec: Invalid value: "object": m'),
        ({"message": "m", "reason": "FieldValueForbidden"}, "spec: Forbidden: m"),
        ({"message": "m", "reason": "FieldValueRequired", "fieldPath": ".size"}, "spec.size: Required value: m"),
        ({"message": "m", "reason": "FieldValueDuplicate"}, 'spec: Duplicate value: "object"'),
    ],
)
def test_messages_reasons_and_paths(more: dict[str, Any], text: str) -> None:
    schema = resource({"type": "object", "properties": {"size": {"type": "integer"}}, "x-kubernetes-validations": rule("self.size > 5", **more)})  # fmt: skip
    assert causes(schema, {"size": 1}) == [text]


def test_rules_of_the_whole_object_and_of_map_values() -> None:
    values = {"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": rule("self > 0", message="positive")}}  # fmt: skip
    schema = resource({"type": "object", "properties": {"map": values}}, **{"x-kubernetes-validations": rule("self.metadata.name != 'bad'", message="no")})  # fmt: skip
    assert causes(schema, {"map": {"k": 0}}) == ['spec.map[k]: Invalid value: "integer": positive']
    bad = {"metadata": {"name": "bad"}, "spec": {}}
    assert [str(cause) for cause in schema.validate(bad)] == ['<nil>: Invalid value: "object": no']


def test_status_writes_check_rules_on_the_whole_object() -> None:
    schema = ResourceSchema.custom(
        {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "x-kubernetes-validations": rule("false", message="never")},
                "status": {"type": "object", "properties": {"n": {"type": "integer", "x-kubernetes-validations": rule("self >= oldSelf", message="grows")}}},
            },
        }
    )  # fmt: skip
    old = {"kind": "E", "spec": {}, "status": {"n": 2}}
    assert schema.validate_status({**old, "status": {"n": 3}}, old) == []
    assert [str(cause) for cause in schema.validate_status({**old, "status": {"n": 1}}, old)] == [
        'status.n: Invalid value: "integer": grows'
    ]


def test_a_broken_rule_is_reported_once_for_an_object() -> None:
    schema = resource({"type": "object", "x-kubernetes-validations": rule("self.nope(")})
    [broken] = causes(schema, {})
    assert broken.startswith('spec: Invalid value: "object": rule compile error: compilation failed')
