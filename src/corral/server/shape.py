"""What an object of one kind and version must look like: reading it in, filling in defaults, checking it.

Kubernetes' own kinds are read as their Go types, custom kinds through their structural schema. Reading always makes a
private copy, so what a caller passed in is never touched and later steps may work in place.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from corral.core.errors import BadRequest, Cause
from corral.core.meta import Obj
from corral.core.schema.structural import Schema, compile_schema
from corral.kinds.decoding import DecodeError, decoder_of, unknown_fields
from corral.kinds.definition import KindDef, VersionDef

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def private_copy(obj: Any) -> Any:
    """A deep copy of a JSON-shaped value."""
    return _decode(_encode(obj))


def _go_type(definition: str) -> str:
    """`io.k8s.api.batch.v1.Job` is the Go type `batch/v1.Job`."""
    *_, group, version, name = definition.split(".")
    return f"{group}/{version}.{name}"


class Shape:
    """The form of one kind in one version."""

    def __init__(self, kind: KindDef, version: VersionDef):
        self.kind = kind
        self.version = version
        self.go_type = _go_type(version.definition) if kind.builtin else ""

    @cached_property
    def schema(self) -> Schema:
        return compile_schema(self.version.schema)

    def read(self, obj: Obj) -> tuple[Obj, list[str]]:
        """A private canonical copy of `obj`, and what was wrong with it that need not stop it (unknown fields)."""
        if self.go_type:
            met: list[bool] = []
            try:
                result: Obj = decoder_of(self.go_type)(obj, met)
            except DecodeError as error:
                raise self.unreadable(str(error)) from None
            unknown = sorted(unknown_fields(self.go_type, obj)) if met else []
            return result, [f'unknown field "{path}"' for path in unknown]
        return private_copy(obj), []

    def default(self, obj: Obj) -> None:
        """Fill in defaults in place."""
        self.kind.default(obj)

    def check(self, obj: Obj) -> list[Cause]:
        """What is wrong with a new object, after its metadata."""
        return self.kind.validate(obj)

    def check_update(self, obj: Obj, old: Obj) -> list[Cause]:
        """What is wrong with a changed object, after its metadata."""
        return self.kind.validate_update(obj, old)

    def check_status(self, obj: Obj, old: Obj) -> list[Cause]:
        """What is wrong with a changed status."""
        return self.kind.validate_status(obj, old)

    def unreadable(self, why: str) -> BadRequest:
        kind = self.kind.kind
        return BadRequest(f'{kind} in version "{self.version.name}" cannot be handled as a {kind}: {why}')


class Shapes:
    """Shapes by kind and version, made when first needed."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], Shape] = {}

    def of(self, kind: KindDef, version: VersionDef) -> Shape:
        shape = self._made.get((id(kind), version.name))
        if shape is None or shape.kind is not kind:
            shape = self._made[id(kind), version.name] = Shape(kind, version)
        return shape
