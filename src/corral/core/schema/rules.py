"""Validation rules: the CEL expressions of `x-kubernetes-validations`.

A rule sees its value as `self`, and on updates what it replaces as `oldSelf`. Rules that mention `oldSelf` (transition
rules) only run when there is an old value, unless `optionalOldSelf` asks for an optional one. A fault of any other rule
is forgiven while its value stays as it was. Programs are compiled when first needed and kept with the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from corral.core import validation
from corral.core.cel import CelError, Program, compile_expression
from corral.core.cel.cost import ObjectBudget
from corral.core.cel.values import NONE, some
from corral.core.errors import Cause
from corral.core.schema.structural import RawSchema, Schema

NOT_CHECKED: Final = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)
OUT_OF_BUDGET: Final = Cause(
    "FieldValueInvalid",
    "Invalid value: null: validation failed due to running out of cost budget, no further validation rules will be run",
    "<nil>",
)
_BLOCKING: Final = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)


def is_blocked_by(causes: Sequence[Cause]) -> bool:
    """True when schema errors leave values in a shape that rules need not understand."""
    return any(cause.reason in _BLOCKING for cause in causes)


def check_rules(value: Any, schema: Schema, old: Any = None, path: str = "") -> list[Cause]:
    """What the rules of `schema` and everything below say about `value`, which replaces `old`."""
    causes: list[Cause] = []
    budget = ObjectBudget()
    _walk(value, old, schema, path, causes, budget, unchanged=False)
    if budget.is_spent:
        causes.append(OUT_OF_BUDGET)
    return causes


class Rule:
    """One compiled rule."""

    __slots__ = ("error", "is_transition", "message", "message_program", "optional_old", "path", "program", "raw")

    def __init__(self, raw: RawSchema, schema: Schema) -> None:
        self.raw = raw
        self.optional_old = bool(raw.get("optionalOldSelf"))
        self.path = str(raw.get("fieldPath") or "").removeprefix(".")
        self.program: Program | None = None
        self.message_program: Program | None = None
        self.error = ""
        source = str(raw.get("rule") or "").strip()
        self.message = str(raw.get("message") or "").strip()
        variables: dict[str, Schema | None] = {"self": schema, "oldSelf": None if self.optional_old else schema}
        try:
            self.program = compile_expression(source, variables)
            expression = str(raw.get("messageExpression") or "").strip()
            self.message_program = compile_expression(expression, variables) if expression else None
        except CelError as error:
            self.error = f"compilation failed: ERROR: <input>: {error}"
        self.is_transition = self.program is not None and "oldSelf" in self.program.variables

    @property
    def title(self) -> str:
        """What an evaluation error calls the rule."""
        return self.message or str(self.raw.get("rule") or "").strip()

    def text(self, value: Any, old: Any) -> str:
        """What a failed rule says."""
        if self.message_program is not None:
            try:
                text = self.message_program.evaluate(value, old)
            except CelError:
                text = ""
            if isinstance(text, str) and text.strip() and "\n" not in text.strip():
                return text.strip()
        return self.message or f"failed rule: {str(self.raw.get('rule') or '').strip()}"


def _rules_of(schema: Schema) -> list[Rule]:
    rules: list[Rule] | None = schema.memo.get("rules")
    if rules is None:
        rules = schema.memo["rules"] = [Rule(raw, schema) for raw in schema.rules]
    return rules


def _walk(
    value: Any, old: Any, schema: Schema, path: str, causes: list[Cause], budget: ObjectBudget, *, unchanged: bool
) -> None:
    if value is None or budget.is_spent:
        return
    if old is not None:
        unchanged = value is old or value == old
    if unchanged and "transition" not in schema.reaches:
        return
    if schema.rules:
        _check(value, old, schema, path, causes, budget, unchanged=unchanged)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            field = schema.properties.get(name)
            if field is not None:
                if "rules" in field.reaches:
                    here = f"{path}.{name}" if path else name
                    _walk(item, before.get(name), field, here, causes, budget, unchanged=unchanged)
            elif schema.additional is not None and "rules" in schema.additional.reaches:
                _walk(item, before.get(name), schema.additional, f"{path}[{name}]", causes, budget, unchanged=unchanged)
    elif isinstance(value, list) and schema.items is not None and "rules" in schema.items.reaches:
        find = _correlation(schema, old)
        for position, item in enumerate(value):
            _walk(item, find(item), schema.items, f"{path}[{position}]", causes, budget, unchanged=unchanged)


def _correlation(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """Which old element an element replaces: known only for lists with keys."""
    if schema.merge != "keyed" or not isinstance(old, list):
        return lambda item: None
    keys = schema.list_keys
    known = {str([item.get(key) for key in keys]): item for item in old if isinstance(item, dict)}
    return lambda item: known.get(str([item.get(key) for key in keys])) if isinstance(item, dict) else None


def _check(
    value: Any, old: Any, schema: Schema, path: str, causes: list[Cause], budget: ObjectBudget, *, unchanged: bool
) -> None:
    field = path or "<nil>"
    for rule in _rules_of(schema):
        if budget.is_spent:
            return
        if rule.program is None:
            causes.append(validation.invalid(field, schema.type, f"rule compile error: {rule.error}"))
            continue
        if rule.is_transition:
            if old is None and not rule.optional_old:
                continue
        elif unchanged:
            continue
        before = (NONE if old is None else some(old)) if rule.optional_old else old
        try:
            passed = rule.program.evaluate(value, before, budget=budget)
        except CelError as error:
            causes.append(validation.invalid(field, schema.type, _failure(str(error), rule.title)))
            continue
        if passed is not True:
            where = f"{path}.{rule.path}" if path and rule.path else path or rule.path or "<nil>"
            causes.append(_cause(where, schema.type, rule.text(value, before), str(rule.raw.get("reason") or "")))


def _failure(error: str, title: str) -> str:
    if error.startswith("no such overload"):
        return f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: {title}"
    if error.startswith("operation cancelled"):
        return f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {title}"
    return f"{error} evaluating rule: {title}"


def _cause(field: str, type_name: str, text: str, reason: str) -> Cause:
    if reason == "FieldValueForbidden":
        return validation.forbidden(field, text)
    if reason == "FieldValueRequired":
        return validation.required(field, text)
    if reason == "FieldValueDuplicate":
        return validation.duplicate(field, type_name)
    return validation.invalid(field, type_name, text)
