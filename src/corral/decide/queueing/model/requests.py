"""Effective resource requests: what one pod of a template counts for.

The order of derivation is upstream's: the Kubernetes pod rule, runtime overhead, limits where requests are missing,
excluded prefixes, transformations. Topology placement uses the requests before the last two steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from corral.core.meta import Obj
from corral.core.quantity import Quantity
from corral.decide.queueing.model.amounts import add_into, parse_amount
from corral.decide.queueing.model.settings import QueueingSettings, Transformation
from corral.decide.queueing.model.values import Amounts

_NANO = 10**9


def pod_requests(spec: Obj, overhead: Mapping[str, str] | None = None) -> Amounts:
    """Requests of one pod as a node sees them; `overhead` stands in for a RuntimeClass's when the pod has none."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add_into(total, _container_requests(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        requests = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            add_into(sidecars, requests)
            add_into(total, requests)
            _raise_to(peak, sidecars)
        else:
            step = dict(sidecars)
            add_into(step, requests)
            _raise_to(peak, step)
    _raise_to(total, peak)
    pod_level = spec.get("resources")
    if pod_level:
        total.update(_container_requests({"resources": pod_level}))
    for resource, quantity in (spec.get("overhead") or overhead or {}).items():
        total[resource] = total.get(resource, 0) + parse_amount(resource, quantity)
    return total


def _container_requests(container: Obj) -> Amounts:
    resources = container.get("resources")
    if not resources:
        return {}
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {resource: parse_amount(resource, quantity) for resource, quantity in merged.items()}


def _raise_to(total: Amounts, floor: Mapping[str, int]) -> None:
    for resource, amount in floor.items():
        if amount > total.get(resource, 0):
            total[resource] = amount


def effective_requests(requests: Amounts, settings: QueueingSettings) -> Amounts:
    """What counts against quota: exclusions and transformations applied, nothing negative."""
    kept = requests
    if settings.excluded_prefixes:
        kept = {name: amount for name, amount in requests.items() if not name.startswith(settings.excluded_prefixes)}
    if settings.transformations:
        kept = _transformed(kept, settings.transformations)
    if any(amount < 0 for amount in kept.values()):
        kept = {name: max(0, amount) for name, amount in kept.items()}
    return kept


def _transformed(requests: Amounts, transformations: Sequence[Transformation]) -> Amounts:
    """Inputs replaced or joined by their outputs; a negative total output never eats into a plain request."""
    by_input = {transformation.input: transformation for transformation in transformations}
    if not by_input.keys() & requests.keys():
        return requests
    retained: Amounts = {}
    generated: dict[str, int] = {}
    for name, amount in requests.items():
        transformation = by_input.get(name)
        if transformation is None:
            retained[name] = amount
            continue
        base = _nanos(name, amount)
        if transformation.multiply_by in requests:
            multiplier = _nanos(transformation.multiply_by, requests[transformation.multiply_by])
            base = _round_up(base * multiplier, _NANO)
        for output, factor in transformation.outputs.items():
            generated[output] = generated.get(output, 0) + _round_up(base * _factor(factor), _NANO)
        if transformation.retain:
            retained[name] = amount
    for name, nanos in generated.items():
        if nanos > 0 or name not in retained:
            retained[name] = retained.get(name, 0) + _amount(name, max(0, nanos))
    return retained


def _nanos(resource: str, amount: int) -> int:
    return amount * (1_000_000 if resource == "cpu" else _NANO)


def _amount(resource: str, nanos: int) -> int:
    return _round_up(nanos, 1_000_000 if resource == "cpu" else _NANO)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit)


@lru_cache(maxsize=256)
def _factor(text: str) -> int:
    return Quantity.parse(text).nanos
