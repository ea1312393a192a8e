"""Devices of dynamic resource allocation as quota: what the claims of a pod count for.

Quota knows devices by the names the configuration gives to their classes. A claim made from a ResourceClaimTemplate
counts as many of them as it requests, or, where the class is mapped to a counter of partitionable devices, what the
largest matching device draws from it. An extended resource that a DeviceClass provides counts under the same name. What
cannot be counted keeps its workload out of the queues; the problem is worded as the API would word it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from corral.core.cel import CelError
from corral.core.meta import Key, Obj, metadata_of, name_of, spec_of
from corral.core.quantity import Quantity
from corral.decide.queueing.devices.selectors import (
    Selector,
    as_device,
    compiled,
    current_devices,
    expressions,
    matches_all,
)
from corral.decide.queueing.model.amounts import add_into, parse_amount
from corral.decide.queueing.model.settings import CounterSource, QueueingSettings
from corral.decide.queueing.model.values import Amounts

GATE_OFF = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
NO_PLAIN_CLAIMS = "KueueDRAIntegration feature does not support use of resource claims"


class DeviceProblem(Exception):
    """Why the devices of a workload cannot be counted."""


class Demand(NamedTuple):
    """What the devices of one pod mean for quota."""

    added: Amounts
    replaced: frozenset[str]
    """Extended resources that are counted under another name."""


class _Request(msgspec.Struct, frozen=True):
    """One request of a claim, and where it stands."""

    path: str
    template: str
    device_class: str
    count: int
    selectors: list[str]


class Devices:
    """All that is known about devices: classes, templates of claims, and what drivers publish."""

    def __init__(self, settings: QueueingSettings) -> None:
        self._features = settings.features
        self._names: dict[str, str] = {}
        self._counters: dict[str, list[tuple[str, CounterSource]]] = {}
        for mapping in settings.device_mappings:
            for device_class in mapping.classes:
                self._names.setdefault(device_class, mapping.resource)
                self._counters.setdefault(device_class, []).extend(
                    (mapping.resource, source) for source in mapping.counters
                )
        self.classes: dict[str, Obj] = {}
        self.templates: dict[Key, Obj] = {}
        self.slices: dict[str, Obj] = {}
        self.extended: dict[str, str] = {}
        """The class that provides an extended resource."""

    def set_class(self, obj: Obj) -> None:
        self.classes[name_of(obj)] = obj
        self._provide()

    def delete_class(self, name: str) -> None:
        self.classes.pop(name, None)
        self._provide()

    def _provide(self) -> None:
        """The class created last provides an extended resource; among equally old ones the first by name."""
        provided: dict[str, Obj] = {}
        if self._features.devices and self._features.devices_extended:
            for name in sorted(self.classes):
                resource = spec_of(self.classes[name]).get("extendedResourceName")
                if resource and (
                    resource not in provided or _created(self.classes[name]) > _created(provided[resource])
                ):
                    provided[resource] = self.classes[name]
        self.extended = {resource: name_of(found) for resource, found in provided.items()}

    def resolve(self, namespace: str, pod_sets: Sequence[Obj]) -> list[Demand]:
        """Demands of one pod of every pod set; raises DeviceProblem."""
        specs = [(entry.get("template") or {}).get("spec") or {} for entry in pod_sets]
        claims = [claim for spec in specs for claim in spec.get("resourceClaims") or ()]
        if not self._features.devices:
            if claims and self._features.devices_rejected_when_off:
                raise DeviceProblem(GATE_OFF)
            return [Demand({}, frozenset()) for _ in specs]
        if any(claim.get("resourceClaimName") is not None for claim in claims):
            raise DeviceProblem(NO_PLAIN_CLAIMS)
        names = [str(entry.get("name", "")) for entry in pod_sets]
        requests = [
            self._requests(namespace, index, name, spec)
            for index, (name, spec) in enumerate(zip(names, specs, strict=True))
        ]
        added = [self._whole_devices(name, found) for name, found in zip(names, requests, strict=True)]
        replaced = self._replaced(specs, added)
        for found, total in zip(requests, added, strict=True):
            self._count(found, total)
        return [Demand(total, gone) for total, gone in zip(added, replaced, strict=True)]

    # -- claims ---------------------------------------------------------------------------------------------------

    def _requests(self, namespace: str, index: int, pod_set: str, spec: Obj) -> list[_Request]:
        found: list[_Request] = []
        for at, claim in enumerate(spec.get("resourceClaims") or ()):
            name = claim.get("resourceClaimTemplateName")
            if name is None:
                continue
            place = f"spec.podSets[{index}].template.spec.resourceClaims[{at}]"
            template = self.templates.get(Key(namespace, name))
            if template is None:
                raise DeviceProblem(
                    f"{place}: Internal error: failed to get claim spec for ResourceClaimTemplate {name} in podset "
                    f'{pod_set}: resourceclaimtemplates.resource.k8s.io "{name}" not found'
                )
            devices = ((spec_of(template).get("spec") or {}).get("devices")) or {}
            requests = [
                _request(place, name, number, entry) for number, entry in enumerate(devices.get("requests") or ())
            ]
            self._check_selectors(place, requests)
            found.extend(requests)
        return found

    def _check_selectors(self, place: str, requests: Iterable[_Request]) -> None:
        """Requests with selectors need as many devices as they ask for, each device serving one of them."""
        taken: set[int] = set()
        devices: list[dict[str, Any]] | None = None
        for request in requests:
            if not request.selectors:
                continue
            if devices is None:
                devices = [
                    as_device(str(spec_of(entry).get("driver", "")), device)
                    for entry in self.slices.values()
                    for device in spec_of(entry).get("devices") or ()
                ]
            where = f"{request.path}.exactly.selectors"
            mine = _compiled(request.selectors, where, request.template)
            theirs = self._class_selectors(request)
            try:
                matching = [
                    at
                    for at, device in enumerate(devices)
                    if at not in taken and matches_all(theirs, device) and matches_all(mine, device)
                ][: request.count]
            except CelError as error:
                raise DeviceProblem(
                    f'{where}: Invalid value: "null": ResourceClaimTemplate {request.template}: CEL evaluation failed '
                    f"for DeviceClass {request.device_class}: {error}"
                ) from error
            taken.update(matching)
            if len(matching) < request.count:
                raise DeviceProblem(
                    f"{where}: Internal error: ResourceClaimTemplate {request.template}: insufficient matching devices "
                    f"for CEL selector in DeviceClass {request.device_class}: {len(matching)} device(s) match in the "
                    f"cluster but {request.count} requested"
                )

    def _class_selectors(self, request: _Request) -> list[Selector]:
        found = self.classes.get(request.device_class)
        if found is None:
            name = request.device_class
            raise DeviceProblem(
                f"{request.path}: Internal error: ResourceClaimTemplate {request.template}: failed to get DeviceClass "
                f'{name}: deviceclasses.resource.k8s.io "{name}" not found'
            )
        texts = expressions(spec_of(found).get("selectors"))
        return _compiled(
            texts, request.path, request.template, f"DeviceClass {request.device_class} has invalid CEL selector"
        )

    def _whole_devices(self, pod_set: str, requests: Iterable[_Request]) -> Amounts:
        total: Amounts = {}
        for request in requests:
            name = self._names.get(request.device_class)
            if name is None:
                place = request.path.partition(".devices.")[0]
                text = f"DeviceClass {request.device_class} is not mapped in DRA configuration for podset {pod_set}"
                raise DeviceProblem(f"{place}.resourceClaimTemplateName: Not found: {json.dumps(text)}")
            if not self._counted_by(request.device_class):
                add_into(total, {name: request.count})
        return total

    # -- partitionable devices ------------------------------------------------------------------------------------

    def _counted_by(self, device_class: str) -> list[tuple[str, CounterSource]]:
        return self._counters.get(device_class, []) if self._features.devices_partitioned else []

    def _count(self, requests: Iterable[_Request], total: Amounts) -> None:
        for request in requests:
            for resource, source in self._counted_by(request.device_class):
                amount = self._largest_draw(request, source)
                add_into(total, {resource: parse_amount(resource, amount) * request.count})

    def _largest_draw(self, request: _Request, source: CounterSource) -> str:
        """What the largest device that could serve the request takes of the counter."""
        selectors = [
            *_compiled([source.selector], request.path, "", "deviceSelector CEL compilation failed"),
            *self._class_selectors(request),
            *_compiled(request.selectors, f"{request.path}.exactly.selectors", request.template),
        ]
        try:
            matching = [
                device
                for device in current_devices(self.slices.values(), source.driver)
                if matches_all(selectors, as_device(source.driver, device))
            ]
        except CelError as error:
            raise DeviceProblem(f"{request.path}: Internal error: CEL evaluation error: {error}") from error
        if len(matching) < request.count:
            raise DeviceProblem(
                f"{request.path}: Internal error: insufficient matching devices for counter driver: "
                f"{len(matching)} device(s) match but {request.count} requested"
            )
        drawn = [
            str(entry["counters"][source.counter].get("value", "0"))
            for device in matching
            for entry in device.get("consumesCounters") or ()
            if source.counter in (entry.get("counters") or {})
        ]
        if not drawn:
            raise DeviceProblem(
                f"{request.path}: Internal error: matched devices have no consumesCounters entry for counter "
                f"{json.dumps(source.counter)}"
            )
        return max([*drawn, "0"], key=Quantity.parse)

    # -- extended resources ---------------------------------------------------------------------------------------

    def _replaced(self, specs: Sequence[Obj], added: Sequence[Amounts]) -> list[frozenset[str]]:
        """Extended resources that classes provide, added to what claims count for."""
        problems: list[str] = []
        gone: list[frozenset[str]] = []
        for index, (spec, total) in enumerate(zip(specs, added, strict=True)):
            found: set[str] = set()
            for resource, amount, place in _extended_totals(index, spec, self.extended, problems):
                device_class = self.extended[resource]
                if self._counted_by(device_class):
                    problems.append(
                        f"{place}: Invalid value: {json.dumps(resource)}: extended resource {resource} resolves to "
                        f"DeviceClass {device_class} with counters configured; use ResourceClaimTemplates with CEL "
                        "selectors for counter-based quota"
                    )
                    continue
                found.add(resource)
                add_into(total, {self._names.get(device_class, resource): amount})
            gone.append(frozenset(found))
        if problems:
            raise DeviceProblem(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        return gone


def _request(place: str, template: str, number: int, entry: Obj) -> _Request:
    path = f"{place}.devices.requests[{number}]"

    def refuse(where: str, value: object, detail: str) -> DeviceProblem:
        return DeviceProblem(
            f"{path}{where}: Invalid value: {json.dumps(value)}: ResourceClaimTemplate {template}: {detail}"
        )

    if entry.get("firstAvailable"):
        raise refuse("", "null", "FirstAvailable device selection is not supported")
    exactly = entry.get("exactly")
    if not exactly:
        raise refuse("", "null", "Exactly must be set if FirstAvailable is nil")
    selectors = expressions(exactly.get("selectors"))
    _compiled(selectors, f"{path}.exactly.selectors", template)
    if exactly.get("adminAccess"):
        raise refuse(".exactly.adminAccess", "null", "AdminAccess is not supported")
    mode = exactly.get("allocationMode") or "ExactCount"
    if mode == "All":
        raise refuse(".exactly.allocationMode", "All", "AllocationMode 'All' is not supported")
    if mode != "ExactCount":
        raise refuse(".exactly.allocationMode", mode, f"unsupported allocation mode: {mode}")
    return _Request(path, template, exactly.get("deviceClassName") or "", int(exactly.get("count") or 1), selectors)


def _compiled(
    texts: Iterable[str], where: str, template: str, context: str = "CEL compilation failed"
) -> list[Selector]:
    found: list[Selector] = []
    for at, text in enumerate(texts):
        try:
            found.append(compiled(text))
        except CelError as error:
            prefix = f"ResourceClaimTemplate {template}: " if template else ""
            raise DeviceProblem(
                f"{where}[{at}].cel.expression: Invalid value: {json.dumps(text)}: {prefix}{context}: {error}"
            ) from error
    return found


def _extended_totals(
    index: int, spec: Obj, extended: Mapping[str, str], problems: list[str]
) -> Iterable[tuple[str, int, str]]:
    """Resource, amount and first place of extended resources that classes provide; only whole devices exist."""
    totals: dict[str, list[int]] = {}
    places: dict[str, str] = {}
    broken: set[str] = set()
    for field, combine in (("initContainers", max), ("containers", sum)):
        part: dict[str, int] = {}
        for at, container in enumerate(spec.get(field) or ()):
            place = f"spec.podSets[{index}].template.spec.{field}[{at}]"
            for resource, text in _container_requests(container).items():
                amount = Quantity.parse(text)
                if resource not in extended or amount.nanos <= 0:
                    continue
                places.setdefault(resource, place)
                if amount.nanos % 10**9:
                    problems.append(
                        f"{place}.resources.requests.{resource}: Invalid value: {json.dumps(str(text))}: extended "
                        "resource quantity must be an integer"
                    )
                    broken.add(resource)
                part[resource] = combine((part.get(resource, 0), amount.nanos // 10**9))
        for resource, whole in part.items():
            totals.setdefault(resource, []).append(whole)
    return [(name, max(parts), places[name]) for name, parts in sorted(totals.items()) if name not in broken]


def _container_requests(container: Obj) -> Mapping[str, Any]:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _created(obj: Obj) -> str:
    return str(metadata_of(obj).get("creationTimestamp") or "")
