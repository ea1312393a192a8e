"""A placement's status mirrored into its namespace."""

from __future__ import annotations

import pytest
from hub import Hub, on_hub

from corral.core.errors import NotFound
from corral.kinds.fleet import (
    CLUSTER_RESOURCE_PLACEMENTS,
    PLACEMENT_STATUSES,
)

ONE = ("cluster-1",)


def test_26_the_mirrored_status_goes_with_its_placement() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        await hub.place("app", statusReportingScope="NamespaceAccessible")
        assert await hub.client.get(PLACEMENT_STATUSES, "app", "app")
        await hub.client.delete(CLUSTER_RESOURCE_PLACEMENTS, "app")
        await hub.advance(5)
        with pytest.raises(NotFound):
            await hub.client.get(PLACEMENT_STATUSES, "app", "app")

    on_hub(scenario, members=ONE)
