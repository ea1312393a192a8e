"""The fast gate: one call into jsonschema-rs that says "nothing to complain about" in a few microseconds.

A gate is stricter than the walkers or equal to them, never more lenient: what passes needs no walk, what does not pass
is walked, and the walk decides and words the answer. `strict` gates also refuse unknown fields and values that
defaulting would touch, so that for most writes pruning and defaulting are skipped as well.
"""

from __future__ import annotations

from typing import Any, Final

import jsonschema_rs

from corral.core.regex import RegexError, search, to_rust
from corral.core.schema.formats import FORMATS
from corral.core.schema.structural import NO_DEFAULT, Schema

_COPIED: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "multipleOf")
_LIMITS: Final = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
LARGEST_FLOAT: Final = 3.4028234663852886e38  # of 32 bits
INTEGER_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


class Gate:
    """Answers whether a value is beyond doubt."""

    __slots__ = ("_validator",)

    def __init__(self, schema: Schema, *, strict: bool) -> None:
        self._validator: jsonschema_rs.Draft202012Validator | None = None
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                _Translator(strict=strict).document(schema),
                formats=FORMATS,
                validate_formats=True,
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except jsonschema_rs.ValidationError:
            # A schema the engine cannot read has no fast path; the walker reads it.
            return

    def passes(self, value: Any) -> bool:
        """True when `value` is certainly fine; False means: look closer."""
        if self._validator is None:
            return False
        try:
            passed: bool = self._validator.is_valid(value)
        except ValueError:
            # What Rust cannot represent (an integer beyond 64 bits, half a surrogate pair) is for the walker to judge.
            return False
        return passed


def gate_of(schema: Schema, *, strict: bool) -> Gate:
    """The gate of `schema`, made when first asked for."""
    name = "strict-gate" if strict else "gate"
    gate = schema.memo.get(name)
    if gate is None:
        gate = schema.memo[name] = Gate(schema, strict=strict)
    assert isinstance(gate, Gate)
    return gate


class _Translator:
    """Turns compiled nodes into a JSON Schema document; nodes with members become shared definitions."""

    def __init__(self, *, strict: bool, prefix: str = "n", definitions: dict[str, Any] | None = None) -> None:
        self.strict = strict
        self.prefix = prefix
        self.names: dict[int, str] = {}
        self.definitions: dict[str, Any] = {} if definitions is None else definitions

    def document(self, schema: Schema) -> dict[str, Any]:
        body = self.translate(schema)
        return {**body, "$defs": self.definitions}

    def translate(self, schema: Schema) -> dict[str, Any]:
        if not schema.properties:
            return self.body(schema)
        name = self.names.get(id(schema))
        if name is None:
            name = self.names[id(schema)] = f"{self.prefix}{len(self.names)}"
            self.definitions[name] = {}
            self.definitions[name].update(self.body(schema))
        return {"$ref": f"#/$defs/{name}"}

    def body(self, schema: Schema) -> dict[str, Any]:
        raw = schema.raw
        result: dict[str, Any] = {word: raw[word] for word in _COPIED if raw.get(word) is not None}
        for limit, exclusive in _LIMITS:
            if raw.get(limit) is not None:
                result[exclusive if raw.get(exclusive) else limit] = raw[limit]
        if schema.hint == "quantity":
            return {"type": ["string", "number"]}
        self._types(schema, result)
        if raw.get("enum"):
            result["enum"] = [*raw["enum"], None] if schema.nullable and not self.strict else raw["enum"]
        if raw.get("pattern"):
            result["pattern"] = _pattern(raw["pattern"])
        if raw.get("format"):
            result["format"] = str(raw["format"]).replace("-", "")
        self._members(schema, result)
        self._elements(schema, result)
        for word, branches in schema.combinators.items():
            # A branch only adds conditions: that it does not list a field does not make the field unknown.
            parts = [self._branch().translate(branch) for branch in branches]
            result[word] = parts[0] if word == "not" else parts
        return result

    def _branch(self) -> _Translator:
        if not self.strict:
            return self
        return _Translator(strict=False, prefix=f"b{len(self.definitions)}_", definitions=self.definitions)

    def _types(self, schema: Schema, result: dict[str, Any]) -> None:
        types = ["integer", "string"] if schema.int_or_string else [schema.type] if schema.type else []
        if types and schema.nullable and not self.strict:
            types.append("null")
        if types:
            result["type"] = types if len(types) > 1 else types[0]
        if schema.type == "integer" or schema.int_or_string:
            low, high = INTEGER_RANGES.get(str(schema.raw.get("format")), INTEGER_RANGES["int64"])
            result.setdefault("minimum", low)
            result.setdefault("maximum", high)
        elif schema.type == "number" and schema.raw.get("format") == "float":
            result.setdefault("minimum", -LARGEST_FLOAT)
            result.setdefault("maximum", LARGEST_FLOAT)

    def _members(self, schema: Schema, result: dict[str, Any]) -> None:
        required = list(schema.required)
        if schema.properties:
            result["properties"] = {name: self.translate(field) for name, field in schema.properties.items()}
            if self.strict:
                required += [name for name, field in schema.properties.items() if field.default is not NO_DEFAULT]
        if schema.embedded:
            required += ["apiVersion", "kind"]
        if required:
            result["required"] = sorted(set(required))
        if schema.additional is not None:
            result["additionalProperties"] = self.translate(schema.additional)
        elif self.strict and not schema.preserve and not schema.is_open and schema.type in ("object", ""):
            result["additionalProperties"] = False

    def _elements(self, schema: Schema, result: dict[str, Any]) -> None:
        if schema.items is not None:
            result["items"] = self.translate(schema.items)
        if schema.type == "array" and (schema.list_type == "set" or schema.raw.get("uniqueItems")):
            result["uniqueItems"] = True


def _pattern(pattern: str) -> str:
    try:
        search(pattern, "")
    except RegexError:
        return "[^\\s\\S]"  # matches nothing: every value goes to the walker
    return to_rust(pattern)
