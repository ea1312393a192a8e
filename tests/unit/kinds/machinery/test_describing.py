"""Every kind Corral ships says what it is for, and so do the fields one sees first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.machinery.crd import crd_manifest
from corral.kinds.machinery.definition import KindDef, Schema
from corral.kinds.machinery.describing import described, table_of

WHOLE = ("kueue.x-k8s.io", "placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io", "multicluster.x-k8s.io")


def fields(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The fields below spec and status, or of the kind itself where it has neither."""
    for name, field in schema["properties"].items():
        if name in ("spec", "status"):
            for inner, sub in (field.get("properties") or {}).items():
                yield f"{name}.{inner}", sub
        elif name not in ("apiVersion", "kind", "metadata"):
            yield name, field


@pytest.mark.parametrize("kind", native_kinds(), ids=lambda kind: kind.group_resource)
def test_every_shipped_kind_is_described(kind: KindDef) -> None:
    for version in kind.versions:
        schema = described(kind, version)
        assert schema["description"].endswith(".")
        if kind.group in WHOLE:
            missing = [path for path, field in fields(schema) if not field.get("description")]
            assert missing == []


@pytest.mark.parametrize("kind", native_kinds(), ids=lambda kind: kind.group_resource)
def test_no_description_is_of_a_field_that_is_not_there(kind: KindDef) -> None:
    for path in table_of(kind.descriptions)[kind.kind][1]:
        assert any(_has(version.schema, path.split(".")) for version in kind.versions), path


def _has(schema: Schema, path: list[str]) -> bool:
    if not path:
        return True
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            return _has(schema[inner], path)
    found = (schema.get("properties") or {}).get(path[0])
    return found is not None and _has(found, path[1:])


def test_descriptions_are_in_definitions_and_not_in_what_validates() -> None:
    kind = next(kind for kind in native_kinds() if kind.kind == "ClusterQueue")
    shown = crd_manifest(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "quota" in shown["description"]
    assert "description" not in kind.versions[0].schema
    assert "description" not in kind.versions[0].schema["properties"]["spec"]["properties"]["cohortName"]
