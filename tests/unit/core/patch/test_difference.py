"""A patch made of two documents turns the one into the other."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.patch import json as patches
from corral.core.patch.difference import json_patch_between

CASES: list[tuple[Any, Any, int]] = [
    ({"a": 1}, {"a": 1}, 0),
    ({}, {"spec": {"suspend": True}}, 1),
    ({"spec": {"suspend": False, "x": [1]}}, {"spec": {"suspend": True, "x": [1]}}, 1),
    ({"metadata": {"labels": {"a/b": "1", "c~d": "2"}}}, {"metadata": {"labels": {"a/b": "2"}}}, 2),
    ({"n": 1}, {"n": True}, 1),
    ({"list": [{"a": 1}]}, {"list": [{"a": 2}, {}]}, 1),
    ({"gone": None, "kept": {}}, {"kept": {}}, 1),
]


@pytest.mark.parametrize(("old", "new", "operations"), CASES)
def test_a_patch_leads_from_one_document_to_the_other(old: Any, new: Any, operations: int) -> None:
    patch = json_patch_between(old, new)
    assert len(patch) == operations
    made = patches.json_patch(old, patch)
    assert repr(sorted(made.items())) == repr(sorted(new.items()))
