"""What the pod sets of a Workload ask for: effective requests, counts, places, and what is wrong with them.

The costly part is the pod templates, and jobs of one kind come by the thousand with equal ones, so what a template
means is remembered by its content. A whole spec that waits is remembered as the object it is: its Workload comes by again with each
change of its status, and others may share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from corral.core.meta import Obj
from corral.decide.queueing.devices.claims import DeviceProblem, Devices
from corral.decide.queueing.model.amounts import add_into, parse_amount
from corral.decide.queueing.model.constraints import constraints_from, topology_request_from
from corral.decide.queueing.model.limit_ranges import (
    NO_LIMITS,
    Complaint,
    NamespaceLimits,
    complaints_text,
    outside_limit_ranges,
    requests_above_limits,
    with_defaults,
)
from corral.decide.queueing.model.requests import effective_requests, pod_requests
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import UNCONSTRAINED, Amounts, PodConstraints, PodSetInfo
from corral.decide.queueing.topology.encoding import decode_assignment

INVALID_RESOURCES = "resources validation failed"
OUTSIDE_LIMIT_RANGE = "resources didn't satisfy LimitRange constraints"

_MOST_REMEMBERED = 4096

Shapes = tuple[Any, ...]


class TemplateInfo(msgspec.Struct, frozen=True):
    """What one pod template means to the scheduler."""

    pod: Amounts
    effective: Amounts
    constraints: PodConstraints
    shape: tuple[Any, ...]
    """Hashable; equal for templates that nodes and flavors cannot tell apart."""
    invalid: tuple[Complaint, ...] = ()
    out_of_range: tuple[Complaint, ...] = ()
    claims: bool = False
    """Do its pods claim devices?"""


class PodSets(NamedTuple):
    """All pod sets of a workload, and what is wrong with them."""

    infos: tuple[PodSetInfo, ...]
    shapes: Shapes
    """Equal for pod sets that every queue treats alike."""
    invalid: str
    uses_devices: bool
    uncounted: str
    """Why devices cannot be counted."""


class PodSetReader:
    """Reads pod sets under fixed settings, remembering the templates it has seen."""

    def __init__(
        self, settings: QueueingSettings, overheads: Mapping[str, Mapping[str, str]], devices: Devices
    ) -> None:
        self._settings = settings
        self._overheads = overheads
        self._devices = devices
        self._limits: dict[str, NamespaceLimits] = {}
        """Limit ranges by namespace."""
        self._templates: dict[bytes, TemplateInfo] = {}
        self._known: dict[Shapes, tuple[tuple[PodSetInfo, ...], Shapes]] = {}
        self._waiting: dict[int, tuple[Obj, PodSets]] = {}
        """Specs by identity, which holds while they are kept here."""
        self._encode = msgspec.json.Encoder().encode

    def set_limits(self, namespace: str, limits: NamespaceLimits) -> None:
        """Say what the limit ranges of a namespace come to."""
        if limits == NO_LIMITS:
            self._limits.pop(namespace, None)
        else:
            self._limits[namespace] = limits

    def forget_templates(self) -> None:
        """Read templates anew, after overheads changed."""
        self._templates.clear()
        self._known.clear()
        self._waiting.clear()

    def read(self, namespace: str, spec: Obj, status: Obj, admission: Obj | None) -> PodSets:
        """Pod sets as they wait, or as `admission` gave them quota."""
        limits = self._limits.get(namespace, NO_LIMITS)
        if admission is not None or limits is not NO_LIMITS or "reclaimablePods" in status or self._devices.extended:
            return self._read(namespace, spec, status, admission, limits)
        known = self._waiting.get(id(spec))
        if known is not None:
            return known[1]
        found = self._read(namespace, spec, status, None, limits)
        if not found.uses_devices:  # what these come to depends on more than the spec
            if len(self._waiting) >= _MOST_REMEMBERED:
                self._waiting.clear()
            self._waiting[id(spec)] = spec, found
        return found

    def _read(self, namespace: str, spec: Obj, status: Obj, admission: Obj | None, limits: NamespaceLimits) -> PodSets:
        pod_sets = spec.get("podSets") or ()
        templates = [self._template((entry.get("template") or {}).get("spec") or {}, limits) for entry in pod_sets]
        infos = self._infos(pod_sets, templates, status, admission)
        uses_devices, uncounted = any(self._uses_devices(template) for template in templates), ""
        if uses_devices and admission is None:
            try:
                infos = self._with_devices(namespace, pod_sets, infos)
            except DeviceProblem as problem:
                uncounted = str(problem)
        shapes: Shapes = tuple(map(_shape, infos, templates))
        if admission is None:
            infos, shapes = self._shared(infos, shapes)
        return PodSets(infos, shapes, _complaint(templates), uses_devices, uncounted)

    def _infos(
        self, pod_sets: Sequence[Obj], templates: list[TemplateInfo], status: Obj, admission: Obj | None
    ) -> tuple[PodSetInfo, ...]:
        reclaimable: dict[str, int] = {}
        if self._settings.features.reclaimable_pods:
            reclaimable = {pods["name"]: pods.get("count", 0) for pods in status.get("reclaimablePods") or ()}
        assigned = {entry["name"]: entry for entry in (admission or {}).get("podSetAssignments") or ()}
        infos: list[PodSetInfo] = []
        for pod_set, template in zip(pod_sets, templates, strict=True):
            name, total = pod_set.get("name") or "main", pod_set.get("count", 1)
            count = total - min(total, reclaimable.get(name, 0))
            info = _waiting(name, pod_set, template, count)
            infos.append(_admitted(info, assigned[name]) if name in assigned else info)
        return tuple(infos)

    def _uses_devices(self, template: TemplateInfo) -> bool:
        extended = self._devices.extended
        return template.claims or (bool(extended) and not extended.keys().isdisjoint(template.pod))

    def _with_devices(
        self, namespace: str, pod_sets: Sequence[Obj], infos: tuple[PodSetInfo, ...]
    ) -> tuple[PodSetInfo, ...]:
        """Devices counted under the names quota knows them by; raises DeviceProblem."""
        counted: list[PodSetInfo] = []
        for info, demand in zip(infos, self._devices.resolve(namespace, pod_sets), strict=True):
            per_pod = {name: amount for name, amount in info.per_pod.items() if name not in demand.replaced}
            add_into(per_pod, demand.added)
            requests = {name: amount * info.count for name, amount in per_pod.items()}
            counted.append(msgspec.structs.replace(info, per_pod=per_pod, requests=requests))
        return tuple(counted)

    def _shared(self, infos: tuple[PodSetInfo, ...], shapes: Shapes) -> tuple[tuple[PodSetInfo, ...], Shapes]:
        """Equal pending pod sets as one value: a million waiting workloads of one kind share it."""
        known = self._known.get(shapes)
        if known is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            known = self._known[shapes] = (infos, shapes)
        return known

    # -- templates ------------------------------------------------------------------------------------------------

    def _template(self, spec: Obj, limits: NamespaceLimits) -> TemplateInfo:
        """The meaning of a pod spec; equal specs cost one dictionary lookup."""
        if limits is not NO_LIMITS:
            return self._read_template(spec, limits)
        content = self._encode(spec)
        known = self._templates.get(content)
        if known is None:
            if len(self._templates) >= _MOST_REMEMBERED:
                self._templates.clear()
            known = self._templates[content] = self._read_template(spec, limits)
        return known

    def _read_template(self, spec: Obj, limits: NamespaceLimits) -> TemplateInfo:
        spec = with_defaults(spec, limits)
        requests = pod_requests(spec, self._overheads.get(spec.get("runtimeClassName") or ""))
        constraints = constraints_from(spec, preferences=self._settings.features.topology_preferred_affinity)
        placement = [spec.get(field) for field in ("nodeSelector", "affinity", "tolerations")]
        return TemplateInfo(
            pod=requests,
            effective=effective_requests(requests, self._settings),
            constraints=constraints,
            shape=(
                tuple(sorted(requests.items())),
                b"" if constraints == UNCONSTRAINED else msgspec.json.encode(placement, order="sorted"),
            ),
            invalid=tuple(requests_above_limits(spec)),
            out_of_range=tuple(outside_limit_ranges(spec, requests, limits)),
            claims=bool(spec.get("resourceClaims")),
        )


def _waiting(name: str, pod_set: Obj, template: TemplateInfo, count: int) -> PodSetInfo:
    """A pod set as it asks for quota."""
    requests = template.effective
    return PodSetInfo(
        name=name,
        count=count,
        spec_count=pod_set.get("count", 1),
        min_count=pod_set.get("minCount"),
        per_pod=requests,
        requests=requests if count == 1 else {resource: amount * count for resource, amount in requests.items()},
        pod_requests=template.pod,
        constraints=template.constraints,
        topology=topology_request_from(pod_set.get("topologyRequest")),
    )


def _admitted(info: PodSetInfo, assigned: Obj) -> PodSetInfo:
    """A pod set as it was given quota."""
    admitted = assigned.get("count")
    admitted = info.spec_count if admitted is None else admitted
    usage = {name: parse_amount(name, quantity) for name, quantity in (assigned.get("resourceUsage") or {}).items()}
    per_pod = {resource: amount // admitted for resource, amount in usage.items()} if admitted else dict(usage)
    if info.count < admitted:
        usage = {resource: amount * info.count for resource, amount in per_pod.items()}
    return msgspec.structs.replace(
        info,
        count=min(info.count, admitted),
        per_pod=per_pod,
        requests=usage,
        flavors=assigned.get("flavors") or {},
        topology_assignment=decode_assignment(assigned.get("topologyAssignment")),
        delayed_topology=assigned.get("delayedTopologyRequest") or "",
    )


def _shape(info: PodSetInfo, template: TemplateInfo) -> tuple[Any, ...]:
    requests = tuple(sorted(info.requests.items()))
    return info.name, info.count, info.spec_count, requests, info.min_count, template.shape, info.topology


def _complaint(templates: list[TemplateInfo]) -> str:
    """Why requests can never be admitted; empty when they can."""
    invalid = [complaint.text(index) for index, found in enumerate(templates) for complaint in found.invalid]
    if invalid:
        return f"{INVALID_RESOURCES}: {complaints_text(invalid)}"
    out_of_range = [complaint.text(index) for index, found in enumerate(templates) for complaint in found.out_of_range]
    return f"{OUTSIDE_LIMIT_RANGE}: {complaints_text(out_of_range)}" if out_of_range else ""
