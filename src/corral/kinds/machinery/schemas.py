"""Schemas: reading Kubernetes' own, and words to write new ones in.

Kubernetes' schemas are generated files, one per API package, read when first asked for. `kubernetes(name)` resolves
all references, so that whoever walks a schema never meets a `$ref`; sub-schemas are shared, not copied (and
JSONSchemaProps, which contains itself, is the one cycle). `structural(name)` is the dialect a CRD may contain.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from corral.kinds.machinery.definition import Schema as Schema  # part of this module

RELEASE = "1.34"

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
JSON_VALUES = (_APIEXTENSIONS + "JSON", RAW_EXTENSION)

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


# Kubernetes' own schemas


def package_of(name: str) -> str:
    """The file a definition lives in: everything before its last dot."""
    return name.rpartition(".")[0]


@cache
def load_package(package: str, *, described: bool = False) -> dict[str, Schema]:
    """All definitions of one API package, with `$ref`s; with descriptions when `described`."""
    suffix = ".described" if described else ""
    path = Path(__file__).parents[1] / "data" / f"kubernetes-{RELEASE}.{package}{suffix}.json.gz"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise LookupError(
            f"no schema file for {package}: run `python tools/build_schemas.py` in a source checkout"
        ) from None
    decoded: dict[str, Schema] = msgspec.json.decode(gzip.decompress(data))
    return decoded


def definition(name: str, *, described: bool = False) -> Schema:
    """One definition as published, with `$ref`s to others."""
    return load_package(package_of(name), described=described)[name]


@cache
def kubernetes(name: str) -> Schema:
    """The definition `name` of Kubernetes' own API with every reference resolved."""
    return _resolve_definition(name, {}, crd=False)


@cache
def structural(name: str) -> Schema:
    """The definition `name` as a CRD may contain it: inlined, without descriptions, int-or-string marked."""
    return _resolve_definition(name, {}, crd=True)


def _resolve_definition(name: str, seen: dict[str, Schema], *, crd: bool) -> Schema:
    if name in seen:
        return seen[name]
    special = _special(name, crd=crd)
    if special is not None:
        return special
    schema: Schema = {}
    seen[name] = schema  # before its parts: a definition may contain itself
    schema.update(_resolve(definition(name), seen, crd=crd))
    return schema


def _special(name: str, *, crd: bool) -> Schema | None:
    if name == QUANTITY:
        return quantity() if crd else {**definition(name), "x-corral-type": "quantity"}
    if name == INT_OR_STRING:
        return int_or_string() if crd else {**definition(name), "x-kubernetes-int-or-string": True}
    if name in JSON_VALUES:
        return {"x-kubernetes-preserve-unknown-fields": True}
    if name == OBJECT_META and crd:
        return embedded_metadata()
    return None


_CRD_DROPS = frozenset({"x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-unions"})


def _resolve(schema: Schema, seen: dict[str, Schema], *, crd: bool) -> Schema:
    reference = schema.get("$ref")
    if reference is not None:
        target = _resolve_definition(reference.rpartition("/")[2], seen, crd=crd)
        extra = {key: value for key, value in schema.items() if key != "$ref" and not (crd and key in _CRD_DROPS)}
        return {**target, **extra} if extra and target else target
    result = {key: value for key, value in schema.items() if not (crd and key in _CRD_DROPS)}
    if "properties" in schema:
        result["properties"] = {key: _resolve(value, seen, crd=crd) for key, value in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = _resolve(schema[key], seen, crd=crd)
    if crd and result.get("x-kubernetes-list-map-keys"):
        result["items"] = _with_keys(result["items"], result["x-kubernetes-list-map-keys"])
    return result


def _with_keys(items: Schema, keys: Sequence[str]) -> Schema:
    """Items of a map-like list in a CRD: a key that may be left out must have a default there."""
    properties = dict(items.get("properties") or {})
    for key in keys:
        if key in properties and key not in items.get("required", ()) and "default" not in properties[key]:
            properties[key] = {**properties[key], "default": "TCP" if key == "protocol" else ""}
    return {**items, "properties": properties}


# Words to write schemas in


def _with(base: Schema, options: Mapping[str, Any]) -> Schema:
    for key, value in options.items():
        if value is not None:
            base[_NAMES.get(key, key)] = list(value) if isinstance(value, tuple) else value
    return base


_NAMES = {
    "max_length": "maxLength",
    "min_length": "minLength",
    "max_items": "maxItems",
    "min_items": "minItems",
    "max_properties": "maxProperties",
    "min_properties": "minProperties",
    "list_type": "x-kubernetes-list-type",
    "keys": "x-kubernetes-list-map-keys",
    "map_type": "x-kubernetes-map-type",
    "rules": "x-kubernetes-validations",
}


def rule(expression: str, message: str = "", **more: Any) -> Schema:
    """A CEL rule; `more` are reason, fieldPath, messageExpression, optionalOldSelf."""
    return {"rule": expression, **({"message": message} if message else {}), **more}


def obj(properties: Mapping[str, Schema], *, required: Sequence[str] = (), **options: Any) -> Schema:
    """An object with known fields. Options: rules, map_type, description, default, nullable, max_properties."""
    base: Schema = {"type": "object"}
    if properties:
        base["properties"] = dict(properties)
    if required:
        base["required"] = list(required)
    return _with(base, options)


def mapping(values: Schema, **options: Any) -> Schema:
    """An object whose keys are free and whose values follow one schema."""
    return _with({"type": "object", "additionalProperties": values}, options)


def array(items: Schema, **options: Any) -> Schema:
    """A list. Options: list_type (atomic, set, map), keys, min_items, max_items, rules, default."""
    if options.get("keys"):
        items = _with_keys(items, options["keys"])
    return _with({"type": "array", "items": items}, options)


def string(**options: Any) -> Schema:
    """A string. Options: enum, pattern, format, min_length, max_length, default, rules, nullable."""
    return _with({"type": "string"}, options)


def integer(format: str = "int32", **options: Any) -> Schema:
    """An integer. Options: minimum, maximum, default, rules, nullable."""
    return _with({"type": "integer", "format": format}, options)


def number(**options: Any) -> Schema:
    return _with({"type": "number"}, options)


def boolean(**options: Any) -> Schema:
    return _with({"type": "boolean"}, options)


def time(**options: Any) -> Schema:
    """An RFC 3339 time."""
    return _with({"type": "string", "format": "date-time"}, options)


def duration(**options: Any) -> Schema:
    """A Go duration string such as `5m0s`."""
    return _with({"type": "string"}, options)


def quantity(**options: Any) -> Schema:
    """A resource quantity: a number or a string like `500m`."""
    base = {**int_or_string(), "pattern": QUANTITY_PATTERN}
    return _with(base, options)


def int_or_string(**options: Any) -> Schema:
    return _with({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}, options)


def anything(**options: Any) -> Schema:
    """An object that is kept as it came."""
    return _with({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, options)


def embedded(**options: Any) -> Schema:
    """A whole Kubernetes object inside another."""
    return _with({**anything(), "x-kubernetes-embedded-resource": True}, options)


def embedded_metadata() -> Schema:
    """The metadata of an object inside another, such as a pod template."""
    text = {"name": string(), "namespace": string()}
    maps = {"labels": mapping(string()), "annotations": mapping(string())}
    return obj({**text, **maps, "finalizers": array(string())})


def core_v1(kind: str, **options: Any) -> Schema:
    """A core/v1 type by its short name, such as `ResourceRequirements`, inlined."""
    return _with(dict(structural(f"io.k8s.api.core.v1.{kind}")), options)


def meta_v1(kind: str, **options: Any) -> Schema:
    """A meta/v1 type by its short name, such as `LabelSelector`, inlined."""
    return _with(dict(structural(f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind}")), options)


def pod_template(**options: Any) -> Schema:
    return core_v1("PodTemplateSpec", **options)


def label_selector(**options: Any) -> Schema:
    return meta_v1("LabelSelector", **options)


def resource_list(**options: Any) -> Schema:
    """Amounts by resource name."""
    return mapping(quantity(), **options)


def condition() -> Schema:
    """metav1.Condition with the bounds upstream's CRDs state."""
    reason = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    kind = (
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    )
    return obj(
        {
            "lastTransitionTime": time(),
            "message": string(max_length=32768),
            "observedGeneration": integer("int64", minimum=0),
            "reason": string(pattern=reason, min_length=1, max_length=1024),
            "status": string(enum=("True", "False", "Unknown")),
            "type": string(pattern=kind, max_length=316),
        },
        required=("lastTransitionTime", "message", "reason", "status", "type"),
    )


def conditions(**options: Any) -> Schema:
    """A list of conditions keyed by type."""
    return array(condition(), list_type="map", keys=("type",), **options)


def root(*, spec: Schema | None = None, status: Schema | None = None, **options: Any) -> Schema:
    """The schema of a whole custom kind. Options: rules, required, description, more (further properties)."""
    more = options.pop("more", None) or {}
    properties = {"apiVersion": string(), "kind": string(), "metadata": {"type": "object"}, **more}
    if spec is not None:
        properties["spec"] = spec
    if status is not None:
        properties["status"] = status
    return obj(properties, **options)
