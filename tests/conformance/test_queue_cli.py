"""`corral queue` and `corral workload` against a served cluster, and the visibility API they read positions from."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.conformance.served_cli import JOBS, Run, job, serve, until

from corral.client.sync import SyncClient
from corral.clusters.embedded_api import EmbeddedApi
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS


async def test_queues_are_created_listed_stopped_and_resumed(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        assert "created" in await run("queue", "create", "rf", "gpu", "--node-labels", "gpu=h100")
        output = await run(
            "queue", "create", "cq", "team", "--cohort", "all", "--nominal-quota", "gpu:cpu=2;memory=4Gi"
        )
        assert output == "clusterqueue.kueue.x-k8s.io/team created\n"
        await run("queue", "create", "lq", "lq", "-c", "team")
        created = await embedded.client.get(CLUSTER_QUEUES, "team")
        assert created["spec"]["resourceGroups"] == [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {
                        "name": "gpu",
                        "resources": [
                            {"name": "cpu", "nominalQuota": "2"},
                            {"name": "memory", "nominalQuota": "4Gi"},
                        ],
                    }
                ],
            }
        ]
        listed = (await run("queue", "list", "cq")).splitlines()
        assert listed[0].split() == ["NAME", "COHORT", "PENDING", "WORKLOADS", "ADMITTED", "WORKLOADS", "ACTIVE", "AGE"]
        assert listed[1].split()[:2] == ["team", "all"]
        assert (await run("queue", "list", "rf")).splitlines()[1].split()[:2] == ["gpu", "gpu=h100"]
        await run("queue", "stop", "cq", "team")
        assert (await embedded.client.get(CLUSTER_QUEUES, "team"))["spec"]["stopPolicy"] == "HoldAndDrain"
        await run("queue", "stop", "cq", "team", "--keep-already-running")
        assert (await embedded.client.get(CLUSTER_QUEUES, "team"))["spec"]["stopPolicy"] == "Hold"
        await run("queue", "resume", "cq", "team")
        assert (await embedded.client.get(CLUSTER_QUEUES, "team"))["spec"]["stopPolicy"] == "None"
        assert "kind: ClusterQueue" in await run("queue", "describe", "cq", "team")

    await serve(tmp_path, scenario)


async def test_workloads_are_listed_with_their_place_and_stopped(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=1")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await embedded.client.create(JOBS, job("first", "1"))

        async def first_runs() -> bool:
            return not (await embedded.client.get(JOBS, "first", "default"))["spec"]["suspend"]

        await until(first_runs)
        await embedded.client.create(JOBS, job("second", "1"))

        async def second_waits() -> bool:
            return len((await embedded.client.list(WORKLOADS)).items) == 2

        await until(second_waits)
        lines = [line.split() for line in (await run("workload", "list")).splitlines()[1:]]
        by_job = {line[2]: line for line in lines}
        assert by_job["first"][5] == "ADMITTED"
        assert by_job["second"][3:7] == ["lq", "team", "PENDING", "0"]
        only = (await run("workload", "list", "--status", "pending")).splitlines()
        assert len(only) == 2
        await run("workload", "stop", by_job["second"][0])
        stopped = await embedded.client.get(WORKLOADS, by_job["second"][0], "default")
        assert stopped["spec"]["active"] is False
        await run("workload", "resume", by_job["second"][0])
        deleted = await run("workload", "delete", by_job["second"][0], "--yes")
        assert "jobs.batch/second deleted" in deleted

    await serve(tmp_path, scenario)


async def test_pending_workloads_are_visible_in_both_versions(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=1")
        await run("queue", "create", "lq", "lq", "-c", "team")
        for name in ("a", "b"):
            await embedded.client.create(JOBS, job(name, "2"))

        async def both_wait() -> bool:
            return len((await embedded.client.list(WORKLOADS)).items) == 2

        await until(both_wait)
        client = SyncClient.from_kubeconfig(tmp_path / "kubeconfig")
        for version in ("v1beta1", "v1beta2"):
            root = f"/apis/visibility.kueue.x-k8s.io/{version}"
            found = await asyncio.to_thread(client.call, "GET", f"{root}/clusterqueues/team/pendingworkloads")
            assert found["kind"] == "PendingWorkloadsSummary"
            assert [item["positionInClusterQueue"] for item in found["items"]] == [0, 1]
            path = f"{root}/namespaces/default/localqueues/lq/pendingworkloads?limit=1&offset=1"
            found = await asyncio.to_thread(client.call, "GET", path)
            assert [item["positionInLocalQueue"] for item in found["items"]] == [1]

    await serve(tmp_path, scenario)
