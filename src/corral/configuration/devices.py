"""The part of the configuration that says under which names devices count: `resources.deviceClassMappings`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corral.core.cel import CelError
from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.names import check_label, check_qualified_name, check_subdomain
from corral.core.validation import duplicate, forbidden, invalid, required, too_many
from corral.decide.queueing.devices.selectors import compiled
from corral.decide.queueing.model.settings import CounterSource, DeviceMapping

PATH = "resources.deviceClassMappings"
MOST_MAPPINGS, MOST_CLASSES, MOST_LETTERS = 16, 8, 253


def device_mappings(entries: Sequence[Obj]) -> tuple[DeviceMapping, ...]:
    """The mappings as values. Raises ValueError with everything that is wrong with them."""
    causes = list(_causes(entries))
    if causes:
        raise ValueError(", ".join(f"{cause.field}: {cause.message}" for cause in causes))
    return tuple(
        DeviceMapping(
            resource=entry["name"],
            classes=tuple(entry["deviceClassNames"]),
            counters=tuple(_counter(source["counter"]) for source in entry.get("sources") or ()),
        )
        for entry in entries
    )


def _counter(source: Obj) -> CounterSource:
    return CounterSource(source["driver"], source["name"], source["deviceSelector"]["cel"]["expression"])


def _causes(entries: Sequence[Obj]) -> Iterator[Cause]:
    if len(entries) > MOST_MAPPINGS:
        yield too_many(PATH, len(entries), MOST_MAPPINGS)
    resources: set[str] = set()
    owners: dict[str, tuple[str, set[str]]] = {}
    for index, entry in enumerate(entries):
        path = f"{PATH}[{index}]"
        name = str(entry.get("name") or "")
        yield from _name_causes(f"{path}.name", name)
        if name in resources:
            yield duplicate(f"{path}.name", name)
        resources.add(name)
        counters = {str((source.get("counter") or {}).get("name", "")) for source in entry.get("sources") or ()}
        yield from _class_causes(path, name, entry.get("deviceClassNames") or (), counters, owners)
        for at, source in enumerate(entry.get("sources") or ()):
            yield from _source_causes(f"{path}.sources[{at}]", source)


def _name_causes(path: str, name: str) -> Iterator[Cause]:
    faults = check_qualified_name(name)
    if faults:
        yield invalid(path, name, "; ".join(faults))
    if len(name) > MOST_LETTERS:
        yield invalid(path, name, f"must not exceed {MOST_LETTERS} characters")


def _class_causes(
    path: str, resource: str, classes: Sequence[str], counters: set[str], owners: dict[str, tuple[str, set[str]]]
) -> Iterator[Cause]:
    """A class has one name, unless every mapping of it tracks another counter."""
    if not classes:
        yield required(f"{path}.deviceClassNames", "at least one device class name is required")
    if len(classes) > MOST_CLASSES:
        yield too_many(f"{path}.deviceClassNames", len(classes), MOST_CLASSES)
    seen: set[str] = set()
    for index, device_class in enumerate(classes):
        where = f"{path}.deviceClassNames[{index}]"
        yield from _name_causes(where, device_class)
        if device_class in seen:
            yield duplicate(where, device_class)
            continue
        seen.add(device_class)
        owner = owners.setdefault(device_class, (resource, set()))
        if owner[0] != resource:
            if not counters or not owner[1]:
                yield invalid(where, device_class, f"device class already mapped to resource {owner[0]}")
            for counter in sorted(counters & owner[1]):
                yield invalid(where, device_class, f'device class already has a counter source for counter "{counter}"')
        owner[1].update(counters)


def _source_causes(path: str, source: Obj) -> Iterator[Cause]:
    if source.get("capacity"):
        yield forbidden(
            f"{path}.capacity", "capacity sources of devices that allow several allocations are not supported"
        )
        return
    counter = source.get("counter")
    if not counter:
        yield required(path, "exactly one of counter or capacity must be set")
        return
    for field, check in (("name", check_label), ("driver", check_subdomain)):
        value = str(counter.get(field) or "")
        faults = check(value)
        if faults:
            yield invalid(f"{path}.counter.{field}", value, "; ".join(faults))
    text = ((counter.get("deviceSelector") or {}).get("cel") or {}).get("expression") or ""
    where = f"{path}.counter.deviceSelector.cel.expression"
    if not text:
        yield required(where, "must be set")
        return
    try:
        compiled(text)
    except CelError as error:
        yield invalid(where, text, f"CEL compilation failed: {error}")
