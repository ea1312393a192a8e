"""The Go types of the Kubernetes API, as data: what typed decoding, protobuf and some error texts are made from.

A type is written as in Go with packages spelled out: `[]core/v1.Container`, `*int32`, `map[string]string`. Packages
without a version (`core.PodSpec`) are the server's internal types, which clients only meet inside error messages.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

_WORD = re.compile(r"(?<![\w./])([A-Z]\w*)")


class Field(NamedTuple):
    """A field of a struct. `omit` has `e` for omitempty and `z` for omitzero; `number` is its protobuf number or 0."""

    go_name: str
    json_name: str
    type: str
    number: int
    omit: str
    inline: bool


@cache
def _package(name: str) -> Any:
    path = Path(__file__).parents[1] / "data" / "types" / f"{name.replace('/', '.')}.json"
    return msgspec.json.decode(path.read_bytes())


def _qualified(go_type: str, package: str) -> str:
    return _WORD.sub(lambda word: f"{package}.{word[1]}", go_type)


def _split(name: str) -> tuple[str, str]:
    package, _, short = name.rpartition(".")
    return package, short


@cache
def own_fields_of(name: str) -> tuple[Field, ...]:
    """The fields of the struct `name` as declared, inlined structs being one field each."""
    package, short = _split(name)
    return tuple(
        Field(go_name, json_name, _qualified(go_type, package), number, flags.replace("i", ""), "i" in flags)
        for go_name, json_name, go_type, number, flags in _package(package)["structs"][short]
    )


@cache
def fields_of(name: str) -> tuple[Field, ...]:
    """The fields of the struct `name`, in Go order, with inlined structs flattened as in JSON."""
    found: list[Field] = []
    for field in own_fields_of(name):
        target = field.type.lstrip("*")
        found += fields_of(target) if field.inline and is_struct(target) else (field,)
    return tuple(found)


@cache
def is_struct(name: str) -> bool:
    package, short = _split(name)
    return bool(package) and _is_name(name) and short in _package(package)["structs"]


def _is_name(go_type: str) -> bool:
    return not go_type.startswith(("*", "[", "map["))


@cache
def underlying(go_type: str) -> str:
    """What a named type stands for (`core/v1.RestartPolicy` -> `string`); structs and plain types are themselves."""
    package, short = _split(go_type)
    if not package or not _is_name(go_type) or is_struct(go_type):
        return go_type
    target: str | None = _package(package)["named"].get(short)
    if target is None:
        raise LookupError(f"unknown Go type {go_type}")
    return underlying(_qualified(target.removeprefix("="), package))


def display(go_type: str) -> str:
    """How Go prints the type: `[]v1.Container`, `map[string]string`, `v1.PodSpec`."""
    shown = re.sub(r"[\w/]+/(\w+)\.", r"\1.", _alias_free(go_type))
    return shown.replace("interface{}", "interface {}").replace("[]byte", "[]uint8")


def _alias_free(go_type: str) -> str:
    package, short = _split(go_type)
    if package and _is_name(go_type):
        target: str = _package(package)["named"].get(short, "")
        if target.startswith("="):
            return _alias_free(_qualified(target[1:], package))
    return go_type


@cache
def go_type_of(definition: str) -> str:
    """The Go type of an OpenAPI definition: `io.k8s.api.batch.v1.Job` -> `batch/v1.Job`."""
    group, version, kind = definition.rsplit(".", 3)[-3:]
    return f"{group}/{version}.{kind}"
