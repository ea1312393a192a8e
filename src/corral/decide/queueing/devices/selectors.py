"""Which devices a selector means: CEL over what drivers publish in ResourceSlices.

An expression sees one variable, `device`, with its driver, its attributes and its capacity by domain; names without a
domain belong to the driver's. A domain a device knows nothing about is empty, not an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from corral.core.cel import CelError, Program, compile_expression
from corral.core.cel.library import to_quantity, to_semver
from corral.core.meta import Obj, spec_of

_DOMAIN = re.compile(r"""\b(attributes|capacity)\s*\[\s*["']([^"']+)["']\s*\]""")


class Selector:
    """One compiled expression. Raises CelError when it is none."""

    __slots__ = ("_domains", "_program")

    def __init__(self, text: str) -> None:
        self._program: Program = compile_expression(text, {"device": None})
        self._domains = tuple(_DOMAIN.findall(text))

    def matches(self, device: Mapping[str, Any]) -> bool:
        """Is this one of the devices? Raises CelError when that cannot be told."""
        seen = dict(device)
        for kind, domain in self._domains:
            if domain not in seen[kind]:
                seen[kind] = {**seen[kind], domain: {}}
        found = self._program.evaluate(seen)
        if not isinstance(found, bool):
            raise CelError("the expression does not return a boolean")
        return found


@lru_cache(maxsize=256)
def compiled(text: str) -> Selector:
    return Selector(text)


def expressions(selectors: Iterable[Obj] | None) -> list[str]:
    """The CEL texts among device selectors."""
    return [str(entry["cel"].get("expression", "")) for entry in selectors or () if entry.get("cel")]


def matches_all(selectors: Sequence[Selector], device: Mapping[str, Any]) -> bool:
    return all(selector.matches(device) for selector in selectors)


def as_device(driver: str, device: Obj) -> dict[str, Any]:
    """A device of a ResourceSlice as expressions see it."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in (device.get("attributes") or {}).items():
        domain, _, rest = name.rpartition("/")
        attributes.setdefault(domain or driver, {})[rest] = _attribute(value)
    capacity: dict[str, dict[str, Any]] = {}
    for name, value in (device.get("capacity") or {}).items():
        domain, _, rest = name.rpartition("/")
        capacity.setdefault(domain or driver, {})[rest] = to_quantity(str(value.get("value", "0")))
    shared = bool(device.get("allowMultipleAllocations"))
    return {"driver": driver, "attributes": attributes, "capacity": capacity, "allowMultipleAllocations": shared}


def _attribute(value: Obj) -> Any:
    if "version" in value:
        return to_semver(value["version"])
    return next((value[kind] for kind in ("int", "bool", "string") if kind in value), None)


def current_devices(slices: Iterable[Obj], driver: str) -> list[Obj]:
    """Devices of a driver's pools in their newest generation; pools that are not complete yet do not count."""
    pools: dict[str, tuple[int, list[Obj]]] = {}
    for entry in slices:
        spec = spec_of(entry)
        if spec.get("driver") != driver:
            continue
        pool = spec.get("pool") or {}
        name, generation = str(pool.get("name", "")), int(pool.get("generation") or 0)
        known = pools.get(name)
        if known is None or generation > known[0]:
            pools[name] = (generation, [spec])
        elif generation == known[0]:
            known[1].append(spec)
    return [
        device
        for _, specs in pools.values()
        if len(specs) == int((specs[0].get("pool") or {}).get("resourceSliceCount") or 1)
        for spec in specs
        for device in spec.get("devices") or ()
    ]
