"""Draining a member: budgets, the command, and what uncordoning brings back."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from hub import Hub, on_hub
from test_members_and_evictions import evict

from corral.cli import fleet as cli
from corral.cli.fleet import CORDON
from corral.core.conditions import condition
from corral.core.errors import Forbidden
from corral.core.meta import Obj
from corral.kinds.fleet import (
    DISRUPTION_BUDGETS,
    MEMBER_CLUSTERS,
)


@pytest.mark.parametrize(("guarded", "left"), [((), []), (("a",), ["a"]), (("a", "b"), ["a", "b"])])
def test_141_draining_respects_budgets_and_uncordoning_brings_back(guarded: tuple[str, ...], left: list[str]) -> None:
    async def scenario(hub: Hub) -> None:
        for name in ("a", "b"):
            await hub.namespace(name)
            await hub.place(name)
        for name in guarded:
            budget = {"metadata": {"name": name}, "spec": {"minAvailable": 3}}
            await hub.client.create(DISRUPTION_BUDGETS, budget)
        await hub.patch(MEMBER_CLUSTERS, "cluster-2", {"spec": {"taints": [CORDON]}})
        for name in ("a", "b"):
            await evict(hub, "cluster-2", f"drain-{name}", name)
        await hub.advance(30)
        assert [name for name in ("a", "b") if "cluster-2" in await hub.clusters(name)] == left
        await hub.patch(MEMBER_CLUSTERS, "cluster-2", {"spec": {"taints": []}})
        await hub.advance(10)
        for name in ("a", "b"):
            assert sorted(await hub.clusters(name)) == ["cluster-1", "cluster-2", "cluster-3"]

    on_hub(scenario)


# The drain command


class SomeHub:
    """What the command sees of a hub: a member, bindings, and evictions that are answered at once."""

    def __init__(self, outcomes: dict[str, Any]) -> None:
        self.member: Obj = {"metadata": {"name": "c", "resourceVersion": "1"}, "spec": {"taints": []}}
        self.outcomes = outcomes
        self.evictions: dict[str, Obj] = {}

    def get(self, resource: Any, name: str, namespace: str = "") -> Obj:
        return self.member if resource == MEMBER_CLUSTERS else self.evictions[name]

    def list(self, resource: Any) -> Obj:
        label = "kubernetes-fleet.io/parent-CRP"
        return {
            "items": [{"metadata": {"labels": {label: one}}, "spec": {"targetCluster": "c"}} for one in self.outcomes]
        }

    def patch(self, resource: Any, name: str, namespace: str, patch: Obj) -> None:
        self.member = {**self.member, "spec": {**self.member["spec"], **patch["spec"]}}

    def create(self, resource: Any, body: Obj) -> None:
        outcome = self.outcomes[body["spec"]["placementName"]]
        if isinstance(outcome, Exception):
            raise outcome
        self.evictions[body["metadata"]["name"]] = {**body, "status": {"conditions": [outcome]}}


GONE = condition("Valid", False, "X", "Failed to find scheduler decision for placement in cluster targeted by eviction")
DONE = condition("Executed", True, "X", "Eviction is allowed")
KEPT = condition("Executed", False, "X", "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget")


@pytest.mark.parametrize(
    ("outcomes", "code", "said_too"),
    [
        ({"a": DONE, "b": GONE}, 0, "drain was successful for cluster c"),
        ({"a": DONE, "b": KEPT}, 1, "placement b stays: Eviction is blocked"),
        ({"a": Forbidden("policy type PickFixed is not supported")}, 1, "placement a stays: policy type PickFixed"),
    ],
)
def test_141_the_drain_command(
    monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, Any], code: int, said_too: str
) -> None:
    hub = SomeHub(outcomes)
    monkeypatch.setattr(cli, "client_of", lambda *arguments: hub)
    result = CliRunner().invoke(cli.fleet, ["drain", "c", "--timeout", "1"])
    assert result.exit_code == code, result.output
    assert "Successfully cordoned member cluster c by adding cordon taint" in result.output
    assert said_too in result.output
    assert hub.member["spec"]["taints"] == [cli.CORDON]
    result = CliRunner().invoke(cli.fleet, ["uncordon", "c"])
    assert hub.member["spec"]["taints"] == []
    assert "Successfully uncordoned member cluster c" in result.output
