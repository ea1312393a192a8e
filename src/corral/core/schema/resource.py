"""What the API server asks of a kind's schema, in one place and on the fast path first.

A write goes `clean` (prune, fill in defaults), then `validate`. For most writes a single call into the strict gate shows
that both have nothing to do. `unknown_fields` serves strict field validation, and the compiled `root` is what patches
and server-side apply read.
"""

from __future__ import annotations

from typing import Any

from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.schema.defaults import apply_defaults, fill
from corral.core.schema.gate import gate_of
from corral.core.schema.prune import prune
from corral.core.schema.structural import RawSchema, Schema, compile_resource
from corral.core.schema.validate import ABSENT, check_embedded, check_uniqueness, validate


class ResourceSchema:
    """The compiled schema of one version of one kind."""

    def __init__(self, root: Schema) -> None:
        self.root = root

    @classmethod
    def custom(cls, raw: RawSchema) -> ResourceSchema:
        """The schema of a custom resource, as its definition gives it."""
        return cls(compile_resource(raw))

    def is_clean(self, obj: Obj) -> bool:
        """True when nothing would be pruned or filled in and the schema has no complaint but perhaps repeated keys."""
        return gate_of(self.root, strict=True).passes(obj)

    def clean(self, obj: Obj) -> Obj:
        """`obj` without unknown fields and with defaults; the same object when there is nothing to do."""
        if self.is_clean(obj):
            return obj
        filled: Obj = fill(obj, self.root)
        if self.is_clean(filled):
            return filled
        cleaned: Obj = apply_defaults(prune(obj, self.root), self.root)
        return cleaned

    def prune(self, obj: Obj) -> Obj:
        pruned: Obj = prune(obj, self.root)
        return pruned

    def fill(self, obj: Obj) -> Obj:
        """`obj` with defaults filled in, which is enough where nothing is null."""
        filled: Obj = fill(obj, self.root)
        return filled

    def apply_defaults(self, obj: Obj) -> Obj:
        """`obj` with defaults filled in and stray nulls dropped."""
        filled: Obj = apply_defaults(obj, self.root)
        return filled

    def validate(self, obj: Obj, old: Obj | None = None) -> list[Cause]:
        """Everything wrong with `obj` as a new object, or as a change of `old`."""
        return self._validate_part(obj, old, self.root, "", obj, old)

    def validate_status(self, obj: Obj, old: Obj, *, clean: bool = False) -> list[Cause]:
        """Everything wrong with a write to the status subresource: the status, and rules that see all of `obj`. A `clean`
        status has passed its strict gate."""
        status = self.root.properties.get("status")
        if status is None or obj.get("status") is None:
            return self._check_rules(obj, old, [])
        return self._validate_part(obj["status"], old.get("status"), status, "status", obj, old, clean=clean)

    def _validate_part(
        self, value: Any, before: Any, schema: Schema, path: str, obj: Obj, old: Obj | None, *, clean: bool = False
    ) -> list[Cause]:
        known = ABSENT if before is None else before
        if value is known:
            causes: list[Cause] = []
        elif clean or gate_of(schema, strict=False).passes(value):
            causes = check_embedded(value, schema, path) + check_uniqueness(value, schema, path, known)
        else:
            causes = validate(value, schema, known, path)
        return self._check_rules(obj, old, causes)

    def _check_rules(self, obj: Obj, old: Obj | None, causes: list[Cause]) -> list[Cause]:
        if "rules" not in self.root.reaches:
            return causes
        from corral.core.schema import rules  # the CEL compiler is loaded only where there are rules

        if rules.is_blocked_by(causes):
            return [*causes, rules.NOT_CHECKED]
        return causes + rules.check_rules(obj, self.root, old)
