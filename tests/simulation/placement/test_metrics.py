"""The metrics of hub and members, under upstream's names."""

from __future__ import annotations

import asyncio

from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, EVICTIONS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES

from .fleet import PlacementFleet, on_fleet

STATUS = "fleet_workload_placement_status_last_timestamp_seconds"


def test_what_is_counted() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        hub = fleet.hub.client
        await hub.create(NAMESPACES, {"metadata": {"name": "app"}})
        await hub.create(CONFIG_MAPS, {"metadata": {"name": "conf", "namespace": "app"}, "data": {"a": "1"}})
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
        spec = {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}}
        await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {"metadata": {"name": "app"}, "spec": spec})
        await asyncio.sleep(10)

        registry = fleet.hub.manager.metrics.registry
        labels = {"namespace": "", "name": "app", "generation": "1"}
        done = {"conditionType": "Completed", "status": "True", "reason": "Completed"}
        assert (registry.get_sample_value(STATUS, {**labels, **done}) or 0) > 0
        text = fleet.hub.manager.metrics.exposition().decode()
        assert text.count(f"{STATUS}{{") == 1
        cycles = registry.get_sample_value(
            "scheduling_cycle_duration_milliseconds_count", {"is_failed": "false", "needs_requeue": "false"}
        )
        assert (cycles or 0) >= 1
        assert registry.get_sample_value("scheduling_active_workers") == 0

        member = fleet.members["cluster-1"].manager.metrics.registry
        assert member.get_sample_value("join_result_counter", {"result": "success"}) == 1
        assert (member.get_sample_value("work_apply_time_seconds_count", {"name": "app-work"}) or 0) >= 1
        outcome = {
            "apply_status": "AllManifestsApplied",
            "availability_status": "AllManifestsAvailable",
            "diff_reporting_status": "Skipped",
        }
        assert (member.get_sample_value("fleet_work_processing_requests_total", outcome) or 0) >= 1

        body = {"placementName": "app", "clusterName": "cluster-1"}
        await hub.create(EVICTIONS, {"metadata": {"name": "e"}, "spec": body})
        await asyncio.sleep(5)
        answer = {"name": "e", "isCompleted": "true", "isValid": "true"}
        assert registry.get_sample_value("fleet_workload_eviction_complete", answer) == 1
        await hub.delete(CLUSTER_RESOURCE_PLACEMENTS, "app")
        await asyncio.sleep(10)
        assert f"{STATUS}{{" not in fleet.hub.manager.metrics.exposition().decode()

    on_fleet(scenario)
