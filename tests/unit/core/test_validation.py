"""Causes read as upstream's do."""

from __future__ import annotations

import pytest

from corral.core import validation
from corral.core.errors import Cause


def test_builders_render_values_as_go_does() -> None:
    assert validation.invalid("a", 'q"\n', "no").message == 'Invalid value: "q\\"\\n": no'
    assert validation.invalid("a", -1, "no").message == "Invalid value: -1: no"
    assert validation.invalid("a", 1.5, "no").message == "Invalid value: 1.5: no"
    assert validation.invalid("a", 3.0, "no").message == "Invalid value: 3: no"
    assert validation.invalid("a", True, "no").message == "Invalid value: true: no"
    assert validation.invalid("a", None, "no").message == "Invalid value: null: no"
    assert validation.invalid("a", {"x": ["<"]}, "no").message == 'Invalid value: {"x":["\\u003c"]}: no'
    assert validation.invalid("a", validation.OMIT, "no").message == "Invalid value: no"
    assert validation.required("a") == Cause("FieldValueRequired", "Required value", "a")
    assert validation.required("a", "b").message == "Required value: b"
    assert (
        validation.not_supported("a", "C", ["A", "B"]).message == 'Unsupported value: "C": supported values: "A", "B"'
    )
    assert validation.too_long("a", 5).message == "Too long: may not be more than 5 bytes"
    assert validation.too_many("a", 3, 2).message == "Too many: 3: must have at most 2 items"
    assert validation.duplicate("a[1]", "x").message == 'Duplicate value: "x"'
    assert validation.forbidden("a", "because").message == "Forbidden: because"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"), (10.0, "10"), (100000.0, "100000"), (1e6, "1e+06"), (2147483647.0, "2.147483647e+09"), (1e21, "1e+21"),
        (0.0001, "0.0001"), (1e-5, "1e-05"), (1.25e-7, "1.25e-07"), (1.5, "1.5"), (-2.5, "-2.5"), (-1e6, "-1e+06"), (0.0, "0"),
        (2147483647, "2147483647"), (12345678.9, "1.23456789e+07"),
    ],
)  # fmt: skip
def test_go_number(number: float, text: str) -> None:
    assert validation.go_number(number) == text


def test_metadata_reports_every_fault_in_order() -> None:
    metadata = {
        "name": "Bad_Name",
        "namespace": "ns",
        "labels": {"bad key!": "bad value!"},
        "annotations": {"bad key": "x"},
        "finalizers": ["nope"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "", "uid": ""}],
    }
    fields = [cause.field for cause in validation.check_metadata(metadata, namespaced=True)]
    assert fields == [
        "metadata.name",
        "metadata.labels",
        "metadata.labels",
        "metadata.annotations",
        "metadata.ownerReferences.name",
        "metadata.ownerReferences.uid",
        "metadata.finalizers[0]",
    ]


def test_metadata_needs_a_name_and_the_right_scope() -> None:
    [cause] = validation.check_metadata({"namespace": "a"}, namespaced=True)
    assert str(cause) == "metadata.name: Required value: name or generateName is required"
    [cause] = validation.check_metadata({"name": "a", "namespace": "b"}, namespaced=False)
    assert str(cause) == "metadata.namespace: Forbidden: not allowed on this type"
    assert (
        validation.check_metadata({"generateName": "job-", "name": "job-abcde", "namespace": "a"}, namespaced=True)
        == []
    )


def test_two_controllers_are_refused_with_both_names() -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "uid": "u", "controller": True}
    causes = validation.check_owner_references("o", [{**reference, "name": "a"}, {**reference, "name": "b"}])
    assert causes[0].message.endswith('Found "true" in references for ConfigMap/a and ConfigMap/b')


def test_annotations_have_a_total_size() -> None:
    [cause] = validation.check_annotations("metadata.annotations", {"a": "x" * 262144})
    assert cause.message == "Too long: may not be more than 262144 bytes"


def test_metadata_update_protects_identity_and_refuses_new_finalizers_while_deleting() -> None:
    old = {"name": "a", "uid": "1", "deletionTimestamp": "t", "finalizers": ["example.com/f"]}
    new = {**old, "uid": "2", "finalizers": ["example.com/f", "example.com/g"]}
    texts = [str(cause) for cause in validation.check_metadata_update(new, old)]
    assert texts == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/g"}',
        'metadata.uid: Invalid value: "2": field is immutable',
    ]


def test_label_selector_objects_are_checked() -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "b", "operator": "Nope"}]}
    texts = [str(cause) for cause in validation.check_label_selector("spec.selector", selector)]
    assert texts == [
        "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        'spec.selector.matchExpressions[1].operator: Invalid value: "Nope": not a valid selector operator',
    ]


def test_field_manager_is_short_and_printable() -> None:
    assert validation.check_field_manager("fieldManager", "kubectl") == []
    [cause] = validation.check_field_manager("fieldManager", "x" * 129)
    assert cause.message == "Too long: may not be more than 128 bytes"
    [cause] = validation.check_field_manager("fieldManager", "a\n")
    assert cause.message == 'Invalid value: "a\\n": invalid character U+000A (at position 1)'
