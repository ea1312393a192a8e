"""A cluster that the rollout budget holds back still speaks: what its Works report reaches its binding and the placement."""

from __future__ import annotations

from corral.decide.placement.bindings import Binding, binding_of
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS

from .hub import Hub, on_hub

ONE_AT_A_TIME = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}


async def _held(hub: Hub) -> list[Binding]:
    """Roll out a change that no cluster gets ready with; returns the bindings that wait for the first."""
    await hub.namespace("app", conf={"a": "1"})
    await hub.place("app", strategy=ONE_AT_A_TIME)
    hub.members.broken |= {(f"cluster-{number}", "conf") for number in (1, 2, 3)}
    await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": "2"}}, "app")
    await hub.advance(120)
    return await _waiting(hub)


async def _bindings(hub: Hub) -> list[Binding]:
    return [binding_of(obj) for obj in await hub.bindings("app")]


async def _waiting(hub: Hub) -> list[Binding]:
    return [one for one in await _bindings(hub) if one.is_held]


def test_a_failure_on_a_cluster_that_is_held_back_reaches_its_binding() -> None:
    async def scenario(hub: Hub) -> None:
        held = await _held(hub)
        assert len(held) == 2
        assert all(one.is_fresh("Applied", "True") for one in held)
        late = held[-1].cluster
        hub.members.failing.add((late, "conf"))
        await hub.recheck()
        (binding,) = [one for one in await _bindings(hub) if one.cluster == late]
        assert binding.is_fresh("Applied", "False")
        assert [one["name"] for one in binding.obj["status"]["failedPlacements"]] == ["conf"]

    on_hub(scenario)


def test_a_cluster_that_is_held_back_and_mended_counts_as_ready_again() -> None:
    async def scenario(hub: Hub) -> None:
        late = (await _held(hub))[-1].cluster
        hub.members.failing.add((late, "conf"))
        await hub.recheck()
        hub.members.failing.clear()
        hub.members.broken.clear()
        await hub.recheck()
        await hub.advance(60)
        assert await _waiting(hub) == []
        assert (await hub.conditions("app"))["Available"][0] == "True"

    on_hub(scenario)


def test_a_placement_switched_to_report_diff_while_clusters_are_held_back_reports_from_all() -> None:
    async def scenario(hub: Hub) -> None:
        held = await _held(hub)
        await hub.patch(
            CLUSTER_RESOURCE_PLACEMENTS, "app", {"spec": {"strategy": {"applyStrategy": {"type": "ReportDiff"}}}}
        )
        await hub.advance(60)
        assert len(held) == 2
        assert [one.is_fresh("DiffReported", "True") for one in await _bindings(hub)] == [True] * 3
        assert (await hub.conditions("app"))["DiffReported"][0] == "True"

    on_hub(scenario)
