"""Drift and diff: how an object on the member differs from what the hub wants, as JSON-pointer paths.

Partial comparison looks at a dry run of the manifest, so that only fields the manifest sets count; full comparison looks
at the manifest itself, so that every field of the object counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from corral.core.meta import Obj, metadata_of
from corral.core.patch.json import json_equal
from corral.core.patch.strategic import go_format

MAX_DIFFERENCES: Final = 100
REDACTED: Final = "(redacted for security reasons)"
WHOLE_OBJECT: Final = {"path": "/", "valueInHub": "(the whole object)"}
_SERVERS: Final = (
    "name", "namespace", "generateName", "finalizers", "managedFields", "ownerReferences", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion", "selfLink", "uid",
)  # fmt: skip
_DOMAINS: Final = ("kubernetes.io/", "k8s.io/", "kubernetes-fleet.io/", "corral.dev/")
_TEMPLATES: Final = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))

Json = Any
_ABSENT: Final = object()


class Difference(NamedTuple):
    """One step from the hub's object to the member's: add, remove or replace at a path of JSON-pointer tokens."""

    op: str
    path: tuple[str, ...]
    old: Json = None
    new: Json = None

    @property
    def pointer(self) -> str:
        return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in self.path)

    @property
    def operation(self) -> Obj:
        """The JSON-patch operation of this step."""
        body: Obj = {"op": self.op, "path": self.pointer}
        return body if self.op == "remove" else {**body, "value": self.new}


def differences(old: Json, new: Json) -> list[Difference]:
    """The steps from `old` to `new`: keys in order, arrays by position."""
    return list(_walk(old, new, ()))


def _walk(old: Json, new: Json, path: tuple[str, ...]) -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _member(old.get(name, _ABSENT), new.get(name, _ABSENT), (*path, name))
    elif isinstance(old, list) and isinstance(new, list):
        common = min(len(old), len(new))
        for item in old[common:]:
            yield Difference("remove", (*path, str(common)), old=item)
        for index in range(common):
            yield from _walk(old[index], new[index], (*path, str(index)))
        for item in new[common:]:
            yield Difference("add", (*path, "-"), new=item)
    elif not json_equal(old, new):
        yield Difference("replace", path, old, new)


def _member(old: Json, new: Json, path: tuple[str, ...]) -> Iterator[Difference]:
    if old is _ABSENT:
        yield Difference("add", path, new=new)
    elif new is _ABSENT:
        yield Difference("remove", path, old=old)
    else:
        yield from _walk(old, new, path)


def trimmed(obj: Obj) -> Obj:
    """What of an object is compared and hashed: no status, nothing of metadata that clusters write by themselves."""
    metadata = {name: value for name, value in metadata_of(obj).items() if name not in _SERVERS}
    for name in ("annotations", "labels"):
        kept = {key: value for key, value in (metadata.pop(name, None) or {}).items() if not _is_of_a_cluster(key)}
        if kept:
            metadata[name] = kept
    body = {name: value for name, value in obj.items() if name not in ("status", "metadata")}
    body["metadata"] = metadata
    for path in _TEMPLATES:
        body = _without(body, (*path, "metadata", "creationTimestamp"))
    return body


def _is_of_a_cluster(key: str) -> bool:
    return any(domain in key for domain in _DOMAINS)


def _without(value: Json, path: tuple[str, ...]) -> Json:
    head, *rest = path
    if not isinstance(value, dict) or head not in value:
        return value
    if not rest:
        return {name: item for name, item in value.items() if name != head}
    inner = _without(value[head], tuple(rest))
    return value if inner is value[head] else {**value, head: inner}


def compare(wanted: Obj, live: Obj, *, null_timestamps: bool = False) -> list[Obj]:
    """How `live` differs from `wanted`, as a Work's status lists it; the first hundred differences.

    `null_timestamps` shows pod templates as API servers used to store them, with a creationTimestamp of null."""
    theirs = _with_maps(trimmed(live))
    if null_timestamps:
        for path in _TEMPLATES:
            theirs = _with_null(theirs, (*path, "metadata"))
    found = differences(_with_maps(trimmed(wanted)), theirs)[:MAX_DIFFERENCES]
    is_secret = live.get("kind") == "Secret" and live.get("apiVersion") == "v1"
    return [_listed(difference, is_secret) for difference in found]


def _with_maps(obj: Obj) -> Obj:
    """The trimmed object with labels and annotations, empty ones too, so that they differ key by key."""
    return {**obj, "metadata": {"annotations": {}, "labels": {}, **obj["metadata"]}}


def _with_null(value: Json, path: tuple[str, ...]) -> Json:
    if not isinstance(value, dict):
        return value
    if not path:
        return {**value, "creationTimestamp": None}
    head, *rest = path
    return {**value, head: _with_null(value[head], tuple(rest))} if head in value else value


def _listed(difference: Difference, is_secret: bool) -> Obj:
    hide = is_secret and difference.path[:1] in (("data",), ("stringData",))
    entry: Obj = {"path": difference.pointer}
    if difference.op != "add":
        entry["valueInHub"] = REDACTED if hide else go_format(difference.old)
    if difference.op != "remove":
        entry["valueInMember"] = REDACTED if hide else go_format(difference.new)
    return entry
