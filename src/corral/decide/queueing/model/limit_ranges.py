"""Limit ranges: defaults a namespace gives to containers, and bounds their requests must keep.

Also the check that requests do not exceed limits. Complaints are worded as the API would word them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from corral.core.meta import Obj, spec_of
from corral.decide.queueing.model.amounts import parse_amount
from corral.decide.queueing.model.values import Amounts

Resources = Mapping[str, str]

ABOVE_LIMITS = "requests must not exceed its limits"
ABOVE_MAX = "requests must not be above the limitRange max"
BELOW_MIN = "requests must not be below the limitRange min"


class LimitSummary(msgspec.Struct, frozen=True):
    """All limit ranges of a namespace for containers, or for pods: tightest bounds, first defaults."""

    most: dict[str, int] = {}
    least: dict[str, int] = {}
    default: dict[str, str] = {}
    default_request: dict[str, str] = {}


class NamespaceLimits(msgspec.Struct, frozen=True):
    container: LimitSummary | None = None
    pod: LimitSummary | None = None


NO_LIMITS = NamespaceLimits()


def namespace_limits(limit_ranges: Iterable[Obj]) -> NamespaceLimits:
    """Put the LimitRange objects of a namespace together."""
    found: dict[str, LimitSummary] = {}
    for limit_range in limit_ranges:
        for item in spec_of(limit_range).get("limits") or ():
            kind = item.get("type") or ""
            found[kind] = _merged(found.get(kind, LimitSummary()), item)
    return NamespaceLimits(container=found.get("Container"), pod=found.get("Pod"))


def _merged(known: LimitSummary, item: Obj) -> LimitSummary:
    most, least = dict(known.most), dict(known.least)
    for name, quantity in (item.get("max") or {}).items():
        amount = parse_amount(name, quantity)
        most[name] = min(most.get(name, amount), amount)
    for name, quantity in (item.get("min") or {}).items():
        amount = parse_amount(name, quantity)
        least[name] = max(least.get(name, amount), amount)
    return LimitSummary(
        most,
        least,
        {**(item.get("default") or {}), **known.default},
        {**(item.get("defaultRequest") or {}), **known.default_request},
    )


def with_defaults(spec: Obj, limits: NamespaceLimits) -> Obj:
    """The pod spec with the namespace's defaults filled in; the same object when there are none."""
    changed: Obj = {}
    if limits.container is not None:
        for field in ("initContainers", "containers"):
            if spec.get(field):
                changed[field] = [_defaulted(container, limits.container) for container in spec[field]]
    if limits.pod is not None and spec.get("resources"):
        changed["resources"] = _defaulted({"resources": spec["resources"]}, limits.pod)["resources"]
    return {**spec, **changed} if changed else spec


def _defaulted(container: Obj, summary: LimitSummary) -> Obj:
    resources = container.get("resources") or {}
    limits = {**summary.default, **(resources.get("limits") or {})}
    requests = {**summary.default_request, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "limits": limits, "requests": requests}}


class Complaint(msgspec.Struct, frozen=True):
    """Something wrong below a pod spec."""

    path: str
    resources: tuple[str, ...]
    detail: str

    def text(self, pod_set: int) -> str:
        place = f"spec.podSets[{pod_set}].template.spec" + (f".{self.path}" if self.path else "")
        names = json.dumps(list(self.resources), separators=(",", ":"))
        return f"{place}: Invalid value: {names}: {self.detail}"


def complaints_text(complaints: Sequence[str]) -> str:
    """Several complaints are listed in brackets."""
    return complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]"


def requests_above_limits(spec: Obj) -> list[Complaint]:
    """Containers, or the pod, that request more than their limit."""
    found: list[Complaint] = []
    for path, resources in _resource_holders(spec):
        requests, limits = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
        above = sorted(name for name, amount in requests.items() if name in limits and amount > limits[name])
        if above:
            found.append(Complaint(path, tuple(above), ABOVE_LIMITS))
    return found


def outside_limit_ranges(spec: Obj, total: Amounts, limits: NamespaceLimits) -> list[Complaint]:
    """Containers, or the pod as a whole (`total`), outside the namespace's bounds."""
    found: list[Complaint] = []
    if limits.container is not None:
        for path, resources in _resource_holders(spec):
            if path == "resources":
                continue
            requests, capped = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
            names = requests.keys() | capped.keys()
            highest = {name: max(requests.get(name, 0), capped.get(name, 0)) for name in names}
            lowest = {
                name: min(amount for amount in (requests.get(name), capped.get(name)) if amount is not None)
                for name in names
            }
            found.extend(_out_of_bounds(path, highest, lowest, limits.container))
    if limits.pod is not None:
        found.extend(_out_of_bounds("", total, total, limits.pod))
    return found


def _out_of_bounds(
    path: str, highest: Mapping[str, int], lowest: Mapping[str, int], summary: LimitSummary
) -> Iterable[Complaint]:
    above = sorted(name for name, most in summary.most.items() if highest.get(name, 0) > most)
    if above:
        yield Complaint(path, tuple(above), ABOVE_MAX)
    below = sorted(name for name, least in summary.least.items() if name in lowest and lowest[name] < least)
    if below:
        yield Complaint(path, tuple(below), BELOW_MIN)


def _resource_holders(spec: Obj) -> Iterable[tuple[str, Obj]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield f"{field}[{index}]", container.get("resources") or {}
    if spec.get("resources"):
        yield "resources", spec["resources"]


def _amounts(quantities: Resources | None) -> Amounts:
    return {name: parse_amount(name, quantity) for name, quantity in (quantities or {}).items()}
