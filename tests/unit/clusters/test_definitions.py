"""Definitions of a real cluster: only what was chosen, never somebody else's, and no version that objects are stored in lost."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from corral.cli.crds import crds
from corral.clusters.definitions import MADE_BY, chosen_kinds, definition_of, install, lost_versions, replaced
from corral.core.meta import Obj
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kueue import CLUSTER_QUEUE
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster

NAME = CLUSTER_QUEUE.group_resource


def test_by_default_no_kind_of_another_operator_is_brought() -> None:
    assert {kind.group for kind in chosen_kinds()} == {"kueue.x-k8s.io"}
    assert {kind.group for kind in chosen_kinds(["jobset.x-k8s.io", "ray.io"])} == {"jobset.x-k8s.io", "ray.io"}
    printed = CliRunner().invoke(crds, ["--name"]).output.split()
    assert all(name.endswith(".kueue.x-k8s.io") for name in printed)
    assert len(CliRunner().invoke(crds, ["--all", "--name"]).output.split()) > len(printed)


def test_a_group_without_kinds_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no kinds in group 'example.com'; it has some in kueue.x-k8s.io"):
        chosen_kinds(["example.com"])
    answer = CliRunner().invoke(crds, ["--group", "example.com"])
    assert answer.exit_code == 1
    assert "no kinds in group" in answer.output


def older(crd: Obj) -> Obj:
    """A definition as an earlier version may have made it: without short names."""
    names = {key: value for key, value in crd["spec"]["names"].items() if key != "shortNames"}
    return {**crd, "spec": {**crd["spec"], "names": names}}


@pytest.mark.parametrize("labels", [MADE_BY, {}])
def test_only_what_we_made_follows_our_version_and_only_when_asked_to(labels: dict[str, str]) -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            made = older(definition_of(CLUSTER_QUEUE))
            made = {**made, "metadata": {"name": NAME, "labels": labels}}
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, made)
            first = await install(cluster.client)
            assert NAME in first.kept
            assert first.created
            second = await install(cluster.client, upgrade=True)
            assert (NAME in second.changed) is bool(labels)
            assert second.created == []
            assert not [name for name in second.changed if name != NAME]
            third = await install(cluster.client, upgrade=True)
            assert third.changed == []

    run_virtual(scenario)


def test_a_version_that_objects_are_stored_in_is_never_taken_away() -> None:
    wanted = definition_of(CLUSTER_QUEUE)
    found = {**wanted, "status": {"storedVersions": ["v1alpha9", "v1beta2"]}}
    assert lost_versions(found, wanted) == ["v1alpha9"]
    assert lost_versions({**wanted, "status": {"storedVersions": ["v1beta1", "v1beta2"]}}, wanted) == []


def test_who_converts_a_kind_stays_when_its_definition_changes() -> None:
    wanted = definition_of(CLUSTER_QUEUE)
    webhook = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    found = {**wanted, "spec": {**wanted["spec"], "conversion": webhook}}
    assert replaced(found, wanted)["spec"]["conversion"] == webhook
