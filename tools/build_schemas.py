"""Build hook: take the schemas of Kubernetes' own kinds out of the package kubernetes-validate.

Writes one gzipped JSON file per API package into src/corral/kinds/data/, twice: lean, which is what a running server
reads, and with descriptions, which only OpenAPI documents and `kubectl explain` need. Runs when a wheel is built or the
project is installed, and by hand: `python tools/build_schemas.py`.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RELEASE = "1.34"
TARGET = Path(__file__).resolve().parent.parent / "src" / "corral" / "kinds" / "data"

PACKAGES = {
    *(
        f"io.k8s.api.{package}"
        for package in (
            "admissionregistration.v1", "apps.v1", "authentication.v1", "authorization.v1", "autoscaling.v1",
            "autoscaling.v2", "batch.v1", "certificates.v1", "coordination.v1", "core.v1", "discovery.v1", "events.v1",
            "flowcontrol.v1", "networking.v1", "node.v1", "policy.v1", "rbac.v1", "resource.v1", "scheduling.v1",
            "storage.v1",
        )
    ),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "io.k8s.apimachinery.pkg.api.resource",
    "io.k8s.apimachinery.pkg.apis.meta.v1",
    "io.k8s.apimachinery.pkg.runtime",
    "io.k8s.apimachinery.pkg.util.intstr",
    "io.k8s.apimachinery.pkg.version",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
}  # fmt: skip
"""What Corral serves; alpha and beta packages stay behind."""


def normalize(schema: dict[str, Any], *, described: bool) -> dict[str, Any]:
    """The schema in OpenAPI v3 form: one type, no null, references into components."""
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: normalize(part, described=described) for name, part in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            result[key] = normalize(value, described=described)
        elif key == "oneOf":
            result[key] = [normalize(part, described=described) for part in value]
        elif key == "type" and isinstance(value, list):
            result[key] = next(name for name in value if name != "null")
        elif key == "$ref":
            result[key] = "#/components/schemas/" + value.rpartition("/")[2]
        elif key == "enum" or (key == "description" and not described):
            continue  # the source narrows apiVersion and kind with enums; the server does not
        else:
            result[key] = value
    return result


def read_definitions() -> dict[str, Any]:
    """All definitions of the release, as the source package ships them."""
    source = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{RELEASE}.0-local" / "_definitions.json"
    document: dict[str, dict[str, Any]] = json.loads(source.read_text())
    return document["$defs"]


def build(target: Path = TARGET) -> list[Path]:
    """Write all schema files and return their paths."""
    packages: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, schema in sorted(read_definitions().items()):
        package = name.rpartition(".")[0]
        if package in PACKAGES:
            packages[package][name] = schema
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for package, schemas in sorted(packages.items()):
        for described, suffix in ((False, ""), (True, ".described")):
            content = {name: normalize(schema, described=described) for name, schema in schemas.items()}
            data = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
            path = target / f"kubernetes-{RELEASE}.{package}{suffix}.json.gz"
            _keep(path, gzip.compress(data, mtime=0))
            written.append(path)
    return written


def _keep(path: Path, content: bytes) -> None:
    """Write a file that is not as it should be, in one step: somebody may be reading it."""
    if path.exists() and path.read_bytes() == content:
        return
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    temporary.write_bytes(content)
    temporary.replace(path)


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling calls."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build()


if __name__ == "__main__":
    paths = build()
    print(f"wrote {len(paths)} files, {sum(path.stat().st_size for path in paths):,} bytes, to {TARGET}")
