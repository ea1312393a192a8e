"""A member that an administrator removes without letting it leave: nothing of it stays on the hub."""

from __future__ import annotations

import pytest

from corral.controllers.placement.members import MEMBER_FINALIZER
from corral.core.errors import NotFound
from corral.core.meta import without_finalizer
from corral.kinds.fleet import MEMBER_CLUSTERS
from corral.kinds.kubernetes.core.kinds import NAMESPACES

from .hub import Hub, on_hub


def test_the_works_of_a_member_whose_finalizer_was_taken_off_go_with_its_namespace() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        assert await hub.work("cluster-1", "app-work") is not None
        hub.members.silent.add("cluster-1")
        await hub.edit(MEMBER_CLUSTERS, "cluster-1", lambda one: without_finalizer(one, MEMBER_FINALIZER))
        await hub.client.delete(MEMBER_CLUSTERS, "cluster-1")
        await hub.advance(60)
        assert await hub.work("cluster-1", "app-work") is None
        with pytest.raises(NotFound):
            await hub.client.get(NAMESPACES, "fleet-member-cluster-1")
        assert await hub.clusters("app") == ["cluster-2", "cluster-3"]

    on_hub(scenario)
