"""Pod templates as a Workload may hold them: one element for each key of a keyed list."""

from __future__ import annotations

from collections.abc import Iterator

from corral.core.meta import Obj
from corral.core.schema.structural import Schema, compile_schema
from corral.core.schema.validate import check_uniqueness
from corral.kinds.kueue import WORKLOAD
from corral.workload.podsets import PodSet, same_shape, sanitized

TEMPLATE = (
    compile_schema(WORKLOAD.versions[0].schema).properties["spec"].properties["podSets"].items.properties["template"]  # type: ignore[union-attr]
)


def repeating(schema: Schema, above: tuple[Schema, ...] = ()) -> object:
    """A value with every keyed list and set below `schema`, each with one element twice."""
    if schema in above or "unique" not in schema.reaches:
        return "x"
    below = (*above, schema)
    if schema.items is not None:
        element = repeating(schema.items, below)
        if schema.list_type == "map" and isinstance(element, dict):
            element = {**element, **dict.fromkeys(schema.list_keys, "x")}
        elif schema.list_type == "map":
            element = dict.fromkeys(schema.list_keys, "x")
        return [element, element] if schema.list_type in ("map", "set") else [element]
    return {name: repeating(field, below) for name, field in schema.properties.items() if "unique" in field.reaches}


def lists(value: object) -> Iterator[list[object]]:
    if isinstance(value, dict):
        for item in value.values():
            yield from lists(item)
    elif isinstance(value, list):
        yield value
        for item in value:
            yield from lists(item)


def test_no_list_of_a_sanitized_template_is_one_a_workload_refuses() -> None:
    template = repeating(TEMPLATE)
    assert isinstance(template, dict)
    assert len(check_uniqueness(template, TEMPLATE)) > 20
    clean = sanitized(template)
    assert check_uniqueness(clean, TEMPLATE) == []
    assert all(len(found) == 1 for found in lists(clean))


def of_container(**fields: object) -> Obj:
    return {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "busybox", **fields}]}}


def test_the_last_variable_of_a_name_takes_the_place_of_the_first_and_the_template_itself_is_left_alone() -> None:
    first, other, last = {"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}
    template = of_container(env=[first, other, last])
    assert sanitized(template) == of_container(env=[last, other])
    assert template == of_container(env=[first, other, last])


def test_a_port_without_protocol_is_one_of_tcp() -> None:
    tcp, udp = {"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}
    assert sanitized(of_container(ports=[{"containerPort": 53}, udp, tcp])) == of_container(ports=[tcp, udp])


def test_what_repeats_nothing_is_not_copied() -> None:
    template = of_container(env=[{"name": "A"}, {"name": "B"}], command=["sleep", "sleep"])
    assert sanitized(template) is template


def test_a_workload_describes_the_template_it_was_made_from() -> None:
    pod_set = PodSet("main", of_container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]), 1)
    held = pod_set.to_obj()
    assert same_shape(held, pod_set, compare_counts=True, running=False)
    changed = PodSet("main", of_container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "3"}]), 1)
    assert not same_shape(held, changed, compare_counts=True, running=False)
