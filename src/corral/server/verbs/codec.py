"""What an object of one kind and version must look like: reading it in, filling in defaults, checking it.

Kubernetes' own kinds are read as their Go types, custom kinds through their structural schema. Reading makes a private
copy, so what a caller passed in is never touched and later steps may work in place.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast
from weakref import WeakKeyDictionary

import msgspec

from corral.core.errors import BadRequest, Cause
from corral.core.meta import Obj
from corral.core.schema.gate import gate_of
from corral.core.schema.prune import unknown_fields as pruned_fields
from corral.core.schema.resource import ResourceSchema
from corral.core.schema.structural import Schema, compile_schema
from corral.core.validation import invalid
from corral.kinds.machinery.decoding import DecodeError, Decoder, decoder_of, unknown_fields
from corral.kinds.machinery.definition import KindDef, ScalePaths, VersionDef
from corral.kinds.machinery.gotypes import fields_of
from corral.server.content.go_json_errors import read_float, type_name

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(float_hook=read_float).decode
_METADATA = "meta/v1.ObjectMeta"
_compiled: WeakKeyDictionary[VersionDef, ResourceSchema] = WeakKeyDictionary()
"""Schemas once compiled. Clusters simulated in one process share them, as they share the kinds that Corral ships."""


def private_copy(obj: Any) -> Any:
    """A deep copy of a JSON-shaped value."""
    return _decode(_encode(obj))


class Shape:
    """The form of one kind in one version."""

    def __init__(self, kind: KindDef, version: VersionDef):
        self.kind = kind
        self.version = version
        self._go_type = _go_type(version.definition) if kind.builtin else ""
        self._decoder: Decoder = decoder_of(self._go_type or _METADATA)
        self._metadata_decoder: Decoder = decoder_of(_METADATA)
        self._status_decoder = _status_decoder(self._go_type)
        self._clean_status: Obj | None = None
        """The last status that was read and fits the schema beyond doubt."""
        self._empty: Obj | None = None

    @cached_property
    def schema(self) -> ResourceSchema:
        """The compiled schema, for whoever merges, validates or owns fields; compiled when first asked for."""
        found = _compiled.get(self.version)
        if found is None:
            raw = self.version.schema
            found = ResourceSchema(compile_schema(raw)) if self.kind.builtin else ResourceSchema.custom(raw)
            _compiled[self.version] = found
        return found

    @property
    def empty(self) -> Obj:
        """An object of this kind in which nothing was said; what a typed struct always has counts as nothing."""
        if self._empty is None:
            self._empty = {**self._decoder({}, []), "metadata": {}} if self._go_type else {"metadata": {}}
        return self._empty

    def read(self, obj: Obj, *, owned: bool = False) -> tuple[Obj, list[str]]:
        """A private canonical copy of `obj`, and what was wrong with it that need not stop it (unknown fields).
        An `owned` object is the caller's to give away and may be used as it is."""
        met: list[bool] = []
        try:
            if self._go_type:
                result: Obj = self._decoder(obj, met)
                complaints = unknown_fields(self._go_type, obj) if met else []
            else:
                result = obj if owned else private_copy(obj)
                metadata = result.get("metadata")
                if not isinstance(metadata, dict | None):
                    why = f"json: cannot unmarshal {type_name(metadata)} into Go value of type v1.ObjectMeta"
                    raise self.unreadable(why)
                metadata = metadata or {}
                result["metadata"] = self._decoder(metadata, met)
                complaints = [f"metadata.{path}" for path in sorted(unknown_fields(_METADATA, metadata))] if met else []
                if "embedded" in self.schema.root.reaches:
                    self._check_embedded(result, self.schema.root, "")
                result, unknown = self._clean(result)
                complaints = sorted(unknown + complaints)
        except DecodeError as error:
            raise self.unreadable(str(error)) from None
        return result, [f'unknown field "{path}"' for path in complaints]

    def read_status(self, obj: Obj, old: Obj, *, owned: bool = False) -> Obj | None:
        """The metadata and a private status of a change of `old` when nothing about them needs a closer look."""
        status, metadata, met = obj.get("status"), obj.get("metadata"), list[bool]()
        if not isinstance(status, dict) or not isinstance(metadata, dict):
            return None
        try:
            if self._status_decoder is not None:
                status = self._status_decoder(status, met)
            elif not self._is_clean_status(status):
                return None
            else:
                status = self._clean_status = status if owned else private_copy(status)
            found = {"metadata": self._read_metadata(metadata, old["metadata"], met), "status": status}
        except DecodeError:
            return None
        return None if met else found

    def _is_clean_status(self, status: Obj) -> bool:
        schema = self.schema.root.properties.get("status")
        return schema is not None and gate_of(schema, strict=True).passes(status)

    def _read_metadata(self, metadata: Obj, old: Obj, met: list[bool]) -> Obj:
        """Metadata read as far as it is not that of the stored object, which has been read before."""
        fresh = {field: value for field, value in metadata.items() if value is not old.get(field)}
        known = {field: value for field, value in metadata.items() if field not in fresh}
        return {**known, **self._metadata_decoder(fresh, met)} if fresh else known

    def _check_embedded(self, value: Any, schema: Schema, path: str) -> None:
        """Refuse objects inside this one whose metadata cannot be read."""
        if "embedded" not in schema.reaches:
            return
        if isinstance(value, list) and schema.items is not None:
            for position, item in enumerate(value):
                self._check_embedded(item, schema.items, f"{path}[{position}]")
        if not isinstance(value, dict):
            return
        if schema.embedded and value.get("metadata") is not None:
            self._check_metadata(value["metadata"], f"{path}.metadata")
        for name, item in value.items():
            field = schema.properties.get(name)
            if field is not None:
                self._check_embedded(item, field, f"{path}.{name}" if path else name)
            elif schema.additional is not None:
                self._check_embedded(item, schema.additional, f"{path}[{name}]")

    def _check_metadata(self, metadata: Any, path: str) -> None:
        try:
            if not isinstance(metadata, dict):
                found = type_name(metadata)
                raise self.unreadable(
                    str(invalid(path, metadata, f"json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"))
                )
            self._decoder(metadata, [])
        except DecodeError as error:
            raise self.unreadable(str(invalid(path, metadata, str(error)))) from None

    def _clean(self, obj: Obj) -> tuple[Obj, list[str]]:
        """`obj` with defaults and without unknown fields, and what these were. Most objects only lack defaults."""
        schema = self.schema
        if schema.is_clean(obj):
            return obj, []
        for fill in (schema.fill, schema.apply_defaults):
            filled = fill(obj)
            if filled is not obj and schema.is_clean(filled):
                return filled, []
        return schema.apply_defaults(schema.prune(obj)), pruned_fields(obj, schema.root)

    def default(self, obj: Obj) -> None:
        """Fill in, in place, the defaults a schema cannot say."""
        try:
            self.kind.default(obj)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Something is not what the schema says, and the schema says so better; if it does not, nobody can use it.
            if self._go_type or not self.schema.validate(obj):
                raise self.unreadable(str(error)) from error

    def default_status(self, obj: Obj) -> None:
        """The same where only the status is new."""
        self.kind.default_status(obj)

    def check(self, obj: Obj) -> list[Cause]:
        """What is wrong with a new object, after its metadata."""
        causes = [] if self._go_type else check_scale(obj, self.version.scale) + self.schema.validate(obj)
        return causes or self.kind.validate(obj)

    def check_update(self, obj: Obj, old: Obj) -> list[Cause]:
        """What is wrong with a changed object, after its metadata."""
        causes = [] if self._go_type else check_scale(obj, self.version.scale) + self.schema.validate(obj, old)
        return causes or self.kind.validate_update(obj, old)

    def check_status(self, obj: Obj, old: Obj) -> list[Cause]:
        """What is wrong with a changed status."""
        clean = obj.get("status") is self._clean_status
        causes = [] if self._go_type else self.schema.validate_status(obj, old, clean=clean)
        return causes or self.kind.validate_status(obj, old)

    def unreadable(self, why: str) -> BadRequest:
        kind = self.kind.kind
        return BadRequest(f'{kind} in version "{self.version.name}" cannot be handled as a {kind}: {why}')


def check_scale(obj: Obj, scale: ScalePaths | None) -> list[Cause]:
    """What is wrong with the replica count that the scale subresource of a custom kind would show."""
    if scale is None:
        return []
    path, value = scale.spec_replicas, cast(Any, obj)
    for field in path.strip(".").split("."):
        if not isinstance(value, dict):
            why = f"{_go_shown(value)}, expected map[string]interface{{}}"
            return [invalid(path, 0, f"{path} accessor error: {why}")]
        value = value.get(field)
        if value is None:
            return []
    if type(value) is not int:
        return [invalid(path, 0, f"{path} accessor error: {_go_shown(value)}, expected int64")]
    return [invalid(path, value, "should be a non-negative integer")] if value < 0 else []


def _go_shown(value: Any) -> str:
    names = {str: "string", bool: "bool", float: "float64", list: "[]interface {}", int: "int64"}
    kind = names.get(type(value), "map[string]interface {}")
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{shown} is of the type {kind}"


def _go_type(definition: str) -> str:
    """`io.k8s.api.batch.v1.Job` is the Go type `batch/v1.Job`."""
    *_, group, version, name = definition.split(".")
    return f"{group}/{version}.{name}"


def _status_decoder(go_type: str) -> Decoder | None:
    """What reads the status of a typed object; None where there is no type or no status."""
    fields = fields_of(go_type) if go_type else ()
    return next((decoder_of(field.type) for field in fields if field.json_name == "status"), None)


class Shapes:
    """Shapes by kind and version, made when first needed."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], Shape] = {}

    def of(self, kind: KindDef, version: VersionDef) -> Shape:
        shape = self._made.get((id(kind), version.name))
        if shape is None or shape.kind is not kind:
            shape = self._made[id(kind), version.name] = Shape(kind, version)
        return shape
