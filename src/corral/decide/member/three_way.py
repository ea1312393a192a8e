"""Client-side apply: the patch that brings a live object to its manifest and removes what an earlier manifest had set."""

from __future__ import annotations

from typing import Literal, NamedTuple

from corral.core.meta import Obj
from corral.core.patch.json import merge_diff, merge_patch
from corral.core.patch.strategic import strategic_diff, strategic_merge
from corral.core.schema.structural import Schema


class ThreeWayPatch(NamedTuple):
    """`body` is {} when the object already is as it should be."""

    kind: Literal["strategic", "merge"]
    body: Obj


def three_way(original: Obj, modified: Obj, current: Obj, schema: Schema | None = None) -> ThreeWayPatch:
    """The patch from `current` to `modified`, given that `original` was applied before.

    `schema` is that of one of Kubernetes' own kinds, which merge lists by key; others have none and replace them. Fields
    that neither manifest names stay as they are."""
    if schema is None:
        wanted = merge_patch(merge_patch(current, merge_diff(original, modified)), modified)
        return ThreeWayPatch("merge", merge_diff(current, wanted))
    without_old = strategic_merge(current, strategic_diff(original, modified, schema), schema)
    wanted = strategic_merge(without_old, modified, schema)
    return ThreeWayPatch("strategic", strategic_diff(current, wanted, schema))
