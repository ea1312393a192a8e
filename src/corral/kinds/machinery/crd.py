"""CustomResourceDefinitions: from a declared kind to its CRD, and from a CRD to a kind that can be served."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from corral.core.meta import Obj, spec_of
from corral.kinds.machinery import jsonpath
from corral.kinds.machinery.definition import Column, KindDef, ScalePaths, Schema, VersionDef
from corral.kinds.machinery.describing import described


def crd_manifest(kind: KindDef) -> Obj:
    """The CustomResourceDefinition object of a custom kind, as one would apply it to a real cluster."""
    names: Obj = {
        "kind": kind.kind,
        "listKind": kind.list_kind,
        "plural": kind.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    spec: Obj = {
        "conversion": kind.conversion or {"strategy": "None"},
        "group": kind.group,
        "names": names,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "versions": [_version_manifest(kind, version) for version in kind.versions],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.group_resource},
        "spec": spec,
    }


def _version_manifest(kind: KindDef, version: VersionDef) -> Obj:
    result: Obj = {
        "name": version.name,
        "served": version.served,
        "storage": bool(version.storage),
        "schema": {"openAPIV3Schema": described(kind, version)},
    }
    if version.deprecated:
        result["deprecated"] = True
    if version.deprecation_warning:
        result["deprecationWarning"] = version.deprecation_warning
    if version.columns:
        result["additionalPrinterColumns"] = [_column_manifest(column) for column in version.columns]
    if version.selectable:
        result["selectableFields"] = [{"jsonPath": path} for path in version.selectable]
    subresources: Obj = {"status": {}} if version.status else {}
    if version.scale is not None:
        subresources["scale"] = _scale_manifest(version.scale)
    if subresources:
        result["subresources"] = subresources
    return result


def _column_manifest(column: Column) -> Obj:
    optional = {"description": column.description, "format": column.format, "priority": column.priority}
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        **{key: value for key, value in optional.items() if value},
    }


def _scale_manifest(scale: ScalePaths) -> Obj:
    result = {"specReplicasPath": scale.spec_replicas, "statusReplicasPath": scale.status_replicas}
    if scale.selector:
        result["labelSelectorPath"] = scale.selector
    return result


def kind_from_crd(crd: Obj, since: int = 0) -> KindDef:
    """The kind a stored (defaulted and valid) CustomResourceDefinition describes; objects up to the revision `since` may
    have been written under an earlier definition."""
    spec = spec_of(crd)
    names = spec["names"]
    versions = tuple(_version_from(entry) for entry in spec["versions"])
    conversion = spec.get("conversion") or {}
    paths = dict.fromkeys(path for version in versions for path in version.selectable)
    return KindDef(
        group=spec["group"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or names["kind"] + "List",
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        versions=versions,
        conversion=conversion if conversion.get("strategy") == "Webhook" else None,
        since=since,
        fields={path.lstrip("."): _field_reader(path) for path in paths},
    )


def _version_from(entry: Obj) -> VersionDef:
    subresources = entry.get("subresources") or {}
    scale = subresources.get("scale")
    return VersionDef(
        entry["name"],
        schema=partial(_schema_of, entry),
        served=bool(entry.get("served")),
        storage=bool(entry.get("storage")),
        status=subresources.get("status") is not None,
        scale=None if scale is None else _scale_from(scale),
        columns=tuple(_column_from(column) for column in entry.get("additionalPrinterColumns") or ()),
        selectable=tuple(field["jsonPath"] for field in entry.get("selectableFields") or ()),
        deprecated=bool(entry.get("deprecated")),
        deprecation_warning=entry.get("deprecationWarning") or "",
    )


def _schema_of(entry: Obj) -> Schema:
    found: Any = (entry.get("schema") or {}).get("openAPIV3Schema")
    return found or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _scale_from(scale: Obj) -> ScalePaths:
    return ScalePaths(
        scale.get("specReplicasPath", ""), scale.get("statusReplicasPath", ""), scale.get("labelSelectorPath") or ""
    )


def _column_from(column: Obj) -> Column:
    return Column(
        column["name"],
        path=column["jsonPath"],
        type=column["type"],
        format=column.get("format") or "",
        description=column.get("description") or "",
        priority=column.get("priority") or 0,
    )


def _field_reader(path: str) -> Callable[[Obj], str]:
    def read(obj: Obj) -> str:
        value = jsonpath.first(path, obj)
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read
