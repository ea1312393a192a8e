"""LimitRanges: default requests and limits for the containers of new pods, and bounds they must keep."""

from __future__ import annotations

from collections.abc import Iterable

from corral.core import errors
from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj, spec_of
from corral.core.quantity import Quantity
from corral.server.admission.builtin.base import POD, BuiltinPlugin, is_new_pod
from corral.store import Store


class LimitRanger(BuiltinPlugin):
    """The plug-in."""

    name = "LimitRanger"
    kinds = (POD,)

    def __init__(self, store: Store):
        self._store = store

    def handles(self, request: AdmissionRequest) -> bool:
        return is_new_pod(request) and self._store.count("limitranges", request.namespace) > 0

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        pod = request.obj
        for item in self._items(request.namespace, "Container"):
            assert pod is not None
            pod = _with_defaults(pod, item)
        return pod

    async def validate(self, request: AdmissionRequest) -> None:
        spec = spec_of(request.obj or {})
        complaints: list[str] = []
        for item in self._items(request.namespace, "Container"):
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                complaints += _complaints(container.get("resources") or {}, item, "Container")
        for item in self._items(request.namespace, "Pod"):
            complaints += _complaints(_total(spec.get("containers") or ()), item, "Pod")
        if complaints:
            why = complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]"
            raise errors.forbidden(request.resource, request.name, why)

    def _items(self, namespace: str, kind: str) -> Iterable[Obj]:
        for stored in self._store.scan("limitranges", namespace):
            for item in spec_of(stored.obj).get("limits") or ():
                if item.get("type") == kind:
                    yield item


def _with_defaults(pod: Obj, item: Obj) -> Obj:
    spec = {**pod["spec"]}
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [_filled(container, item) for container in spec[field]]
    return {**pod, "spec": spec}


def _filled(container: Obj, item: Obj) -> Obj:
    resources = container.get("resources") or {}
    limits = {**(item.get("default") or {}), **(resources.get("limits") or {})}
    requests = {**(item.get("defaultRequest") or {}), **(resources.get("requests") or {})}
    filled = {**resources}
    if limits:
        filled["limits"] = limits
    if requests:
        filled["requests"] = requests
    return {**container, "resources": filled}


def _complaints(resources: Obj, item: Obj, kind: str) -> list[str]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    found = []
    for name, least in (item.get("min") or {}).items():
        amount = requests.get(name, limits.get(name))
        if amount is None:
            found.append(f"minimum {name} usage per {kind} is {least}.  No request is specified")
        elif Quantity.parse(amount) < Quantity.parse(least):
            found.append(f"minimum {name} usage per {kind} is {least}, but request is {amount}")
    for name, most in (item.get("max") or {}).items():
        amount = limits.get(name)
        if amount is None:
            found.append(f"maximum {name} usage per {kind} is {most}.  No limit is specified")
        elif Quantity.parse(amount) > Quantity.parse(most):
            found.append(f"maximum {name} usage per {kind} is {most}, but limit is {amount}")
    return found


def _total(containers: Iterable[Obj]) -> Obj:
    sums: dict[str, dict[str, Quantity]] = {"requests": {}, "limits": {}}
    for container in containers:
        for part, totals in sums.items():
            for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
                value = Quantity.parse(amount)
                totals[name] = totals[name] + value if name in totals else value
    return {part: {name: str(value) for name, value in totals.items()} for part, totals in sums.items()}
