"""Decoding Workloads: what they ask for, their order, and how far through its life a workload is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    is_deleting,
    key_of,
    labels_of,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
)
from corral.core.timestamps import parse_time
from corral.decide.queueing.devices.claims import Devices
from corral.decide.queueing.model.decode import created_at, version_of
from corral.decide.queueing.model.podsets import PodSetReader
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import PodSetInfo, WorkloadInfo
from corral.workload.lifecycle import is_backing_off

PREFIX = "kueue.x-k8s.io/"
GATES_ANNOTATION = PREFIX + "admission-gated-by"
BOOST_ANNOTATION = PREFIX + "priority-boost"
REPLACES_ANNOTATION = PREFIX + "workload-slice-replacement-for"
ELASTIC_ANNOTATION = PREFIX + "elastic-job"
FLAVORS_ANNOTATION = PREFIX + "workload-allowed-resource-flavors"
GROUP_ANNOTATION = PREFIX + "is-group-workload"
PARENT_LABEL = PREFIX + "concurrent-admission-parent"
JOB_UID_LABEL = PREFIX + "job-uid"

Conditions = Mapping[Any, Obj]
"""Conditions by type."""

_ONE_AFTER_THE_OTHER = 0.001
"""Seconds that put workloads in order whose times are equal."""


class WorkloadDecoder:
    """Builds WorkloadInfo values under fixed settings."""

    def __init__(
        self,
        settings: QueueingSettings,
        overheads: Mapping[str, Mapping[str, str]] | None = None,
        devices: Devices | None = None,
        rank_of: Callable[[Key, str], int] = lambda queue, flavor: 0,
    ) -> None:
        """`rank_of` says how far down a queue's list a flavor is."""
        self._settings = settings
        self._features = settings.features
        self._rank_of = rank_of
        self.pod_sets = PodSetReader(
            settings, {} if overheads is None else overheads, Devices(settings) if devices is None else devices
        )

    def decode(self, obj: Obj) -> WorkloadInfo:
        """The workload as the scheduler sees it now."""
        status = status_of(obj)
        found: Conditions = {entry.get("type"): entry for entry in status.get("conditions") or ()}
        # A parent only shows what one of its variants holds.
        holds = _is_true(found, "QuotaReserved") and not self._is_parent(obj)
        info = self._submitted(obj, status, status.get("admission") if holds else None)
        if found:
            info = self._progressed(info, found)
        if self._features.concurrent_admission:
            info = self._as_variant(info)
        return self._placed(info)

    def _submitted(self, obj: Obj, status: Obj, admission: Obj | None) -> WorkloadInfo:
        """What it asks for, or holds by `admission`; as if nothing else had happened to it yet."""
        spec, annotations = spec_of(obj), annotations_of(obj)
        key, created = key_of(obj), created_at(obj)
        asked = self.pod_sets.read(key.namespace, spec, status, admission)
        base = int(spec.get("priority") or 0)
        priority = base + (_boost(annotations) if self._features.priority_boost else 0)
        replaces = annotations.get(REPLACES_ANNOTATION) if self._features.elastic_slices else None
        requeue_at = (status.get("requeueState") or {}).get("requeueAt")
        return WorkloadInfo(
            key=key,
            uid=uid_of(obj),
            queue=spec.get("queueName") or "",
            priority=priority,
            base_priority=base,
            created=created,
            order_time=created,
            pod_sets=asked.infos,
            shape=(asked.shapes, priority, replaces, None),
            active=spec.get("active") is not False,
            reserving=admission is not None,
            deleting=is_deleting(obj),
            cluster_queue=admission.get("clusterQueue", "") if admission else "",
            requeue_at=parse_time(requeue_at) if requeue_at else None,
            on_hold=self._gate(annotations),
            check_states={
                check.get("name", ""): check.get("state", "Pending") for check in status.get("admissionChecks") or ()
            },
            gated_preemption=_has_closed_gate(spec, status),
            replaces=_replaced_key(key, replaces),
            elastic=annotations.get(ELASTIC_ANNOTATION) == "true",
            invalid=asked.invalid,
            uses_devices=asked.uses_devices,
            uncounted=asked.uncounted,
            job_uid=labels_of(obj).get(JOB_UID_LABEL, ""),
            version=version_of(obj),
            obj=obj,
        )

    def _progressed(self, info: WorkloadInfo, found: Conditions) -> WorkloadInfo:
        """How far it got, as its conditions say."""
        reserved, evicted = found.get("QuotaReserved") or {}, found.get("Evicted") or {}
        is_evicted = evicted.get("status") == "True"
        is_held = reserved.get("status") == "False" and reserved.get("reason") == "OnHold"
        return structs.replace(
            info,
            order_time=self._order_time(found, info.created),
            admitted=_is_true(found, "Admitted"),
            finished=_is_true(found, "Finished"),
            evicted=is_evicted,
            evicted_reason=evicted.get("reason", "") if is_evicted else "",
            reserved_at=_transition(reserved) if reserved.get("status") == "True" else None,
            # The end of a back-off is a matter of time: until somebody writes it down nobody must come first by chance.
            requeue_blocked=(found.get("Requeued") or {}).get("status") == "False" and not is_backing_off(info.obj),
            on_hold=info.on_hold or ("OnHold" if is_held else ""),
            pods_ready=_is_true(found, "PodsReady"),
        )

    def _order_time(self, found: Conditions, created: float) -> float:
        evicted, preempted = found.get("Evicted") or {}, found.get("Preempted") or {}
        if evicted.get("status") == "True":
            by_timeout = evicted.get("reason") == "PodsReadyTimeout" and self._settings.eviction_timestamp
            if by_timeout or evicted.get("reason") == "AdmissionCheck":
                return _transition(evicted) or created
        if (
            not self._features.priority_sorting_within_cohort
            and preempted.get("status") == "True"
            and preempted.get("reason") == "InCohortReclaimWhileBorrowing"
        ):
            # Later than the preemptor, which stays ahead.
            return (_transition(preempted) or created) + _ONE_AFTER_THE_OTHER
        return created

    def _gate(self, annotations: Mapping[str, str]) -> str:
        return "AdmissionGated" if self._features.admission_gates and annotations.get(GATES_ANNOTATION) else ""

    # -- concurrent admission -------------------------------------------------------------------------------------

    def _is_parent(self, obj: Obj) -> bool:
        return self._features.concurrent_admission and labels_of(obj).get(PARENT_LABEL) == "true"

    def _as_variant(self, info: WorkloadInfo) -> WorkloadInfo:
        """What concurrent admission makes of it: a parent that waits for its variants, a variant, or neither."""
        obj = info.obj
        if self._is_parent(obj):
            # Its variants are queued in its place.
            info = structs.replace(info, on_hold=info.on_hold or "ConcurrentAdmission")
        flavors = annotations_of(obj).get(FLAVORS_ANNOTATION)
        if flavors is None:
            return structs.replace(info, variant_of=_parent_uid(obj))
        preferred = flavors.partition(",")[0]
        # Variants are created in the same second; those on better flavors go first.
        rank = self._rank_of(Key(info.key.namespace, info.queue), preferred)
        return structs.replace(
            info,
            order_time=info.order_time + rank * _ONE_AFTER_THE_OTHER,
            shape=(*info.shape[:-1], flavors),
            allowed_flavors=frozenset(flavors.split(",")),
            variant_of=_parent_uid(obj),
            variant_flavor=preferred,
        )

    # -- places on nodes ------------------------------------------------------------------------------------------

    def _placed(self, info: WorkloadInfo) -> WorkloadInfo:
        """Whether its places on nodes have to be looked for, again or at last."""
        found = status_of(info.obj).get("unhealthyNodes")
        if not found and not info.reserving:
            return info
        unhealthy = tuple(node.get("name", "") for node in found or ())
        needs_places = info.reserving and not (info.finished or info.evicted or info.on_hold)
        needs_places = needs_places and (_awaits_topology(info) or _runs_on(unhealthy, info.pod_sets))
        if not unhealthy and not needs_places:
            return info
        return structs.replace(
            info,
            unhealthy_nodes=unhealthy,
            owned_by_pod=bool(unhealthy) and self._features.skip_pod_reassignment and _is_owned_by_pod(info.obj),
            needs_second_pass=needs_places,
        )


def priority_changed(old: WorkloadInfo, new: WorkloadInfo) -> bool:
    """Did a workload get another WorkloadPriorityClass, or its class another value? Pod priorities never change."""
    was, now = _priority_class(old.obj), _priority_class(new.obj)
    if was.get("kind") == "PriorityClass" or now.get("kind") != "WorkloadPriorityClass":
        return False
    return was.get("name") != now.get("name") or old.priority != new.priority


def _priority_class(obj: Obj) -> Obj:
    return spec_of(obj).get("priorityClassRef") or {}


def _is_true(found: Conditions, kind: str) -> bool:
    return (found.get(kind) or {}).get("status") == "True"


def _transition(entry: Obj) -> float | None:
    text = entry.get("lastTransitionTime")
    return parse_time(text) if text else None


def _boost(annotations: Mapping[str, str]) -> int:
    try:
        return int(annotations.get(BOOST_ANNOTATION, "0"))
    except ValueError:
        return 0


def _has_closed_gate(spec: Obj, status: Obj) -> bool:
    gates = spec.get("preemptionGates")
    if not gates:
        return False
    open_gates = {gate.get("name") for gate in status.get("preemptionGates") or () if gate.get("position") == "Open"}
    return any(gate.get("name") not in open_gates for gate in gates)


def _replaced_key(own: Key, name: str | None) -> Key | None:
    if not name:
        return None
    key = Key.parse(name)
    return key if key.namespace else Key(own.namespace, name)


def _parent_uid(obj: Obj) -> str:
    owners = (owner for owner in owner_references_of(obj) if owner.get("kind") == "Workload")
    return str(next((owner.get("uid") or owner.get("name") or "" for owner in owners), ""))


def _is_owned_by_pod(obj: Obj) -> bool:
    owners = owner_references_of(obj)
    grouped = annotations_of(obj).get(GROUP_ANNOTATION) == "true"
    return len(owners) == 1 and owners[0].get("kind") == "Pod" and owners[0].get("apiVersion") == "v1" and not grouped


def _awaits_topology(info: WorkloadInfo) -> bool:
    """Its places were left open until its checks are ready, and now they are."""
    delayed = any(pod_set.delayed_topology == "Pending" for pod_set in info.pod_sets)
    checks = info.check_states.values()
    return delayed and not info.admitted and bool(checks) and all(state == "Ready" for state in checks)


def _runs_on(nodes: tuple[str, ...], pod_sets: tuple[PodSetInfo, ...]) -> bool:
    return any(
        domain.values[-1] in nodes
        for pod_set in pod_sets
        if pod_set.topology_assignment is not None
        for domain in pod_set.topology_assignment.domains
    )
