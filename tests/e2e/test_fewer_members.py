"""A fleet that returns with fewer members: those that are gone leave it, and join again when they are back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.started import client, corral, eventually, started

from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.meta import name_of, status_of
from corral.core.resource import Resource

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
MEMBERS = Resource("cluster.kubernetes-fleet.io", "v1beta1", "memberclusters", "MemberCluster", namespaced=False)
PLACEMENTS = Resource(
    "placement.kubernetes-fleet.io",
    "v1beta1",
    "clusterresourceplacements",
    "ClusterResourcePlacement",
    namespaced=False,
)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


def joined(hub: SyncClient) -> list[str]:
    return [name_of(member) for member in hub.list(MEMBERS)["items"] if conditions.is_true(member, "Joined")]


def placed_on(hub: SyncClient) -> list[str]:
    """Where the placement is, and applied."""
    statuses = status_of(hub.get(PLACEMENTS, "everywhere")).get("placementStatuses") or []
    return sorted(
        str(entry.get("clusterName"))
        for entry in statuses
        if conditions.is_true(entry.get("conditions") or [], "Applied")
    )


def test_members_that_do_not_return_leave_and_join_again_when_they_do(tmp_path: Path) -> None:
    with started(tmp_path / "fleet", "--fleet", "2") as state:
        hub = client(state, "corral-hub")
        eventually(lambda: len(joined(hub)) == 2)
        both = sorted(joined(hub))
        hub.create(NAMESPACES, {"metadata": {"name": "shared"}})
        selected = {"group": "", "version": "v1", "kind": "Namespace", "name": "shared"}
        spec = {"resourceSelectors": [selected], "policy": {"placementType": "PickAll"}}
        hub.create(PLACEMENTS, {"metadata": {"name": "everywhere"}, "spec": spec})
        eventually(lambda: placed_on(hub) == both)
        corral(state, "down")

        corral(state, "up", "--fleet", "1")
        hub = client(state, "corral-hub")
        eventually(lambda: [name_of(member) for member in hub.list(MEMBERS)["items"]] == both[:1], 60)
        eventually(lambda: placed_on(hub) == both[:1])
        eventually(lambda: f"fleet-member-{both[1]}" not in map(name_of, hub.list(NAMESPACES)["items"]))
        assert f"{both[1]}-agent" not in map(name_of, hub.list(ACCOUNTS, "fleet-system")["items"])
        corral(state, "down")

        corral(state, "up", "--fleet", "2")
        hub = client(state, "corral-hub")
        eventually(lambda: sorted(joined(hub)) == both)
        eventually(lambda: placed_on(hub) == both)
