"""Differences between a manifest and the live object: their order, their paths, how values are printed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.meta import Obj
from corral.core.patch.json import json_equal, json_patch
from corral.decide.member.compare import compare, differences, trimmed

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "b/c", "d~e"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "c/d", "e~f"]), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c/d", "e~f"]), VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_differences_lead_from_one_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    steps = [difference.operation for difference in differences(old, new)]
    assert json_equal(json_patch(old, steps), new)


@given(OBJECTS)
def test_nothing_differs_from_itself(value: dict[str, Any]) -> None:
    assert differences(value, value) == []


def test_paths_are_in_order_and_escaped_and_values_as_go_prints_them() -> None:
    old = {"kind": "X", "spec": {"gone": {"a": 1}, "list": [1, 2, 3], "same": 1, "text": "hub"}}
    new = {"kind": "X", "spec": {"list": [1, 5], "new/key": [True, None], "same": 1, "text": "member"}}
    assert compare(old, new) == [
        {"path": "/spec/gone", "valueInHub": "map[a:1]"},
        {"path": "/spec/list/2", "valueInHub": "3"},
        {"path": "/spec/list/1", "valueInHub": "2", "valueInMember": "5"},
        {"path": "/spec/new~1key", "valueInMember": "[true <nil>]"},
        {"path": "/spec/text", "valueInHub": "hub", "valueInMember": "member"},
    ]


def test_what_clusters_write_is_not_compared() -> None:
    obj = {
        "metadata": {
            "name": "x",
            "namespace": "y",
            "uid": "u",
            "resourceVersion": "1",
            "generation": 3,
            "managedFields": [],
            "ownerReferences": [],
            "finalizers": ["f"],
            "labels": {"app": "a", "kubernetes.io/metadata.name": "y"},
            "annotations": {"kueue.x-k8s.io/queue-name": "q", "kubernetes-fleet.io/spec-hash": "h"},
        },
        "spec": {
            "template": {"metadata": {"creationTimestamp": None, "labels": {"batch.kubernetes.io/job-name": "x"}}}
        },
        "status": {"phase": "Active"},
    }
    assert trimmed(obj) == {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"template": {"metadata": {"labels": {"batch.kubernetes.io/job-name": "x"}}}},
    }


def test_a_template_can_be_shown_as_old_api_servers_stored_it() -> None:
    obj = {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    assert compare(obj, obj) == []
    assert compare(obj, obj, null_timestamps=True) == [
        {"path": "/spec/template/metadata/creationTimestamp", "valueInMember": "<nil>"}
    ]


def test_at_most_a_hundred_are_listed() -> None:
    assert len(compare({"data": {}}, {"data": {str(number): "x" for number in range(200)}})) == 100


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_a_label_or_annotation_is_named_also_where_the_other_side_has_none(part: str) -> None:
    bare: Obj = {"metadata": {"name": "x"}}
    noted: Obj = {"metadata": {"name": "x", part: {"foo": "bar", "kubernetes.io/metadata.name": "x"}}}
    assert compare(bare, noted) == [{"path": f"/metadata/{part}/foo", "valueInMember": "bar"}]
    assert compare(noted, bare) == [{"path": f"/metadata/{part}/foo", "valueInHub": "bar"}]
    assert compare({"data": {}}, noted) == [
        {"path": "/data", "valueInHub": "map[]"},
        {"path": f"/metadata/{part}/foo", "valueInMember": "bar"},
    ]
