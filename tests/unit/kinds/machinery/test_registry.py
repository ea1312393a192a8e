"""The registry: which kinds there are, how they are found, and what custom ones inherit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.crd import crd_manifest, kind_from_crd
from corral.kinds.machinery.definition import Column, KindDef, ScalePaths, VersionDef, age_column
from corral.kinds.machinery.registry import Registry
from corral.kinds.machinery.tables import cells, columns_of, human_duration

REGISTRY = builtin_registry()


def gadget(**more: object) -> KindDef:
    spec = s.obj({"size": s.integer(minimum=0, default=1), "tags": s.array(s.string(), list_type="set")})
    return KindDef(
        group="example.com",
        kind="Gadget",
        plural="gadgets",
        short_names=("gd",),
        versions=(
            VersionDef(
                "v1",
                schema=lambda: s.root(spec=spec, status=s.obj({"conditions": s.conditions()})),
                status=True,
                scale=ScalePaths(".spec.size", ".status.size"),
                columns=(Column("Size", path=".spec.size", type="integer"), age_column()),
                selectable=(".spec.size",),
            ),
            VersionDef("v1alpha1", schema=lambda: s.root(spec=spec), served=False),
        ),
        **more,  # type: ignore[arg-type]  # any field of KindDef
    )


@pytest.mark.parametrize("kind", list(REGISTRY), ids=lambda kind: kind.group_resource)
def test_every_builtin_kind_is_found_and_has_a_schema_and_a_table(kind: KindDef) -> None:
    assert REGISTRY.get(kind.group, kind.plural) is kind
    for version in kind.served_versions:
        assert REGISTRY.find(kind.api_version(version.name), kind.kind) == (kind, version)
        assert version.schema["properties"]
        obj = {"apiVersion": kind.api_version(version.name), "kind": kind.kind, "metadata": {"name": "x"}}
        assert len(cells(kind, version, obj, 0.0)) == len(columns_of(kind, version))


def test_crds_and_kinds_are_two_forms_of_one_thing() -> None:
    manifest = crd_manifest(gadget())
    kind = kind_from_crd(manifest)
    assert manifest["metadata"]["name"] == "gadgets.example.com"
    assert crd_manifest(kind) == manifest
    assert kind.storage_version.status
    assert [version.name for version in kind.served_versions] == ["v1"]
    assert kind.field_value({"spec": {"size": 3}}, "spec.size") == "3"


def test_a_crd_keeps_the_rules_of_the_declaration_it_came_from() -> None:
    def convert(obj: dict[str, object], version: str) -> dict[str, object]:
        return {**obj, "apiVersion": f"example.com/{version}", "converted": True}

    native = gadget(convert=convert)
    registry = Registry(natives=[native])
    served = registry.add(kind_from_crd(crd_manifest(native)))
    assert served.at_version({"apiVersion": "example.com/v1"}, "v1alpha1")["converted"]


def test_adding_and_removing_kinds_changes_the_revision() -> None:
    registry = builtin_registry()
    before = registry.revision
    registry.add(gadget())
    assert registry.by_kind("example.com", "Gadget") is not None
    registry.remove("example.com", "gadgets")
    assert registry.by_kind("example.com", "Gadget") is None
    assert registry.revision == before + 2


def test_custom_kinds_print_their_name_first() -> None:
    kind = gadget()
    obj = {"metadata": {"name": "g", "creationTimestamp": "2027-01-15T08:00:00Z"}, "spec": {"size": 2}}
    assert cells(kind, kind.storage_version, obj, 1_800_000_060.0) == ["g", 2, "60s"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10_799, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (47 * 3600, "47h"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (3650 * 86400, "10y"),
    ],
)
def test_ages_are_printed_in_at_most_two_units(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_start_up_reads_no_schema() -> None:
    script = (
        "import sys\n"
        "from corral.kinds.machinery import gotypes, schemas\n"
        "from corral.jobs.framework.served_kinds import builtin_registry\n"
        "builtin_registry()\n"
        "sys.exit(schemas.load_package.cache_info().currsize)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
