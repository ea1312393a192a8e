"""Parts that the operator of a queued job makes: what was checked of the whole is not held against them."""

from __future__ import annotations

import asyncio

from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.jobset.kind import JOB_SETS
from corral.kinds.kueue import names
from corral.runtime.virtual import run_virtual

from .test_serving import start


def test_jobs_of_a_job_set_whose_pods_are_placed_as_one_group_are_made() -> None:
    def replicated(name: str, pods: int) -> Obj:
        marks = {names.PODSET_GROUP_NAME: "g", "kueue.x-k8s.io/podset-required-topology": "rack"}
        containers = [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]
        pod = {"metadata": {"annotations": marks}, "spec": {"containers": containers, "restartPolicy": "Never"}}
        return {"name": name, "template": {"spec": {"parallelism": pods, "completions": pods, "template": pod}}}

    async def main() -> None:
        cluster = await start(cpu="4")
        metadata = {"name": "train", "namespace": "default", "labels": {names.QUEUE_NAME: "lq"}}
        spec = {"replicatedJobs": [replicated("leader", 1), replicated("worker", 3)]}
        await cluster.client.create(JOB_SETS, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(10)
        made = {job["metadata"]["name"] for job in (await cluster.client.list(JOBS)).items}
        assert made == {"train-leader-0", "train-worker-0"}
        await cluster.stop()

    run_virtual(main)
