"""The fields of the kinds we serve, and which of them somebody reads: a field counts as read where its name stands in the code of its room.

A schema and a check of what is valid do not count, so a field that is only declared and checked is found."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.machinery.definition import KindDef

_WORD = re.compile(r"[^A-Za-z0-9]+")
SOURCE = Path(__file__).parents[2] / "src" / "corral"
COMMON = ("core/", "runtime/", "workload/", "jobs/framework/", "server/")
_FLEET = ("controllers/placement", "controllers/member", "decide/placement", "decide/member")
ROOMS = {
    "kueue.x-k8s.io": ("controllers/queueing", "controllers/dispatch", "decide/queueing", "decide/dispatch", "jobs/"),
    "autoscaling.x-k8s.io": ("controllers/queueing", "decide/queueing"),
    "kubeflow.org": ("jobs/kubeflow", "jobs/mpijob"),
    "trainer.kubeflow.org": ("jobs/trainjob", "jobs/jobset"),
    "jobset.x-k8s.io": ("jobs/jobset",),
    "ray.io": ("jobs/ray",),
    "workload.codeflare.dev": ("jobs/appwrapper",),
    "leaderworkerset.x-k8s.io": ("jobs/leader_worker_set",),
    "scheduling.volcano.sh": ("jobs/", "node/", "decide/pods"),
    "scheduling.x-k8s.io": ("jobs/", "node/", "decide/pods"),
    "cluster.kubernetes-fleet.io": _FLEET,
    "placement.kubernetes-fleet.io": _FLEET,
    "multicluster.x-k8s.io": (*_FLEET, "controllers/dispatch"),
}
"""By API group, where its objects are acted on."""
CARRIED = {
    "env", "volumes", "volumeMounts", "affinity", "tolerations", "claims", "runtimePatches", "podTemplateOverrides",
    "podSpecOverrides",
}  # fmt: skip
"""Parts of pods and of other objects that travel as they are, under these names."""
TEMPLATES = ("spec.replicatedJobs.template", "spec.template.spec.replicatedJobs.template")
"""Where a Job's template is."""


def fields(kind: KindDef) -> Iterator[str]:
    """The paths of everything a user can say; what is carried along is one path."""
    top = kind.versions[0].schema.get("properties") or {}
    wanted = {name: value for name, value in top.items() if name not in ("apiVersion", "kind", "metadata", "status")}
    yield from _below({"properties": wanted}, "")


def _below(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, inner in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        yield here
        if not is_carried(here, inner):
            yield from _below(inner, here)
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict) and not _is_template(schema[part]):
            yield from _below(schema[part], path)


def is_carried(path: str, schema: dict[str, Any]) -> bool:
    """Whether a part goes to others as it is."""
    name = path.rpartition(".")[2]
    return name in CARRIED or path.endswith(TEMPLATES) or _is_template(schema) or _is_pod(schema)


def _is_pod(schema: dict[str, Any]) -> bool:
    return {"containers", "restartPolicy"} <= set(schema.get("properties") or ())


def _is_template(schema: dict[str, Any]) -> bool:
    spec = (schema.get("properties") or {}).get("spec")
    return isinstance(spec, dict) and (_is_pod(spec) or bool(spec.get("x-kubernetes-preserve-unknown-fields")))


@functools.cache
def words(group: str) -> frozenset[str]:
    """Every name that the rooms of a group speak of."""
    found: set[str] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith((*COMMON, *ROOMS[group])) and path.name not in (
            "descriptions.py",
            "conversion.py",
            "inert_fields.py",
        ):
            found |= _words(path)
    return frozenset(found)


@functools.cache
def _words(path: Path) -> frozenset[str]:
    nodes = list(_read_nodes(path))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return frozenset(names | {word for text in texts if " " not in text for word in _WORD.split(text)})


def _read_nodes(path: Path) -> Iterator[ast.AST]:
    """The code of a file. Of a kind's definition only its public functions, which others ask, without what they declare."""
    tree = ast.parse(path.read_text())
    if path.name != "kind.py":
        yield from ast.walk(tree)
        return
    asked = [one for one in tree.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
    nodes = [node for one in asked for node in ast.walk(one)]
    declared = {key for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
    yield from (node for node in nodes if node not in declared)


def unread(kind: KindDef) -> list[str]:
    """Fields whose names nobody speaks of; what is below one is left out."""
    found: list[str] = []
    for path in fields(kind):
        name = path.rpartition(".")[2]
        named = _is_named_by_kind(kind, name) or name in words(kind.group)
        if not named and not any(path.startswith(f"{other}.") for other in found):
            found.append(path)
    return found


def _is_named_by_kind(kind: KindDef, name: str) -> bool:
    """Kubeflow's jobs have their pods under a name made of the kind's: `tfReplicaSpecs`."""
    return kind.group == "kubeflow.org" and name.endswith("ReplicaSpecs")


def kinds() -> list[KindDef]:
    """Every kind of another project that we serve."""
    return sorted(native_kinds(), key=lambda kind: (kind.group, kind.kind))
