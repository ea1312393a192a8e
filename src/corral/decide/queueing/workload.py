"""Decoding Workloads: effective requests, order, and how far through its life a workload is.

The costly part of a Workload is its pod templates, and jobs of one kind come by the thousand with equal ones, so
what a template means is remembered by its content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    generation_of,
    is_deleting,
    key_of,
    labels_of,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
)
from corral.core.timestamps import parse_time
from corral.decide.queueing.amounts import add_into, parse_amount
from corral.decide.queueing.constraints import constraints_from, topology_request_from
from corral.decide.queueing.decode import created_at, version_of
from corral.decide.queueing.devices import DeviceProblem, Devices
from corral.decide.queueing.limits import (
    NO_LIMITS,
    Complaint,
    NamespaceLimits,
    complaints_text,
    outside_limit_ranges,
    requests_above_limits,
    with_defaults,
)
from corral.decide.queueing.model import (
    UNCONSTRAINED,
    Amounts,
    PodConstraints,
    PodSetInfo,
    TopologyRequest,
    WorkloadInfo,
)
from corral.decide.queueing.requests import effective_requests, pod_requests
from corral.decide.queueing.settings import QueueingSettings
from corral.decide.queueing.topology.encoding import decode_assignment

PREFIX = "kueue.x-k8s.io/"
GATES_ANNOTATION = PREFIX + "admission-gated-by"
BOOST_ANNOTATION = PREFIX + "priority-boost"
REPLACES_ANNOTATION = PREFIX + "workload-slice-replacement-for"
ELASTIC_ANNOTATION = PREFIX + "elastic-job"
FLAVORS_ANNOTATION = PREFIX + "workload-allowed-resource-flavors"
GROUP_ANNOTATION = PREFIX + "is-group-workload"
PARENT_LABEL = PREFIX + "concurrent-admission-parent"
JOB_UID_LABEL = PREFIX + "job-uid"

INVALID_RESOURCES = "resources validation failed"
OUTSIDE_LIMIT_RANGE = "resources didn't satisfy LimitRange constraints"

_MAX_TEMPLATES = 4096


PodSets = tuple[PodSetInfo, ...]
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


class _PodSets(NamedTuple):
    """All pod sets of a workload, and what is wrong with them."""

    infos: PodSets
    shapes: Shapes
    invalid: str = ""
    uses_devices: bool = False
    uncounted: str = ""


class WorkloadDecoder:
    """Builds WorkloadInfo values under fixed settings, remembering pod templates it has seen."""

    def __init__(
        self,
        settings: QueueingSettings,
        overheads: Mapping[str, Mapping[str, str]] | None = None,
        devices: Devices | None = None,
        rank_of: Callable[[Key, str], int] = lambda queue, flavor: 0,
    ) -> None:
        """`rank_of` says how far down a queue's list a flavor is."""
        self.settings = settings
        self._rank_of = rank_of
        self.overheads = {} if overheads is None else overheads
        self.devices = devices or Devices(settings)
        self.limits: dict[str, NamespaceLimits] = {}
        """Limit ranges by namespace."""
        self._templates: dict[bytes, TemplateInfo] = {}
        self._known: dict[Shapes, tuple[PodSets, Shapes]] = {}
        self._encode = msgspec.json.Encoder().encode

    def set_limits(self, namespace: str, limits: NamespaceLimits) -> None:
        """Say what the limit ranges of a namespace come to."""
        if limits == NO_LIMITS:
            self.limits.pop(namespace, None)
        else:
            self.limits[namespace] = limits

    def forget_templates(self) -> None:
        """Read pod templates anew, after overheads changed."""
        self._templates.clear()
        self._known.clear()

    def template(self, spec: Obj, limits: NamespaceLimits = NO_LIMITS) -> TemplateInfo:
        """The meaning of a pod spec; equal specs cost one dictionary lookup."""
        if limits is not NO_LIMITS:
            return self._read_template(spec, limits)
        content = self._encode(spec)
        known = self._templates.get(content)
        if known is None:
            if len(self._templates) >= _MAX_TEMPLATES:
                self._templates.clear()
            known = self._templates[content] = self._read_template(spec, limits)
        return known

    def _read_template(self, spec: Obj, limits: NamespaceLimits) -> TemplateInfo:
        spec = with_defaults(spec, limits)
        requests = pod_requests(spec, self.overheads.get(spec.get("runtimeClassName") or ""))
        constraints = constraints_from(spec, preferences=self.settings.features.topology_preferred_affinity)
        placement = [spec.get(field) for field in ("nodeSelector", "affinity", "tolerations")]
        return TemplateInfo(
            pod=requests,
            effective=effective_requests(requests, self.settings),
            constraints=constraints,
            shape=(
                tuple(sorted(requests.items())),
                b"" if constraints == UNCONSTRAINED else msgspec.json.encode(placement, order="sorted"),
            ),
            invalid=tuple(requests_above_limits(spec)),
            out_of_range=tuple(outside_limit_ranges(spec, requests, limits)),
            claims=bool(spec.get("resourceClaims")),
        )

    def decode(self, obj: Obj) -> WorkloadInfo:
        """The workload as the scheduler sees it now."""
        spec, status = spec_of(obj), status_of(obj)
        found = {entry.get("type"): entry for entry in status.get("conditions") or ()}
        annotations = annotations_of(obj)
        reserved, evicted = _true(found, "QuotaReserved"), _true(found, "Evicted")
        is_parent = self.settings.features.concurrent_admission and labels_of(obj).get(PARENT_LABEL) == "true"
        # A parent only shows what one of its variants holds.
        admission = status.get("admission") if reserved and not is_parent else None
        limits = self.limits.get(key_of(obj).namespace, NO_LIMITS) if self.limits else NO_LIMITS
        found_sets = self._pod_sets(spec, status, admission, limits)
        if found_sets.uses_devices and admission is None:
            found_sets = self._with_devices(key_of(obj).namespace, spec["podSets"], found_sets)
        pod_sets, shapes = found_sets.infos, found_sets.shapes
        if admission is None:
            pod_sets, shapes = self._shared(pod_sets, shapes)
        base = int(spec.get("priority") or 0)
        priority = base + (_boost(annotations) if self.settings.features.priority_boost else 0)
        flavors = annotations.get(FLAVORS_ANNOTATION) if self.settings.features.concurrent_admission else None
        replaces = annotations.get(REPLACES_ANNOTATION) if self.settings.features.elastic_slices else None
        checks = {check.get("name", ""): check.get("state", "Pending") for check in status.get("admissionChecks") or ()}
        requeue_at = (status.get("requeueState") or {}).get("requeueAt")
        created = created_at(obj)
        finished = _true(found, "Finished")
        gated = self.settings.features.admission_gates and bool(annotations.get(GATES_ANNOTATION))
        on_hold = "AdmissionGated" if gated else _hold_reason(found)
        if is_parent:
            # Its variants are queued in its place.
            on_hold = on_hold or "ConcurrentAdmission"
        unhealthy = tuple(node.get("name", "") for node in status.get("unhealthyNodes") or ())
        return WorkloadInfo(
            key=key_of(obj),
            uid=uid_of(obj),
            queue=spec.get("queueName") or "",
            priority=priority,
            base_priority=base,
            created=created,
            order_time=self._order_time(found, created) + (self._behind_siblings(obj, flavors) if flavors else 0.0),
            pod_sets=pod_sets,
            shape=(shapes, priority, replaces, flavors),
            active=spec.get("active") is not False,
            reserving=admission is not None,
            admitted=_true(found, "Admitted"),
            finished=finished,
            evicted=evicted,
            evicted_reason=(found.get("Evicted") or {}).get("reason", "") if evicted else "",
            deleting=is_deleting(obj),
            cluster_queue=admission.get("clusterQueue", "") if admission else "",
            reserved_at=_transition(found.get("QuotaReserved")) if reserved else None,
            requeue_at=parse_time(requeue_at) if requeue_at else None,
            requeue_blocked=(found.get("Requeued") or {}).get("status") == "False",
            on_hold=on_hold,
            check_states=checks,
            failed_checks=any(state in ("Retry", "Rejected") for state in checks.values()),
            gated_preemption=_has_closed_gate(spec, status),
            pods_ready=_true(found, "PodsReady"),
            replaces=_replaced_key(obj, replaces),
            elastic=annotations.get(ELASTIC_ANNOTATION) == "true",
            allowed_flavors=None if flavors is None else frozenset(flavors.split(",")),
            variant_of=_parent_uid(obj) if self.settings.features.concurrent_admission else "",
            variant_flavor="" if flavors is None else flavors.partition(",")[0],
            unhealthy_nodes=unhealthy,
            owned_by_pod=bool(unhealthy) and self.settings.features.skip_pod_reassignment and _is_owned_by_pod(obj),
            invalid=found_sets.invalid,
            uses_devices=found_sets.uses_devices,
            uncounted=found_sets.uncounted,
            needs_second_pass=not (finished or evicted or admission is None or on_hold)
            and _needs_second_pass(pod_sets, checks, unhealthy, _true(found, "Admitted")),
            job_uid=labels_of(obj).get(JOB_UID_LABEL, ""),
            generation=generation_of(obj),
            version=version_of(obj),
            obj=obj,
        )

    def _shared(self, pod_sets: PodSets, shapes: Shapes) -> tuple[PodSets, Shapes]:
        """Equal pending pod sets as one value: a million waiting workloads of one kind share it."""
        known = self._known.get(shapes)
        if known is None:
            if len(self._known) >= _MAX_TEMPLATES:
                self._known.clear()
            known = self._known[shapes] = (pod_sets, shapes)
        return known

    def _behind_siblings(self, obj: Obj, flavors: str) -> float:
        """Variants are created in the same second; those on better flavors go first."""
        queue = Key(key_of(obj).namespace, spec_of(obj).get("queueName") or "")
        return 0.001 * self._rank_of(queue, flavors.partition(",")[0])

    def _order_time(self, found: Mapping[Any, Obj], created: float) -> float:
        evicted = found.get("Evicted") or {}
        if evicted.get("status") == "True":
            by_timeout = evicted.get("reason") == "PodsReadyTimeout" and self.settings.eviction_timestamp
            if by_timeout or evicted.get("reason") == "AdmissionCheck":
                return _transition(evicted) or created
        preempted = found.get("Preempted") or {}
        if (
            not self.settings.features.priority_sorting_within_cohort
            and preempted.get("status") == "True"
            and preempted.get("reason") == "InCohortReclaimWhileBorrowing"
        ):
            # One millisecond later than the preemptor, so that the preemptor stays ahead.
            return (_transition(preempted) or created) + 0.001
        return created

    def _pod_sets(self, spec: Obj, status: Obj, admission: Obj | None, limits: NamespaceLimits) -> _PodSets:
        reclaimable: dict[str, int] = {}
        if self.settings.features.reclaimable_pods:
            reclaimable = {pods["name"]: pods.get("count", 0) for pods in status.get("reclaimablePods") or ()}
        assigned = {entry["name"]: entry for entry in (admission or {}).get("podSetAssignments") or ()}
        decoded: list[PodSetInfo] = []
        shapes: list[Any] = []
        invalid: list[str] = []
        out_of_range: list[str] = []
        extended = self.devices.extended
        uses_devices = False
        for index, pod_set in enumerate(spec.get("podSets") or ()):
            name = pod_set.get("name") or "main"
            template = self.template((pod_set.get("template") or {}).get("spec") or {}, limits)
            uses_devices = (
                uses_devices or template.claims or (bool(extended) and not extended.keys().isdisjoint(template.pod))
            )
            total = pod_set.get("count", 1)
            count = total - min(total, reclaimable.get(name, 0))
            topology = topology_request_from(pod_set.get("topologyRequest"))
            entry = assigned.get(name)
            if entry is None:
                info = _pending_pod_set(name, pod_set, template, count, topology)
            else:
                info = _admitted_pod_set(name, pod_set, template, count, topology, entry)
            decoded.append(info)
            effective = tuple(sorted(info.requests.items()))
            shapes.append((name, count, info.spec_count, effective, info.min_count, template.shape, topology))
            invalid.extend(complaint.text(index) for complaint in template.invalid)
            out_of_range.extend(complaint.text(index) for complaint in template.out_of_range)
        problem = ""
        if invalid:
            problem = f"{INVALID_RESOURCES}: {complaints_text(invalid)}"
        elif out_of_range:
            problem = f"{OUTSIDE_LIMIT_RANGE}: {complaints_text(out_of_range)}"
        return _PodSets(tuple(decoded), tuple(shapes), problem, uses_devices)

    def _with_devices(self, namespace: str, pod_sets: list[Obj], found: _PodSets) -> _PodSets:
        """Devices counted under the names quota knows them by."""
        try:
            demands = self.devices.resolve(namespace, pod_sets)
        except DeviceProblem as problem:
            return found._replace(uncounted=str(problem))
        infos: list[PodSetInfo] = []
        shapes: list[Any] = []
        for info, shape, demand in zip(found.infos, found.shapes, demands, strict=True):
            per_pod = {name: amount for name, amount in info.per_pod.items() if name not in demand.replaced}
            add_into(per_pod, demand.added)
            requests = {name: amount * info.count for name, amount in per_pod.items()}
            infos.append(msgspec.structs.replace(info, per_pod=per_pod, requests=requests))
            shapes.append((*shape[:3], tuple(sorted(requests.items())), *shape[4:]))
        return found._replace(infos=tuple(infos), shapes=tuple(shapes))


def _pending_pod_set(
    name: str, pod_set: Obj, template: TemplateInfo, count: int, topology: TopologyRequest | None
) -> PodSetInfo:
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
        topology=topology,
    )


def _admitted_pod_set(
    name: str, pod_set: Obj, template: TemplateInfo, count: int, topology: TopologyRequest | None, entry: Obj
) -> PodSetInfo:
    admitted = entry.get("count")
    admitted = pod_set.get("count", 1) if admitted is None else admitted
    usage = {name: parse_amount(name, quantity) for name, quantity in (entry.get("resourceUsage") or {}).items()}
    per_pod = {resource: amount // admitted for resource, amount in usage.items()} if admitted else dict(usage)
    if count < admitted:
        usage = {resource: amount * count for resource, amount in per_pod.items()}
    return PodSetInfo(
        name=name,
        count=min(count, admitted),
        spec_count=pod_set.get("count", 1),
        min_count=pod_set.get("minCount"),
        per_pod=per_pod,
        requests=usage,
        pod_requests=template.pod,
        constraints=template.constraints,
        topology=topology,
        flavors=entry.get("flavors") or {},
        topology_assignment=decode_assignment(entry.get("topologyAssignment")),
        delayed_topology=entry.get("delayedTopologyRequest") or "",
    )


def priority_changed(old: WorkloadInfo, new: WorkloadInfo) -> bool:
    """Did a workload get another WorkloadPriorityClass, or its class another value? Pod priorities never change."""
    was, now = _priority_class(old.obj), _priority_class(new.obj)
    if was.get("kind") == "PriorityClass" or now.get("kind") != "WorkloadPriorityClass":
        return False
    return was.get("name") != now.get("name") or old.priority != new.priority


def _priority_class(obj: Obj) -> Obj:
    return spec_of(obj).get("priorityClassRef") or {}


def _true(found: Mapping[Any, Obj], kind: str) -> bool:
    return (found.get(kind) or {}).get("status") == "True"


def _transition(entry: Obj | None) -> float | None:
    text = (entry or {}).get("lastTransitionTime")
    return parse_time(text) if text else None


def _boost(annotations: Mapping[str, str]) -> int:
    try:
        return int(annotations.get(BOOST_ANNOTATION, "0"))
    except ValueError:
        return 0


def _hold_reason(found: Mapping[Any, Obj]) -> str:
    reserved = found.get("QuotaReserved") or {}
    return "OnHold" if reserved.get("status") == "False" and reserved.get("reason") == "OnHold" else ""


def _has_closed_gate(spec: Obj, status: Obj) -> bool:
    gates = spec.get("preemptionGates")
    if not gates:
        return False
    open_gates = {gate.get("name") for gate in status.get("preemptionGates") or () if gate.get("position") == "Open"}
    return any(gate.get("name") not in open_gates for gate in gates)


def _replaced_key(obj: Obj, name: str | None) -> Key | None:
    if not name:
        return None
    key = Key.parse(name)
    return key if key.namespace else Key(key_of(obj).namespace, name)


def _parent_uid(obj: Obj) -> str:
    owners = (owner for owner in owner_references_of(obj) if owner.get("kind") == "Workload")
    return str(next((owner.get("uid") or owner.get("name") or "" for owner in owners), ""))


def _is_owned_by_pod(obj: Obj) -> bool:
    owners = owner_references_of(obj)
    grouped = annotations_of(obj).get(GROUP_ANNOTATION) == "true"
    return len(owners) == 1 and owners[0].get("kind") == "Pod" and owners[0].get("apiVersion") == "v1" and not grouped


def _needs_second_pass(
    pod_sets: tuple[PodSetInfo, ...], checks: Mapping[str, str], unhealthy: tuple[str, ...], admitted: bool
) -> bool:
    delayed = any(pod_set.delayed_topology == "Pending" for pod_set in pod_sets)
    if delayed and not admitted and checks and all(state == "Ready" for state in checks.values()):
        return True
    return any(
        domain.values[-1] in unhealthy
        for pod_set in pod_sets
        if pod_set.topology_assignment is not None
        for domain in pod_set.topology_assignment.domains
    )
