"""A Job's way through queueing, from suspended to finished."""

from __future__ import annotations

from corral.runtime.virtual import run_virtual

from .world import World, cluster_queue, condition, fill, flavor, job, local_queue


def test_job_is_admitted_started_and_finished() -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(nodeLabels={"gpu": "h100"}), cluster_queue(), local_queue(), job())
            workload = await world.workload_of("sample")
            assert condition(workload, "QuotaReserved") == (
                "True",
                "QuotaReserved",
                "Quota reserved in ClusterQueue cq",
            )
            assert condition(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")
            started = await world.job("sample")
            assert started["spec"]["suspend"] is False
            template = started["spec"]["template"]
            assert template["spec"]["nodeSelector"] == {"gpu": "h100"}
            assert template["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
            assert template["metadata"]["labels"]["kueue.x-k8s.io/cluster-queue-name"] == "cq"
            assert template["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == workload["metadata"]["name"]
            await world.finish_job("sample")
            workload = await world.workload_of("sample")
            assert condition(workload, "Finished") == (
                "True",
                "Succeeded",
                "Reached expected number of succeeded pods",
            )
            assert "finalizers" not in workload["metadata"]

    run_virtual(main)
