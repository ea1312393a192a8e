"""`metrics.customLabels`: what is read, what is refused, and what an object's values are."""

from __future__ import annotations

from typing import Any

import pytest

from corral.configuration.document import unheeded_settings
from corral.configuration.metric_labels import UNTRACKED, CustomLabel, custom_labels, of_kind
from corral.configuration.part import ConfigurationError
from corral.configuration.queueing import load_config

TEAM = {"name": "team"}
OF_WORKLOADS = {"name": "tier", "sourceKind": "Workload", "sourceAnnotationKey": "a/tier", "trackedValues": ["gold"]}


def test_a_label_is_read_from_the_label_of_its_name_of_a_cluster_queue_unless_said_otherwise() -> None:
    team, tier = custom_labels([TEAM, OF_WORKLOADS])
    assert team == CustomLabel("team", "ClusterQueue", label="team")
    assert (team.metric_label, tier.kind, tier.label, tier.annotation) == ("custom_team", "Workload", "", "a/tier")
    assert team.value_of({"metadata": {"labels": {"team": "red"}}}) == "red"
    assert team.value_of({"metadata": {}}) == team.value_of(None) == ""
    assert tier.value_of({"metadata": {"annotations": {"a/tier": "gold"}}}) == "gold"
    assert tier.value_of({"metadata": {"annotations": {"a/tier": "iron"}}}) == UNTRACKED


def test_labels_stand_in_the_order_of_their_kinds_and_then_as_configured() -> None:
    found = custom_labels([OF_WORKLOADS, {"name": "b"}, {"name": "a"}])
    assert [label.name for label in of_kind(found, "Workload", "ClusterQueue")] == ["b", "a", "tier"]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"name": "1st"}], "[0].name: Invalid value: '1st': must match"),
        ([{"name": "a", "sourceLabelKey": "b", "sourceAnnotationKey": "c"}], "[0]: sourceLabelKey and sourceAnn"),
        ([{"name": "a", "sourceLabelKey": "b c"}], "[0].sourceLabelKey: Invalid value: 'b c': "),
        ([{"name": "a", "sourceKind": "Topology"}], "[0].sourceKind: Unsupported value: 'Topology'"),
        (
            [{"name": "a", "sourceKind": "Workload"}],
            "[0].trackedValues: must not be empty when sourceKind is 'Workload'",
        ),
        ([{**OF_WORKLOADS, "trackedValues": list("abcdefghijklm")}], "[0].trackedValues: Too many: 13"),
        ([{"name": "a", "trackedValues": ["x", "x"]}], "[0].trackedValues: must not contain duplicates"),
        ([{"name": "a", "trackedValues": "x"}], "[0].trackedValues: expected a list of texts"),
        ([{"name": "a", "sourceLabel": "x"}], "[0]: unknown field 'sourceLabel'"),
        (["a"], "[0]: expected a mapping with a name"),
        ([TEAM, TEAM], ": Duplicate value: 'team'"),
        (
            [{"name": f"a{number}"} for number in range(7)],
            ": too many custom labels for source kind ClusterQueue: found 7",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(entries: list[Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_config({"metrics": {"customLabels": entries}})
    assert f"metrics.customLabels{said}" in str(caught.value)


def test_labels_without_their_gate_have_no_effect_and_that_is_told() -> None:
    document = {"metrics": {"customLabels": [TEAM]}}
    assert load_config(document).custom_labels == ()
    said = "the field metrics.customLabels has no effect while the feature gate CustomMetricLabels is off"
    assert unheeded_settings(document) == [said]
    opened = {**document, "featureGates": {"CustomMetricLabels": True}}
    assert len(load_config(opened).custom_labels) == 1
    assert unheeded_settings(opened) == []


def test_what_workloads_carry_of_their_jobs() -> None:
    labels = [OF_WORKLOADS, {"name": "l", "sourceLabelKey": "x", "sourceKind": "Workload", "trackedValues": ["1"]}]
    config = load_config(
        {
            "featureGates": {"CustomMetricLabels": True},
            "metrics": {"customLabels": labels},
            "integrations": {"labelKeysToCopy": ["y", "x"]},
        }
    )
    assert (config.copied_labels, config.copied_annotations) == (("y", "x"), ("a/tier",))
