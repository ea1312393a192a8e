"""Topology annotations of pod templates: what is refused, and the request that is read from what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.controllers.queueing.admission.topology import validate_topology
from corral.core.meta import Obj
from corral.kinds.kueue.gates import FeatureGates
from corral.workload.podsets import PodSet, topology_request

PREFIX = "kueue.x-k8s.io/podset-"
LAYERS = f"{PREFIX}slice-required-topology-constraints"


def pod_set(count: int = 8, name: str = "main", **annotations: str) -> PodSet:
    template: Obj = {"metadata": {"annotations": {PREFIX + key.replace("_", "-"): v for key, v in annotations.items()}}}
    return PodSet(name, template, count, None, topology_request(template))


def layered(*layers: tuple[str, Any], **annotations: str) -> PodSet:
    text = json.dumps([{"topology": topology, "size": size} for topology, size in layers])
    return pod_set(slice_required_topology_constraints=text, **annotations)


def refused(*pod_sets: PodSet, off: str = "") -> str:
    gates = FeatureGates({off: False} if off else {})
    return "; ".join(
        f"{cause.field}: {cause.message}" for cause in validate_topology(list(pod_sets), "metadata", gates)
    )


def at(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"


REFUSED = {
    "not a list": (
        pod_set(slice_required_topology_constraints="{}"),
        f'{at(LAYERS)}: Invalid value: "{{}}": must be a valid JSON array: it is not a list of objects',
    ),
    "no layer": (
        layered(),
        f'{at(LAYERS)}: Invalid value: "[]": topology constraints must contain between 1 and 3 entries',
    ),
    "a level twice": (
        layered(("rack", 4), ("rack", 2)),
        f'{at(LAYERS)}[1].topology: Duplicate value: "rack (also at index 0)"',
    ),
    "a size that does not divide": (
        layered(("rack", 4), ("host", 3)),
        f"{at(LAYERS)}[1].size: Invalid value: 3: must evenly divide the parent layer size 4",
    ),
    "a size below one": (
        layered(("rack", 0)),
        f"{at(LAYERS)}[0].size: Invalid value: 0: must be greater than or equal to 1",
    ),
    "more than there are": (
        layered(("rack", 16)),
        f"{at(LAYERS)}: Invalid value: 16: must not be greater than pod set count 8",
    ),
    "beside one layer": (
        layered(("rack", 4), slice_required_topology="rack", slice_size="4"),
        f"{at(LAYERS)}: Forbidden: may not be set when '{PREFIX}slice-required-topology' is specified; "
        f"{at(LAYERS)}: Forbidden: may not be set when '{PREFIX}slice-size' is specified",
    ),
    "in a group": (
        layered(("rack", 4), required_topology="block", group_name="a"),
        f"{at(PREFIX + 'group-name')}: Forbidden: may not be set when '{LAYERS}' is specified; "
        f'{at(PREFIX + "group-name")}: Invalid value: "a": can only define groups of exactly 2 pod sets, '
        "got: 1 pod set(s)",
    ),
    "neither true nor false": (
        pod_set(unconstrained_topology="yes"),
        f'{at(PREFIX + "unconstrained-topology")}: Invalid value: "yes": must be a boolean value',
    ),
    "a group of no level": (
        pod_set(group_name="7"),
        f'{at(PREFIX + "group-name")}: Invalid value: "7": must not be a number; '
        f"{at(PREFIX + 'group-name')}: Forbidden: may not be set when neither '{PREFIX}preferred-topology' nor "
        f"'{PREFIX}required-topology' is specified",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_annotations_that_cannot_be_meant_are_refused(case: str) -> None:
    given, want = REFUSED[case]
    assert refused(given) == want


def test_two_pod_sets_of_a_group_want_the_same_level_and_one_is_a_single_pod() -> None:
    many = pod_set(2, required_topology="rack", group_name="a")
    assert refused(many, pod_set(1, required_topology="rack", group_name="a")) == ""
    assert "at least one pod set has only 1 replica" in refused(many, many)
    assert "topology consistent with" in refused(many, pod_set(1, preferred_topology="rack", group_name="a"))


def test_layers_are_part_of_the_request_and_refused_where_their_gate_is_closed() -> None:
    given = layered(("block", 8), ("rack", 4), ("kubernetes.io/hostname", 2))
    assert refused(given) == ""
    assert given.topology_request == {
        "podsetSliceRequiredTopologyConstraints": [
            {"topology": "block", "size": 8},
            {"topology": "rack", "size": 4},
            {"topology": "kubernetes.io/hostname", "size": 2},
        ]
    }
    closed = refused(given, off="TASMultiLayerTopology")
    assert closed == (
        f"{at(LAYERS)}: Forbidden: the TASMultiLayerTopology feature gate must be enabled to use this annotation"
    )


@pytest.mark.parametrize("text", ["true", "True", "1", "t"])
def test_a_boolean_may_be_spelt_as_go_spells_it(text: str) -> None:
    given = pod_set(unconstrained_topology=text)
    assert (refused(given), given.topology_request) == ("", {"unconstrained": True})
