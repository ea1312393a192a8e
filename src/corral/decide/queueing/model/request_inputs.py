"""What a workload requests depends on more than its own object: RuntimeClass overheads, LimitRanges, device classes.

A workload that holds quota keeps what was reserved. A waiting one has to be decoded again when one of these inputs
changes, so every setter returns a predicate that selects the workloads concerned, or None when there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from corral.core.meta import Key, Obj, key_of, name_of, spec_of
from corral.decide.queueing.devices.claims import Devices
from corral.decide.queueing.model.limit_ranges import namespace_limits
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import WorkloadInfo
from corral.decide.queueing.model.workload import WorkloadDecoder

WorkloadPredicate = Callable[[WorkloadInfo], bool]
"""Does a changed input concern this workload?"""


class RequestInputs:
    """Decodes Workloads with the current overheads, limit ranges and devices."""

    def __init__(
        self,
        settings: QueueingSettings,
        overheads: Mapping[str, Mapping[str, str]],
        rank_of: Callable[[Key, str], int],
    ) -> None:
        self._overheads = dict(overheads)
        self._devices = Devices(settings)
        decoder = WorkloadDecoder(settings, self._overheads, self._devices, rank_of)
        self._pod_sets = decoder.pod_sets
        self.decode = decoder.decode

    def set_runtime_class(self, name: str, overhead: Mapping[str, str]) -> WorkloadPredicate | None:
        if self._overheads.get(name) == overhead:
            return None
        self._overheads[name] = overhead
        self._pod_sets.forget_templates()
        return lambda info: _runs_in(info, name)

    def set_limit_ranges(self, namespace: str, limit_ranges: Iterable[Obj]) -> WorkloadPredicate:
        self._pod_sets.set_limits(namespace, namespace_limits(limit_ranges))
        return lambda info: info.key.namespace == namespace

    def set_device_class(self, obj: Obj) -> WorkloadPredicate:
        before = self._devices.extended
        self._devices.set_class(obj)
        return self._users_of_changed(before)

    def delete_device_class(self, name: str) -> WorkloadPredicate:
        before = self._devices.extended
        self._devices.delete_class(name)
        return self._users_of_changed(before)

    def set_claim_template(self, obj: Obj) -> WorkloadPredicate:
        key = key_of(obj)
        self._devices.templates[key] = obj
        return _device_users_in(key.namespace)

    def delete_claim_template(self, key: Key) -> WorkloadPredicate | None:
        if self._devices.templates.pop(key, None) is None:
            return None
        return _device_users_in(key.namespace)

    def set_resource_slice(self, obj: Obj) -> WorkloadPredicate:
        self._devices.slices[name_of(obj)] = obj
        return _uses_devices

    def delete_resource_slice(self, name: str) -> WorkloadPredicate | None:
        return None if self._devices.slices.pop(name, None) is None else _uses_devices

    def _users_of_changed(self, before: Mapping[str, str]) -> WorkloadPredicate:
        """Those that use devices, or name an extended resource that another class provides now."""
        changed = {name for name, _ in before.items() ^ self._devices.extended.items()}
        return lambda info: (
            info.uses_devices or any(not changed.isdisjoint(entry.pod_requests) for entry in info.pod_sets)
        )


def _uses_devices(info: WorkloadInfo) -> bool:
    return info.uses_devices


def _device_users_in(namespace: str) -> WorkloadPredicate:
    return lambda info: info.uses_devices and info.key.namespace == namespace


def _runs_in(info: WorkloadInfo, runtime_class: str) -> bool:
    """Do pods of a workload name this RuntimeClass?"""
    return any(
        spec_of(pod_set.get("template") or {}).get("runtimeClassName") == runtime_class
        for pod_set in spec_of(info.obj).get("podSets") or ()
    )
