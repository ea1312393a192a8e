"""Which objects a list or a watch wants: namespace, label selector and field selector, as one fast test."""

from __future__ import annotations

from collections.abc import Callable

from corral.core.errors import BadRequest
from corral.core.selectors import FieldSelector, Selector
from corral.server.served_resources import Served
from corral.store import Stored

Match = Callable[[Stored], bool]


class Selection:
    """The objects of one namespace (or all), further narrowed by `match` when that is not None. A selection of a
    single `name` needs no search. One that `reads` looks into objects in the requested version."""

    __slots__ = ("match", "name", "namespace", "reads")

    def __init__(self, served: Served, namespace: str, labels: Selector | None, fields: FieldSelector | None):
        self.namespace = namespace if served.kind.namespaced else ""
        self.name = ""
        self.reads = bool(fields) and not _by_key(fields)
        tests: list[Match] = []
        if fields:
            check_fields(served, fields)
            self.name = fields.exact("metadata.name") or ""
            if not self.namespace:
                self.namespace = fields.exact("metadata.namespace") or ""
            tests.append(_field_test(served, fields))
        if labels:
            tests.append(_label_test(labels))
        self.match = _all(tests)


def _all(tests: list[Match]) -> Match | None:
    if len(tests) < 2:
        return tests[0] if tests else None
    first, second = tests
    return lambda stored: first(stored) and second(stored)


def _label_test(labels: Selector) -> Match:
    """A list asks this of every object, so the commonest selector gets the shortest way."""
    if len(labels.requirements) == 1 and labels.requirements[0].operator in ("=", "==", "in"):
        key, values = labels.requirements[0].key, frozenset(labels.requirements[0].values)
        return lambda stored: stored.labels.get(key) in values
    return lambda stored: labels.matches(stored.labels)


def _by_key(fields: FieldSelector | None) -> bool:
    return fields is not None and all(field in ("metadata.name", "metadata.namespace") for field in fields.fields)


def _field_test(served: Served, fields: FieldSelector) -> Match:
    if _by_key(fields):

        def by_key(stored: Stored) -> bool:
            key = stored.key
            return fields.matches(lambda field: key.name if field == "metadata.name" else key.namespace)

        return by_key
    kind = served.kind

    def by_value(stored: Stored) -> bool:
        obj = stored.obj if served.is_alias else served.view(stored).obj
        return fields.matches(lambda field: kind.field_value(obj, field) or "")

    return by_value


def check_fields(served: Served, fields: FieldSelector) -> None:
    """Refuse field selectors the kind does not have, as a real server words it."""
    kind = served.kind
    known = {"metadata.name", *kind.fields, *served.version.selectable}
    if kind.namespaced:
        known.add("metadata.namespace")
    for field in fields.fields:
        if field in known:
            continue
        if not kind.builtin:
            raise BadRequest(f"field label not supported: {field}")
        if kind.kind == "Job":
            raise BadRequest(f'field label "{field}" not supported for {kind.kind}')
        if kind.fields:
            raise BadRequest(f"field label not supported: {field}")
        raise BadRequest(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')
