"""The API group workload.codeflare.dev/v1beta2: an AppWrapper holds any objects and runs them as one job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corral.core import validation as v
from corral.core.errors import Cause
from corral.core.meta import Obj, namespace_of, spec_of
from corral.core.whole_numbers import whole_number
from corral.jobs.kubeflow.kind import PYTORCH, replica_specs_of
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, Schema, VersionDef, age_column

GROUP = "workload.codeflare.dev"
CONTROLLER = "workload.codeflare.dev/appwrapper-controller"
WEBHOOK = "vappwrapper.kb.io"
LABEL = "workload.codeflare.dev/appwrapper"
USER_LABEL = "workload.codeflare.dev/user"
USER_ID_LABEL = "workload.codeflare.dev/userid"
CREATOR = "corral.dev/creator"
"""The annotation that keeps who made an AppWrapper: its components are created with that user's rights."""
FINALIZER = "workload.codeflare.dev/finalizer"
MAX_POD_SETS = 8


def _schema() -> Schema:
    pod_set = s.obj(
        {"replicas": s.integer(), "path": s.string(), "annotations": s.mapping(s.string())}, required=("path",)
    )
    info = s.obj(
        {
            "annotations": s.mapping(s.string()),
            "labels": s.mapping(s.string()),
            "nodeSelector": s.mapping(s.string()),
            "tolerations": s.array(s.core_v1("Toleration")),
            "schedulingGates": s.array(s.core_v1("PodSchedulingGate")),
        }
    )
    component = s.obj(
        {
            "annotations": s.mapping(s.string()),
            "podSets": s.array(pod_set),
            "podSetInfos": s.array(info),
            "template": s.embedded(),
        },
        required=("template",),
    )
    spec = s.obj(
        {
            "components": s.array(component),
            "suspend": s.boolean(),
            "managedBy": s.string(),
        },
        required=("components",),
    )
    state = s.obj(
        {
            "name": s.string(),
            "kind": s.string(),
            "apiVersion": s.string(),
            "podSets": s.array(pod_set),
            "conditions": s.conditions(),
        },
        required=("apiVersion", "kind", "name", "podSets"),
    )
    status = s.obj(
        {
            "phase": s.string(),
            "retries": s.integer(),
            "conditions": s.conditions(),
            "componentStatus": s.array(state),
        }
    )
    return s.root(spec=spec, status=status)


# Pod sets: what a component is made of


def _at(value: Any, path: str) -> Any:
    """The value at a dotted path with `[key]` and `.key` steps, or None."""
    for step in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(value, list):
            index = whole_number(step)
            value = value[index] if index is not None and index < len(value) else None
        elif isinstance(value, Mapping):
            value = value.get(step)
        else:
            return None
    return value


def pod_template_at(template: Obj, path: str) -> Obj | None:
    """The pod template at `path`, which starts with `template`; a bare Pod is its own template."""
    found = template if path == "template" else _at(template, path.removeprefix("template."))
    spec = found.get("spec") if isinstance(found, Mapping) else None
    if not isinstance(spec, Mapping) or not spec.get("containers"):
        return None
    return dict(found)


def inferred_pod_sets(template: Obj) -> list[Obj] | None:
    """The pod sets of the kinds an AppWrapper understands; None for any other kind."""
    kind, spec = str(template.get("kind")), template.get("spec") or {}
    where = "template.spec.template"
    if kind == "Pod":
        return [{"replicas": 1, "path": "template"}]
    if kind == "Job":
        parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
        count = parallelism if completions is None else min(parallelism, completions)
        return [{"replicas": int(count), "path": where}]
    if kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        return [{"replicas": int(spec.get("replicas", 1)), "path": where}]
    if kind == "JobSet":
        return [
            {"replicas": _job_set_pods(entry), "path": f"template.spec.replicatedJobs[{i}].template.spec.template"}
            for i, entry in enumerate(spec.get("replicatedJobs") or ())
        ]
    if kind == "PyTorchJob":
        specs = replica_specs_of(PYTORCH, template)
        return [
            {"replicas": int(entry.get("replicas", 1)), "path": f"template.spec.{PYTORCH.field}.{name}.template"}
            for name, entry in specs.items()
        ]
    if kind == "RayCluster":
        return _ray_pod_sets(spec, "template.spec")
    if kind == "RayJob":
        return _ray_pod_sets(spec.get("rayClusterSpec") or {}, "template.spec.rayClusterSpec")
    return None


def _job_set_pods(entry: Obj) -> int:
    spec = (entry.get("template") or {}).get("spec") or {}
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    count = parallelism if completions is None else min(parallelism, completions)
    return int(entry.get("replicas", 1)) * int(count)


def _ray_pod_sets(spec: Obj, path: str) -> list[Obj]:
    groups = [
        {
            "replicas": int(group.get("replicas") or 0) * int(group.get("numOfHosts") or 1),
            "path": f"{path}.workerGroupSpecs[{i}].template",
        }
        for i, group in enumerate(spec.get("workerGroupSpecs") or ())
    ]
    return [{"replicas": 1, "path": f"{path}.headGroupSpec.template"}, *groups]


def pod_sets_of(component: Obj) -> list[Obj]:
    """The declared pod sets of a component, or the inferred ones."""
    declared = component.get("podSets")
    if declared:
        return list(declared)
    return inferred_pod_sets(component.get("template") or {}) or []


def carried(app_wrapper: Obj) -> list[Obj]:
    """The objects an AppWrapper creates."""
    components = spec_of(app_wrapper).get("components") or ()
    return [component["template"] for component in components if isinstance(component.get("template"), dict)]


def expected_pods(app_wrapper: Obj) -> int:
    """How many pods the whole AppWrapper runs."""
    components = spec_of(app_wrapper).get("components") or ()
    return sum(int(entry.get("replicas", 1)) for component in components for entry in pod_sets_of(component))


def validate_app_wrapper(new: Obj, old: Obj | None) -> list[Cause]:
    """What upstream's webhook refuses."""
    components = spec_of(new).get("components") or []
    if old is not None:
        held = spec_of(old).get("components") or []
        causes = v.immutable("spec.managedBy", spec_of(new).get("managedBy"), spec_of(old).get("managedBy"))
        if [_fixed_part(entry) for entry in components] != [_fixed_part(entry) for entry in held]:
            causes.append(v.forbidden("spec.components", "components is immutable"))
        return causes
    causes, total = [], 0
    for position, component in enumerate(components):
        causes += _check_component(f"spec.components[{position}]", component, namespace_of(new))
        total += len(pod_sets_of(component))
    if total == 0:
        causes.append(v.invalid("spec.components", "components", "components contains no podspecs"))
    if total > MAX_POD_SETS:
        text = f"components contains {total} podspecs; at most {MAX_POD_SETS} are allowed"
        causes.append(v.invalid("spec.components", "components", text))
    return causes


def _fixed_part(component: Obj) -> Obj:
    return {name: value for name, value in component.items() if name != "podSetInfos"}


def _check_component(path: str, component: Obj, namespace: str) -> list[Cause]:
    template = component.get("template") or {}
    kind, group = template.get("kind"), str(template.get("apiVersion") or "").rpartition("/")[0]
    if not kind or not template.get("apiVersion"):
        return [v.invalid(f"{path}.template", template, "failed to decode as JSON: kind and apiVersion are required")]
    if kind == "AppWrapper" and group == GROUP:
        return [v.forbidden(f"{path}.template", "Nested AppWrappers are forbidden")]
    causes = []
    where = (template.get("metadata") or {}).get("namespace")
    if where and where != namespace:
        text = "AppWrappers cannot create objects in other namespaces"
        causes.append(v.forbidden(f"{path}.template.metadata.namespace", text))
    return causes + _check_pod_sets(path, component, template)


def _check_pod_sets(path: str, component: Obj, template: Obj) -> list[Cause]:
    declared, inferred = component.get("podSets") or [], inferred_pod_sets(template)
    causes = []
    for position, entry in enumerate(declared):
        here = f"{path}.podSets[{position}]"
        if pod_template_at(template, str(entry.get("path"))) is None:
            text = f"path does not refer to a v1.PodSpecTemplate: {entry.get('path')}"
            causes.append(v.invalid(f"{here}.path", entry.get("path"), text))
    if declared and inferred is not None:
        if len(declared) != len(inferred):
            text = f"podSets is inconsistent: expected {len(inferred)} podSets"
            return [*causes, v.invalid(f"{path}.podSets", declared, text)]
        for position, entry in enumerate(declared):
            match = next((item for item in inferred if item["path"] == entry.get("path")), None)
            if match is None or match["replicas"] != int(entry.get("replicas", 1)):
                text = "podSet is inconsistent with the value inferred from the template"
                causes.append(v.invalid(f"{path}.podSets[{position}]", entry, text))
    return causes


APP_WRAPPER = KindDef(
    group=GROUP,
    descriptions="corral.jobs.appwrapper.descriptions:DESCRIPTIONS",
    kind="AppWrapper",
    plural="appwrappers",
    versions=(
        VersionDef(
            "v1beta2",
            _schema,
            status=True,
            columns=(
                Column("Status", ".status.phase"),
                Column("Quota Reserved", '.status.conditions[?(@.type=="QuotaReserved")].status'),
                Column("Resources Deployed", '.status.conditions[?(@.type=="ResourcesDeployed")].status'),
                Column("Unhealthy", '.status.conditions[?(@.type=="Unhealthy")].status'),
                age_column(),
            ),
        ),
    ),
)
APP_WRAPPERS = APP_WRAPPER.resource()
KINDS = (APP_WRAPPER,)
