"""Patching: the four ways to change part of an object.

A patch is a function from the stored object to the wanted one. It is applied to the latest version, and again to a
later one when somebody else was faster, unless the patch itself names the version it is meant for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from corral.core import errors
from corral.core.errors import ApiError, BadRequest, Cause, Invalid, UnsupportedMediaType
from corral.core.meta import Obj
from corral.core.patch.json import PatchError, json_patch, merge_patch
from corral.core.patch.strategic import StrategicPatchError, strategic_merge
from corral.core.schema.structural import ANYTHING
from corral.core.validation import go_quote
from corral.server.content.go_json_errors import type_name
from corral.server.verbs import intake
from corral.server.verbs.create_update import Writer
from corral.server.verbs.intake import Writing
from corral.server.verbs.scale import scale_of, scaled
from corral.store import Stale, Store, Stored

ATTEMPTS = 20
Change = Callable[[Obj], Any]


class Patcher:
    """JSON, merge and strategic merge patches over one store."""

    def __init__(self, store: Store, writer: Writer):
        self._store = store
        self._writer = writer

    async def patch(self, writing: Writing, patch_type: str, patch: Any) -> Stored:
        change, steps = _change(writing, patch_type, patch), self._writer.steps
        writing = writing.repeatable()._replace(patched=True)
        for _ in range(ATTEMPTS):
            current = self._store.head(writing.key)
            if current is None:
                await self._store.settled()
                raise errors.not_found(writing.served.resource, writing.name)
            if writing.served.needs_webhook:
                await writing.served.prepare(current)
            writing = steps.weighed(writing, current)
            seen = writing.served.view(current)
            try:
                changed = await steps.do(writing, _changed, writing, seen.obj, _base(writing, seen), change)
                return await self._writer.replace(writing, current, changed)
            except Stale:
                continue
        await self._store.settled()
        raise errors.conflict(writing.served.resource, writing.name)


def _base(writing: Writing, seen: Stored) -> Obj:
    """What a patch is applied to: the object, or the scale it shows."""
    if writing.subresource != "scale":
        return seen.obj
    assert writing.served.version.scale is not None
    return scale_of(seen, writing.served.version.scale)


def _changed(writing: Writing, old: Obj, base: Obj, change: Change) -> Obj:
    """The object that a change of `base` makes of `old`."""
    patched = change(base)
    if writing.subresource == "scale" and isinstance(patched, dict):
        assert writing.served.version.scale is not None
        try:
            patched = scaled(writing, old, writing.served.version.scale, patched)
        except BadRequest as error:
            if "cannot be handled" not in error.message:
                raise
            raise _bad_patch(patched, error.message.partition(": ")[2]) from None
    if not isinstance(patched, dict):
        raise _unprocessable()
    obj = read_patched(writing, patched)
    intake.check_name(writing, obj["metadata"])
    intake.namespace_of_new(writing, obj["metadata"])
    return obj


def _change(writing: Writing, patch_type: str, patch: Any) -> Change:
    if patch_type == "json":
        return lambda old: _json(old, patch)
    if not isinstance(patch, dict):
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {type_name(patch)} into Go value of type map[string]interface {{}}"
        )
    if patch_type == "merge":
        return lambda old: merge_patch(old, patch)
    if not writing.served.kind.builtin and writing.subresource != "scale":
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        )
    return lambda old: _strategic(writing, old, patch)


def _json(old: Obj, patch: Any) -> Any:
    if not isinstance(patch, list):
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {type_name(patch)} into Go value of type jsonpatch.Patch"
        )
    try:
        return json_patch(old, patch)
    except PatchError:
        raise _unprocessable() from None


def _strategic(writing: Writing, old: Obj, patch: Obj) -> Obj:
    schema = ANYTHING if writing.subresource == "scale" else writing.shape.schema.root
    try:
        return strategic_merge(old, patch, schema)
    except StrategicPatchError as error:
        raise ApiError(str(error), code=500, reason="") from None


def _unprocessable() -> Invalid:
    return Invalid("the server rejected our request due to an error in our request", details={})


def read_patched(writing: Writing, patched: Obj) -> Obj:
    """The private, defaulted object a patch makes; what cannot be read is the patch's fault."""
    options, shape = writing.options, writing.shape
    for field in ("apiVersion", "kind"):
        if not isinstance(patched.get(field), str | None):
            found = type_name(patched[field])
            why = f"json: cannot unmarshal {found} into Go struct field .{field} of type string"
            raise _bad_patch(patched, f"couldn't get version/kind; json parse error: {why}")
    intake.check_kind(writing, patched)
    try:
        obj, complaints = shape.read(patched)
    except BadRequest as error:
        raise _bad_patch(patched, error.message.partition(": ")[2]) from None
    complaints += options.complaints
    if complaints and options.field_validation != "Ignore":
        if options.field_validation == "Strict":
            raise _bad_patch(patched, intake.strict_error(complaints))
        for complaint in complaints:
            options.warn(complaint)
    return intake.complete(writing, obj)


def _bad_patch(patched: Obj, why: str) -> Invalid:
    shown = msgspec.json.encode({field: patched[field] for field in sorted(patched)}).decode()
    cause = Cause("FieldValueInvalid", f"Invalid value: {go_quote(shown)}: {why}", "patch")
    details = {"causes": [cause.as_dict()]}
    return Invalid(f' "" is invalid: {cause}', details=details)
