"""Rules for the topology annotations of pod templates: one choice of domain, and slices of it in one or several layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from corral.core.errors import Cause
from corral.core.meta import annotations_of
from corral.core.names import check_qualified_name
from corral.core.validation import child, duplicate, forbidden, index, invalid, keyed, required
from corral.core.whole_numbers import whole_number
from corral.kinds.kueue import names
from corral.kinds.kueue.gates import FeatureGates
from corral.workload.podsets import MAX_SLICE_LAYERS, PodSet, parsed_bool, slice_layers

MAX_POD_SETS = 18
CHOICES = (
    names.PODSET_REQUIRED_TOPOLOGY,
    names.PODSET_PREFERRED_TOPOLOGY,
    names.PODSET_UNCONSTRAINED_TOPOLOGY,
)
LEVELS = ("required", "preferred")


def validate_topology(pod_sets: list[PodSet], path: str, gates: FeatureGates) -> list[Cause]:
    """Errors in the topology annotations of a job's pod templates; `path` leads to the template's metadata."""
    causes: list[Cause] = []
    for pod_set in pod_sets:
        annotations = annotations_of(pod_set.template)
        causes += validate_annotations(annotations, path, gates)
        causes += _too_large(annotations, f"{path}.annotations", pod_set.count)
    causes += _groups(pod_sets, f"{path}.annotations")
    if len(pod_sets) > MAX_POD_SETS:
        causes.append(invalid("spec", len(pod_sets), f"must have at most {MAX_POD_SETS} pod sets"))
    return causes


def validate_annotations(annotations: Mapping[str, str], metadata: str, gates: FeatureGates) -> list[Cause]:
    """What is wrong with the annotations of one template, or of a pod, whatever their number."""
    path = f"{metadata}.annotations"
    return [
        *_choice(annotations, path),
        *_group_name(annotations, path),
        *_slices(annotations, path),
        *_layers(annotations, path, gates),
    ]


def _choice(annotations: Mapping[str, str], path: str) -> Iterator[Cause]:
    present = [name for name in CHOICES if name in annotations]
    if len(present) > 1:
        listed = ", ".join(f'"{name}"' for name in CHOICES)
        yield Cause(
            "FieldValueInvalid", f"Invalid value: must not contain more than one topology annotation: [{listed}]", path
        )
    for name in (*CHOICES[:2], names.PODSET_SLICE_REQUIRED_TOPOLOGY):
        value = annotations.get(name)
        if value is not None:
            for error in check_qualified_name(value):
                yield invalid(keyed(path, name), value, error)
    unconstrained = annotations.get(names.PODSET_UNCONSTRAINED_TOPOLOGY)
    if unconstrained is not None and parsed_bool(unconstrained) is None:
        yield invalid(keyed(path, names.PODSET_UNCONSTRAINED_TOPOLOGY), unconstrained, "must be a boolean value")


def _group_name(annotations: Mapping[str, str], path: str) -> Iterator[Cause]:
    name = annotations.get(names.PODSET_GROUP_NAME)
    where = keyed(path, names.PODSET_GROUP_NAME)
    if name is None:
        return
    if whole_number(name) is not None:
        yield invalid(where, name, "must not be a number")
    for other in (names.PODSET_SLICE_SIZE, names.PODSET_SLICE_REQUIRED_TOPOLOGY):
        if other in annotations:
            yield forbidden(where, f"may not be set when '{other}' is specified")
    required_level, preferred_level = CHOICES[:2]
    if required_level not in annotations and preferred_level not in annotations:
        why = f"may not be set when neither '{preferred_level}' nor '{required_level}' is specified"
        yield forbidden(where, why)


def _slices(annotations: Mapping[str, str], path: str) -> Iterator[Cause]:
    size, topology = annotations.get(names.PODSET_SLICE_SIZE), annotations.get(names.PODSET_SLICE_REQUIRED_TOPOLOGY)
    where = keyed(path, names.PODSET_SLICE_SIZE)
    number = whole_number(size) if size is not None else None
    if size is not None and number is None:
        yield invalid(where, size, "must be a numeric value")
    elif number is not None and number < 1:
        yield invalid(where, size, "must be greater than or equal to 1")
    if topology is not None and size is None:
        yield required(where, f"must be set when '{names.PODSET_SLICE_REQUIRED_TOPOLOGY}' is specified")
    if size is not None and topology is None:
        yield forbidden(where, f"may not be set when '{names.PODSET_SLICE_REQUIRED_TOPOLOGY}' is not specified")


def _layers(annotations: Mapping[str, str], path: str, gates: FeatureGates) -> Iterator[Cause]:
    text = annotations.get(names.PODSET_SLICE_LAYERS)
    where = keyed(path, names.PODSET_SLICE_LAYERS)
    if text is None:
        return
    if not gates["TASMultiLayerTopology"]:
        yield forbidden(where, "the TASMultiLayerTopology feature gate must be enabled to use this annotation")
        return
    for other in (names.PODSET_SLICE_REQUIRED_TOPOLOGY, names.PODSET_SLICE_SIZE):
        if other in annotations:
            yield forbidden(where, f"may not be set when '{other}' is specified")
    if names.PODSET_GROUP_NAME in annotations:
        why = f"may not be set when '{names.PODSET_SLICE_LAYERS}' is specified"
        yield forbidden(keyed(path, names.PODSET_GROUP_NAME), why)
    try:
        layers = slice_layers(text)
    except ValueError as error:
        yield invalid(where, text, f"must be a valid JSON array: {error}")
        return
    if not 1 <= len(layers) <= MAX_SLICE_LAYERS:
        yield invalid(where, text, f"topology constraints must contain between 1 and {MAX_SLICE_LAYERS} entries")
        return
    yield from _nesting(layers, where)


def _nesting(layers: list[tuple[str, int]], path: str) -> Iterator[Cause]:
    """Whether each layer can lie in the one before it. That its level is a lower one is known when it is placed."""
    seen: dict[str, int] = {}
    for position, (topology, size) in enumerate(layers):
        where = index(path, position)
        for error in check_qualified_name(topology):
            yield invalid(child(where, "topology"), topology, error)
        if size < 1:
            yield invalid(child(where, "size"), size, "must be greater than or equal to 1")
        if topology in seen:
            yield duplicate(child(where, "topology"), f"{topology} (also at index {seen[topology]})")
        seen.setdefault(topology, position)
        above = layers[position - 1][1] if position else 0
        if size > 0 and above % size:
            yield invalid(child(where, "size"), size, f"must evenly divide the parent layer size {above}")


def _too_large(annotations: Mapping[str, str], path: str, count: int) -> Iterator[Cause]:
    """Slices that are larger than the pod set they are to be cut from."""
    why = f"must not be greater than pod set count {count}"
    size = annotations.get(names.PODSET_SLICE_SIZE, "")
    if (whole_number(size) or 0) > count:
        yield invalid(keyed(path, names.PODSET_SLICE_SIZE), size, why)
    with suppress(ValueError):
        layers = slice_layers(annotations.get(names.PODSET_SLICE_LAYERS, "[]"))
        if layers and layers[0][1] > count:
            yield invalid(keyed(path, names.PODSET_SLICE_LAYERS), layers[0][1], why)


def _groups(pod_sets: list[PodSet], path: str) -> Iterator[Cause]:
    """Pod sets that are placed together are two, one of them a single pod, and both want the same."""
    groups: dict[str, list[PodSet]] = {}
    for pod_set in pod_sets:
        if group := (pod_set.topology_request or {}).get("podSetGroupName"):
            groups.setdefault(group, []).append(pod_set)
    for name, members in groups.items():
        where = keyed(path, names.PODSET_GROUP_NAME)
        if len(members) != 2:
            why = f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)"
            yield from [invalid(where, name, why)] * len(members)
            continue
        one, other = members
        if 1 not in (one.count, other.count):
            why = (
                "can only define groups where at least one pod set has only 1 replica, "
                f"got: {one.count} replica(s) and {other.count} replica(s) in the group"
            )
            yield from [invalid(where, name, why)] * 2
        if any(
            (one.topology_request or {}).get(level) != (other.topology_request or {}).get(level) for level in LEVELS
        ):
            why = f"must specify '{CHOICES[0]}' or '{CHOICES[1]}' topology consistent with '{path}' in group '{name}'"
            yield from [Cause("FieldValueInvalid", f"Invalid value: {why}", path)] * 2
