"""Pod sets: the groups of identical pods a job consists of, and what admission adds to their templates.

A `PodSet` is read from a job and written into a Workload. A `PodSetInfo` goes the other way: what the assigned flavors and
admission checks want in the pod template when the job starts, and what to put back when it is stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from corral.core.meta import Obj, annotations_of, labels_of, spec_of
from corral.core.schema.structural import Schema, compile_schema
from corral.core.schema.unique import without_repetitions
from corral.core.whole_numbers import whole_number
from corral.kinds.kueue import names
from corral.kinds.machinery import schemas

DEFAULT_NAME = "main"
MAX_SLICE_LAYERS = 3
SLICE_LAYERS = "podsetSliceRequiredTopologyConstraints"
_BOOLEANS = frozenset(["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"])
_SLICE_NAMES = (names.WORKLOAD, names.WORKLOAD_SLICE_NAME)


class ConflictingUpdate(Exception):
    """Flavors, admission checks and the user's template disagree; the job can never start like this."""


@cache
def _template_schema() -> Schema:
    return compile_schema(schemas.pod_template())


def sanitized(template: Obj) -> Obj:
    """A pod template as a Workload may hold it: pods may name a variable, port, host or pull secret twice, Workloads not.

    The last one stays, as it is the one in force of the variables.
    """
    result: Obj = without_repetitions(template, _template_schema())
    return result


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one job that share a template."""

    name: str
    template: Obj
    count: int
    min_count: int | None = None
    topology_request: Obj | None = None

    def to_obj(self) -> Obj:
        """The entry of `spec.podSets` of a Workload."""
        entry: Obj = {"name": self.name, "template": sanitized(self.template), "count": self.count}
        if self.min_count is not None:
            entry["minCount"] = self.min_count
        if self.topology_request:
            entry["topologyRequest"] = self.topology_request
        return entry


@dataclass(frozen=True, slots=True)
class PodSetInfo:
    """What the template of one pod set is to look like, beyond what the user wrote."""

    name: str
    count: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Obj, ...] = ()
    scheduling_gates: tuple[Obj, ...] = ()

    def merged(self, other: PodSetInfo) -> PodSetInfo:
        """This and `other` together; raises ConflictingUpdate when they contradict each other."""
        return replace(
            self,
            labels=_union("labels", self.labels, other.labels),
            annotations=_union("annotations", self.annotations, other.annotations),
            node_selector=_union("nodeSelector", self.node_selector, other.node_selector),
            tolerations=_appended(self.tolerations, other.tolerations),
            scheduling_gates=_appended(self.scheduling_gates, other.scheduling_gates),
        )


def _union(what: str, first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    for key, value in second.items():
        if first.get(key, value) != value:
            raise ConflictingUpdate(f"conflict for {what}: conflict for key={key}, value1={first[key]}, value2={value}")
    return {**first, **second}


def _appended(first: Iterable[Obj], second: Iterable[Obj]) -> tuple[Obj, ...]:
    result = list(first)
    result.extend(entry for entry in second if entry not in result)
    return tuple(result)


def info_of_template(name: str, template: Obj, count: int = 0) -> PodSetInfo:
    """What a template says itself; used to put it back when a job is stopped."""
    spec = spec_of(template)
    return PodSetInfo(
        name=name,
        count=count,
        labels=labels_of(template),
        annotations=annotations_of(template),
        node_selector=spec.get("nodeSelector") or {},
        tolerations=tuple(spec.get("tolerations") or ()),
        scheduling_gates=tuple(spec.get("schedulingGates") or ()),
    )


def injected(template: Obj, info: PodSetInfo) -> Obj:
    """The template with `info` merged in; raises ConflictingUpdate."""
    own = info_of_template(info.name, template)
    if names.WORKLOAD_SLICE_NAME in info.annotations:
        # An elastic job may still carry the names of slices it ran under before.
        own = replace(own, annotations={**own.annotations, **{name: info.annotations[name] for name in _SLICE_NAMES}})
    return _with_info(template, own.merged(info))


def restored(template: Obj, info: PodSetInfo, *, keep_labels: Iterable[str] = ()) -> Obj:
    """The template with exactly the labels, annotations, selectors, tolerations and gates of `info`."""
    current = labels_of(template)
    kept = {label: current[label] for label in keep_labels if label in current}
    return _with_info(template, replace(info, labels={**info.labels, **kept}))


def _with_info(template: Obj, info: PodSetInfo) -> Obj:
    metadata = _set_or_drop(
        template.get("metadata") or {}, labels=dict(info.labels), annotations=dict(info.annotations)
    )
    spec = _set_or_drop(
        spec_of(template),
        nodeSelector=dict(info.node_selector),
        tolerations=list(info.tolerations),
        schedulingGates=list(info.scheduling_gates),
    )
    return {**template, "metadata": metadata, "spec": spec}


def _set_or_drop(part: Obj, **fields: Any) -> Obj:
    result = {**part, **fields}
    return {name: value for name, value in result.items() if value or name not in fields}


def topology_request(template: Obj, *, index_label: str = "", **more: Any) -> Obj | None:
    """The topology request a pod template makes through its annotations; what is wrong in them asks for nothing."""
    annotations = annotations_of(template)
    request: Obj = {}
    if names.PODSET_REQUIRED_TOPOLOGY in annotations:
        request["required"] = annotations[names.PODSET_REQUIRED_TOPOLOGY]
    elif names.PODSET_PREFERRED_TOPOLOGY in annotations:
        request["preferred"] = annotations[names.PODSET_PREFERRED_TOPOLOGY]
    elif parsed_bool(annotations.get(names.PODSET_UNCONSTRAINED_TOPOLOGY, "")):
        request["unconstrained"] = True
    if names.PODSET_GROUP_NAME in annotations and request.keys() & {"required", "preferred"}:
        request["podSetGroupName"] = annotations[names.PODSET_GROUP_NAME]
    if index_label:
        request["podIndexLabel"] = index_label
    request.update(more)
    request.update(_slices(annotations))
    return request or None


def _slices(annotations: Mapping[str, str]) -> Obj:
    with suppress(ValueError):
        if layers := slice_layers(annotations.get(names.PODSET_SLICE_LAYERS, "[]")):
            return {SLICE_LAYERS: [{"topology": topology, "size": size} for topology, size in layers]}
    if names.PODSET_SLICE_REQUIRED_TOPOLOGY not in annotations:
        return {}
    size = whole_number(annotations.get(names.PODSET_SLICE_SIZE, ""))
    request: Obj = {"podSetSliceRequiredTopology": annotations[names.PODSET_SLICE_REQUIRED_TOPOLOGY]}
    return {**request, "podSetSliceSize": size} if size is not None else request


def slice_layers(text: str) -> list[tuple[str, int]]:
    """Level and size of nested slices, outermost first, as an annotation has them. Raises ValueError."""
    entries = json.loads(text)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("it is not a list of objects")
    layers = [(entry.get("topology", ""), entry.get("size", 0)) for entry in entries]
    if not all(isinstance(topology, str) and type(size) is int for topology, size in layers):
        raise ValueError("topology is a string and size a whole number")
    return layers


def without_slice_layers(pod_set: PodSet) -> PodSet:
    """The pod set where slices in several layers are not to be placed."""
    request = {name: value for name, value in (pod_set.topology_request or {}).items() if name != SLICE_LAYERS}
    return replace(pod_set, topology_request=request or None)


def parsed_bool(text: str) -> bool | None:
    """A boolean in any of the spellings an annotation may have; None if it is none of them."""
    return text in ("1", "t", "T", "TRUE", "true", "True") if text in _BOOLEANS else None


INJECTED_LABELS = frozenset(
    {
        names.PODSET,
        names.CLUSTER_QUEUE_NAME,
        names.LOCAL_QUEUE_NAME,
        names.MULTIKUEUE_WORKER_POD,
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "job-name",
    }
)


def same_shape(workload_set: Obj, pod_set: PodSet, *, compare_counts: bool, running: bool) -> bool:
    """Whether a pod set of a Workload still describes `pod_set` of its job.

    While the job runs its template carries what admission injected, so selectors, tolerations and gates are left out.
    """
    if workload_set.get("name", DEFAULT_NAME) != pod_set.name:
        return False
    if compare_counts and int(workload_set.get("count", 1)) != pod_set.count:
        return False
    if workload_set.get("minCount") != pod_set.min_count and compare_counts:
        return False
    ignored = _INJECTED_SPEC if running else ("schedulingGates",)
    held, wanted = spec_of(workload_set.get("template") or {}), pod_set.template
    return _same_spec(held, spec_of(wanted), ignored) or _same_spec(held, spec_of(sanitized(wanted)), ignored)


def same_claim(workload_set: Obj, pod_set: PodSet, *, running: bool) -> bool:
    """Whether a pod set that somebody wrote by hand claims what `pod_set` of its job needs.

    Only what quota and places are counted from is looked at: whoever writes a Workload does not repeat what API servers
    fill in when they store a job. A partially admitted job says how many pods it runs in a place of its own.
    """
    if workload_set.get("name", DEFAULT_NAME) != pod_set.name or workload_set.get("minCount") != pod_set.min_count:
        return False
    partial = running and pod_set.min_count is not None
    if not partial and int(workload_set.get("count", 1)) != pod_set.count:
        return False
    fields = _CLAIMED_SPEC if not running else tuple(name for name in _CLAIMED_SPEC if name not in _INJECTED_SPEC)
    held, wanted = spec_of(workload_set.get("template") or {}), spec_of(sanitized(pod_set.template))
    return all(_meant(held.get(name)) == _meant(wanted.get(name)) for name in fields)


_CLAIMED_SPEC = ("containers", "initContainers", "tolerations")
_INJECTED_SPEC = ("nodeSelector", "tolerations", "schedulingGates")


def _same_spec(one: Obj, other: Obj, ignored: Iterable[str]) -> bool:
    """Whether two specs mean the same; only what is not equal as it stands is looked at closely."""
    for name in {**one, **other}:
        mine, yours = one.get(name), other.get(name)
        if mine != yours and name not in ignored and _meant(mine) != _meant(yours):
            return False
    return True


def _meant(value: Any) -> Any:
    return None if value in ({}, [], None) else _normal(value)


def _normal(value: Any) -> Any:
    """Empty maps and lists mean the same as absent ones."""
    if isinstance(value, dict):
        return {name: _normal(item) for name, item in value.items() if item not in ({}, [], None)}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return value
