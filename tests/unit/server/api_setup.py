"""A handful of small kinds for an API over a memory store, and a clock that is set by hand."""

from __future__ import annotations

from typing import Any

from corral.core.admission import UserInfo
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.kinds.machinery import schemas
from corral.kinds.machinery.definition import KindDef, ScalePaths, VersionDef

ADMIN = UserInfo("admin", ("system:masters",))
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
PODS = Resource("", "v1", "pods", "Pod")
JOBS = Resource("batch", "v1", "jobs", "Job")
GADGETS = Resource("example.com", "v1", "gadgets", "Gadget")


class HandClock:
    """A clock that stands still until somebody moves it; sleeping moves it."""

    def __init__(self) -> None:
        self.time = 1_767_225_600.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def timestamp(self) -> str:
        return format_time(self.time)

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


def gadget_schema() -> schemas.Schema:
    spec = schemas.obj(
        {"size": schemas.integer(minimum=0, default=1), "color": schemas.string(enum=("red", "green"))},
    )
    return schemas.root(spec=spec, status=schemas.obj({"ready": schemas.integer(), "replicas": schemas.integer()}))


def kubernetes(definition: str, plural: str, group: str = "", **more: Any) -> KindDef:
    """A built-in kind of which only the schema matters here."""
    name, kind = definition.rpartition(".")[0], definition.rpartition(".")[2]
    full = f"io.k8s.api.{definition}"
    status = more.pop("status", False)
    version = VersionDef(
        name.rpartition(".")[2], schema=lambda: schemas.kubernetes(full), status=status, definition=full
    )
    options = {"has_generation": False, "allow_unconditional_update": True, **more}
    return KindDef(group=group, kind=kind, plural=plural, versions=(version,), builtin=True, **options)


def kinds() -> list[KindDef]:
    return [
        kubernetes("core.v1.ConfigMap", "configmaps"),
        kubernetes("core.v1.Pod", "pods", status=True),
        kubernetes("batch.v1.Job", "jobs", "batch", status=True, has_generation=True, default_propagation="Orphan"),
        kubernetes(
            "coordination.v1.Lease",
            "leases",
            "coordination.k8s.io",
            allow_unconditional_update=False,
            allow_create_on_update=True,
        ),
        KindDef(
            group="example.com",
            kind="Gadget",
            plural="gadgets",
            versions=(
                VersionDef("v1", schema=gadget_schema, status=True, scale=ScalePaths(spec_replicas=".spec.size")),
                VersionDef("v1beta1", schema=gadget_schema, status=True),
            ),
        ),
    ]
