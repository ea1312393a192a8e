"""autoscaling/v2 and v1: HorizontalPodAutoscaler, stored in v2, and the Scale subresource body."""

from __future__ import annotations

import json
from typing import Any

from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of, spec_of, status_of, with_annotations
from corral.core.names import check_path_segment
from corral.core.validation import check_metadata_update, forbidden, invalid, not_supported, required
from corral.kinds.machinery.builtin import version
from corral.kinds.machinery.definition import Cell, Column, KindDef
from corral.kinds.machinery.tables import AGE, NAME, number

GROUP = "autoscaling"
_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"


def _utilization(metric: Obj, source: str) -> str:
    value = ((metric.get(source) or {}).get("current") or {}).get("averageUtilization")
    return "<unknown>" if value is None else f"{value}%"


def _shown_metric(spec: Obj, status: Obj) -> str:
    source = {"Resource": "resource", "ContainerResource": "containerResource"}.get(spec.get("type", ""), "")
    if not source:
        return _other_metric(spec, status)
    target = (spec.get(source) or {}).get("target") or {}
    name = (spec.get(source) or {}).get("name", "")
    if target.get("averageValue") is not None:
        current = ((status.get(source) or {}).get("current") or {}).get("averageValue") or "<unknown>"
        return f"{name}: {current}/{target['averageValue']}"
    wanted = target.get("averageUtilization")
    return f"{name}: {_utilization(status, source)}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _other_metric(spec: Obj, status: Obj) -> str:
    source = {"Pods": "pods", "Object": "object", "External": "external"}.get(spec.get("type", ""), "")
    if not source:
        return "<unknown type>"
    target = (spec.get(source) or {}).get("target") or {}
    current = (status.get(source) or {}).get("current") or {}
    average = target.get("averageValue")
    if average is None:
        return f"{current.get('value') or '<unknown>'}/{target.get('value')}"
    suffix = "" if source == "pods" else " (avg)"
    return f"{current.get('averageValue') or '<unknown>'}/{average}{suffix}"


def _targets(obj: Obj, now: float) -> Cell:
    obj = to_v2(obj) if obj.get("apiVersion") == "autoscaling/v1" else obj
    specs, statuses = spec_of(obj).get("metrics") or (), status_of(obj).get("currentMetrics") or ()
    if not specs:
        return "<none>"
    shown = [
        _shown_metric(spec, statuses[position] if len(statuses) > position else {})
        for position, spec in enumerate(specs)
    ]
    text = ", ".join(shown[:2])
    return f"{text} + {len(shown) - 2} more..." if len(shown) > 2 else text


def _reference(obj: Obj, now: float) -> Cell:
    target = spec_of(obj).get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _min_pods(obj: Obj, now: float) -> Cell:
    found = spec_of(obj).get("minReplicas")
    return "<unset>" if found is None else str(found)


_COLUMNS = (
    NAME,
    Column("Reference", cell=_reference),
    Column("Targets", cell=_targets),
    Column("MinPods", cell=_min_pods),
    Column("MaxPods", cell=number(".spec.maxReplicas")),
    Column("Replicas", cell=number(".status.currentReplicas")),
    AGE,
)


def _is_cpu_utilization(metric: Obj) -> bool:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return metric.get("type") == "Resource" and resource.get("name") == "cpu" and "averageUtilization" in target


def to_v1(obj: Obj) -> Obj:
    """The autoscaling/v1 form: CPU utilization as a field, everything else in annotations."""
    spec, status = dict(spec_of(obj)), dict(status_of(obj))
    metrics = spec.pop("metrics", None) or []
    cpu = next((metric for metric in metrics if _is_cpu_utilization(metric)), None)
    others = [metric for metric in metrics if metric is not cpu]
    if cpu is not None:
        spec["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
    kept: dict[str, Any] = {
        _METRICS: others,
        _BEHAVIOR: spec.pop("behavior", None),
        _CURRENT_METRICS: status.pop("currentMetrics", None),
        _CONDITIONS: status.pop("conditions", None),
    }
    notes = {name: json.dumps(value, separators=(",", ":")) for name, value in kept.items() if value}
    return with_annotations({**obj, "apiVersion": "autoscaling/v1", "spec": spec, "status": status}, notes)


def to_v2(obj: Obj) -> Obj:
    """The autoscaling/v2 form of a v1 object; undoes `to_v1`."""
    spec, status, notes = dict(spec_of(obj)), dict(status_of(obj)), annotations_of(obj)
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = _loaded(notes, _METRICS) or []
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}, *metrics]
    current = status.pop("currentCPUUtilizationPercentage", None)
    found = {"metrics": metrics, "behavior": _loaded(notes, _BEHAVIOR)}
    spec |= {name: value for name, value in found.items() if value}
    reported = {"currentMetrics": _loaded(notes, _CURRENT_METRICS), "conditions": _loaded(notes, _CONDITIONS)}
    status |= {name: value for name, value in reported.items() if value}
    if current is not None and "currentMetrics" not in status:
        usage = {"name": "cpu", "current": {"averageUtilization": current}}
        status["currentMetrics"] = [{"type": "Resource", "resource": usage}]
    moved = {**obj, "apiVersion": "autoscaling/v2", "spec": spec, "status": status}
    return with_annotations(moved, dict.fromkeys((_METRICS, _BEHAVIOR, _CURRENT_METRICS, _CONDITIONS)))


def _loaded(annotations: dict[str, str], name: str) -> Any:
    try:
        return json.loads(annotations.get(name) or "null")
    except ValueError:
        return None


def _convert(obj: Obj, wanted: str) -> Obj:
    return to_v1(obj) if wanted == "v1" else to_v2(obj)


def default_autoscaler(autoscaler: Obj) -> None:
    """Defaults of either version; v1 keeps its CPU target in a field of its own."""
    spec = autoscaler.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if autoscaler.get("apiVersion") == "autoscaling/v1":
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
        up = [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent]
        growing = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": up}
        shrinking = {"selectPolicy": "Max", "policies": [dict(percent)]}
        behavior["scaleUp"] = {**growing, **(behavior.get("scaleUp") or {})}
        behavior["scaleDown"] = {**shrinking, **(behavior.get("scaleDown") or {})}


def check_autoscaler(autoscaler: Obj) -> list[Cause]:
    spec = spec_of(autoscaler)
    low, high, target = spec.get("minReplicas"), spec.get("maxReplicas") or 0, spec.get("scaleTargetRef") or {}
    causes: list[Cause] = []
    if low is not None and low < 1:
        causes.append(invalid("spec.minReplicas", low, "must be greater than or equal to 1"))
    if high < 1:
        causes.append(invalid("spec.maxReplicas", high, "must be greater than 0"))
    if low is not None and high < low:
        causes.append(invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
    for field in ("kind", "name"):
        value = target.get(field) or ""
        where = f"spec.scaleTargetRef.{field}"
        causes += [invalid(where, value, text) for text in check_path_segment(value)] if value else [required(where)]
    causes += _check_target_version(target)
    for position, metric in enumerate(to_v2(autoscaler)["spec"].get("metrics") or ()):
        causes += _check_metric(metric, f"spec.metrics[{position}]")
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if low == 0 and not kinds & {"Object", "External"}:
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        causes.append(forbidden("spec.metrics", detail))
    return causes


def _check_target_version(target: Obj) -> list[Cause]:
    version, path = target.get("apiVersion") or "", "spec.scaleTargetRef.apiVersion"
    if version.count("/") > 1:
        return [invalid(path, version, f"unexpected GroupVersion string: {version}")]
    grouped = "/" in version and not version.startswith("/")
    core = version == "v1" and target.get("kind") == "ReplicationController"
    return [] if grouped or core else [invalid(path, version, "apiVersion must specify API group")]


_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _check_metric(metric: Obj, path: str) -> list[Cause]:
    kind = metric.get("type") or ""
    unknown = not_supported(f"{path}.type", kind, sorted(_SOURCES))
    causes = [] if kind else [required(f"{path}.type", "must specify a metric source type")]
    causes += [] if kind in _SOURCES else [unknown]
    present = [source for source in _SOURCES.values() if metric.get(source) is not None]
    if present and present[0] in ("resource", "containerResource"):
        causes += _check_resource_metric(metric[present[0]], f"{path}.{present[0]}")
    wanted = _SOURCES.get(kind)
    if wanted is None:
        causes.append(unknown)
    elif wanted not in present:
        detail = "must populate information for the given metric source"
        causes.append(required(f"{path}.{wanted}", detail))
    if len(present) != 1:
        detail = "must populate the given metric source only"
        causes += [forbidden(f"{path}.{source}", detail) for source in present if source != wanted]
    return causes


def _check_resource_metric(source: Obj, path: str) -> list[Cause]:
    target = source.get("target") or {}
    causes: list[Cause] = []
    if not source.get("name"):
        causes.append(required(f"{path}.name", "must specify a resource name"))
    if path.endswith("containerResource") and not source.get("container"):
        causes.append(required(f"{path}.container", "must specify a container"))
    kind = target.get("type") or ""
    if not kind:
        causes.append(required(f"{path}.target.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        causes.append(invalid(f"{path}.target.type", kind, "must be either Utilization, Value, or AverageValue"))
    percent, amount = target.get("averageUtilization"), target.get("averageValue")
    if percent is not None and percent < 1:
        causes.append(invalid(f"{path}.target.averageUtilization", percent, "must be greater than 0"))
    if percent is None and amount is None:
        detail = "must set either a target raw value or a target utilization"
        causes.append(required(f"{path}.target.averageUtilization", detail))
    if percent is not None and amount is not None:
        detail = "may not set both a target raw value and a target utilization"
        causes.append(forbidden(f"{path}.target.averageValue", detail))
    return causes


def check_autoscaler_update(new: Obj, old: Obj) -> list[Cause]:
    return check_metadata_update(new["metadata"], old["metadata"]) + check_autoscaler(new)


def _first_status(autoscaler: Obj) -> None:
    unseen = {"currentReplicas": 0} if autoscaler.get("apiVersion") == "autoscaling/v1" else {"currentMetrics": None}
    autoscaler["status"] = {**unseen, "desiredReplicas": 0}


HORIZONTAL_POD_AUTOSCALER = KindDef(
    group=GROUP,
    kind="HorizontalPodAutoscaler",
    plural="horizontalpodautoscalers",
    short_names=("hpa",),
    categories=("all",),
    versions=(
        version("autoscaling.v2.HorizontalPodAutoscaler", _COLUMNS, status=True, storage=True),
        version("autoscaling.v1.HorizontalPodAutoscaler", _COLUMNS, status=True, storage=False),
    ),
    builtin=True,
    has_generation=False,
    allow_unconditional_update=True,
    default=default_autoscaler,
    prepare_create=_first_status,
    validate=check_autoscaler,
    validate_update=check_autoscaler_update,
    convert=_convert,
)

KINDS = (HORIZONTAL_POD_AUTOSCALER,)

HORIZONTAL_POD_AUTOSCALERS = HORIZONTAL_POD_AUTOSCALER.resource()
