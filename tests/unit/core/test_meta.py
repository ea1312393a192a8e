"""Helpers of metadata build new objects and leave the old alone."""

from __future__ import annotations

import copy

from corral.core import meta

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "1"}, "finalizers": ["x"]},
}


def test_changes_build_new_objects_and_leave_the_old_alone() -> None:
    before = copy.deepcopy(POD)
    changed = meta.with_labels(
        meta.without_finalizer(meta.with_annotations(POD, {"k": "v"}), "x"), {"a": None, "b": "2"}
    )
    assert before == POD
    assert changed["metadata"] == {
        "name": "p", "namespace": "n", "uid": "u", "labels": {"b": "2"}, "annotations": {"k": "v"}
    }  # fmt: skip


def test_an_owner_reference_names_its_owner_and_is_found_again() -> None:
    child = meta.with_metadata({"metadata": {"name": "c"}}, ownerReferences=[meta.owner_ref(POD)])
    assert meta.controller_of(child) == {
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True, "blockOwnerDeletion": True
    }  # fmt: skip
    assert meta.is_owned_by(child, "u")
