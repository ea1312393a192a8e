"""JSON patch and merge patch follow their RFCs and never touch what they are given."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from corral.core.patch.json import PatchError, PatchTestFailed, json_patch, merge_diff, merge_patch

DOCUMENT = {"a": 1, "list": [1, 2, 3], "nested": {"x": {"y": "z"}}, "a/b": 1, "m~n": 2, "": 3}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/b", "value": 2}, {"b": 2}),
        ({"op": "add", "path": "/a", "value": None}, {"a": None}),
        ({"op": "add", "path": "/list/1", "value": 9}, {"list": [1, 9, 2, 3]}),
        ({"op": "add", "path": "/list/-", "value": 9}, {"list": [1, 2, 3, 9]}),
        ({"op": "add", "path": "/list/3", "value": 9}, {"list": [1, 2, 3, 9]}),
        ({"op": "replace", "path": "/nested/x/y", "value": 1}, {"nested": {"x": {"y": 1}}}),
        ({"op": "replace", "path": "/a~1b", "value": 5}, {"a/b": 5}),
        ({"op": "replace", "path": "/m~0n", "value": 5}, {"m~n": 5}),
        ({"op": "replace", "path": "/", "value": 5}, {"": 5}),
        ({"op": "remove", "path": "/list/0"}, {"list": [2, 3]}),
        ({"op": "move", "from": "/a", "path": "/list/0"}, {"a": KeyError, "list": [1, 1, 2, 3]}),
        ({"op": "move", "from": "/list/0", "path": "/list/2"}, {"list": [2, 3, 1]}),
        ({"op": "copy", "from": "/nested/x", "path": "/copied"}, {"copied": {"y": "z"}}),
        ({"op": "test", "path": "/list", "value": [1, 2.0, 3]}, {}),
        ({"op": "test", "path": "/nope", "value": None}, {}),
    ],
)
def test_operations(operation: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy(DOCUMENT)
    result = json_patch(DOCUMENT, [operation])
    wanted = {key: value for key, value in {**DOCUMENT, **expected}.items() if value is not KeyError}
    assert result == wanted
    assert before == DOCUMENT


def test_replacing_what_is_not_there_adds_it_as_a_real_server_does() -> None:
    assert json_patch({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}]) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "frob", "path": "/a", "value": 1},
        {"op": "add", "path": "/nope/x", "value": 1},
        {"op": "add", "path": "/list/4", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "add", "path": "/b"},
        {"op": "add", "path": "b", "value": 1},
        {"op": "add", "path": "/b~2", "value": 1},
        {"op": "add", "value": 1},
        {"op": "replace", "path": "/nope/deeper", "value": 1},
        {"op": "remove", "path": "/nope"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/list/-"},
        {"op": "remove", "path": "/a/b"},
        {"op": "move", "from": "/nested", "path": "/nested/x/q"},
        {"op": "copy", "from": "/nope", "path": "/b"},
        "not an object",
    ],
)
def test_bad_operations_are_refused(operation: Any) -> None:
    with pytest.raises(PatchError):
        json_patch(DOCUMENT, [operation])


def test_a_failed_test_is_told_apart() -> None:
    with pytest.raises(PatchTestFailed):
        json_patch(DOCUMENT, [{"op": "test", "path": "/a", "value": True}])


def test_copies_cannot_blow_up_a_document() -> None:
    operations = [{"op": "copy", "from": "", "path": "/x"}] * 200
    with pytest.raises(PatchError, match="too large"):
        json_patch({"a": list(range(100))}, operations)
    with pytest.raises(PatchError, match="maximum operations"):
        json_patch({}, [{"op": "test", "path": "", "value": {}}] * 10001)


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        # The examples of RFC 7386, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(document: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(document)
    assert merge_patch(document, patch) == expected
    assert document == before


def test_a_merge_that_changes_nothing_returns_the_same_object() -> None:
    document = {"a": {"b": [1, {"c": 2}]}, "d": 1}
    assert merge_patch(document, {"a": {"b": [1, {"c": 2}], "x": None}, "d": 1}) is document
    changed = merge_patch(document, {"d": 2})
    assert changed["a"] is document["a"]
    assert merge_patch({"a": 1}, {"a": True})["a"] is True


def test_merge_diff() -> None:
    old = {"a": 1, "b": {"c": 1, "d": 2}, "e": [1]}
    new = {"b": {"c": 1, "d": 3}, "e": [1, 2], "f": {}}
    assert merge_diff(old, new) == {"a": None, "b": {"d": 3}, "e": [1, 2], "f": {}}
    assert merge_diff(old, old) == {}
