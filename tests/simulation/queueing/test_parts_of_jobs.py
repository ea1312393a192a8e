"""Parts that the operator of a queued job makes: what was checked of the whole is not held against them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.core.meta import Obj, name_of, spec_of
from corral.core.resource import Resource
from corral.jobs.appwrapper.kind import APP_WRAPPERS
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.leader_worker_set.kind import LEADER_WORKER_SETS
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.virtual import run_virtual

from .test_serving import DEPLOYMENTS, STATEFUL_SETS, phases, serving, start


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


GROUPS = "leaderworkerset.x-k8s.io/leaderworkerset"
WRAPPERS = "workload.codeflare.dev/appwrapper"


def every_job(*frameworks: str) -> Obj:
    """A configuration in which every job of these kinds has to be queued."""
    return {"manageJobsWithoutQueueName": True, "integrations": {"frameworks": list(frameworks)}}


def wrapped(resource: Resource, component: Obj, pods: int, path: str = "template") -> Obj:
    """An AppWrapper that is queued, with one component and where to find the template of its pods."""
    template = {"apiVersion": resource.api_version, "kind": resource.kind, **component}
    metadata = {"name": "aw", "namespace": "default", "labels": {names.QUEUE_NAME: "lq"}}
    pod_sets = [{"replicas": pods, "path": f"template.spec.{path}"}]
    return {"metadata": metadata, "spec": {"components": [{"template": template, "podSets": pod_sets}]}}


@pytest.mark.parametrize("names_a_queue", [False, True])
@pytest.mark.parametrize("resource", [DEPLOYMENTS, STATEFUL_SETS, LEADER_WORKER_SETS], ids=lambda each: each.kind)
def test_pods_of_a_set_follow_the_job_that_wraps_it(resource: Resource, names_a_queue: bool) -> None:
    """However many sets stand between, and whatever the set says of a queue."""

    async def main() -> None:
        cluster = await start(cpu="4", configuration=every_job("deployment", "statefulset", GROUPS, WRAPPERS))
        component, path = serving("web", 3), "template"
        if resource is LEADER_WORKER_SETS:
            path = "leaderWorkerTemplate.workerTemplate"
            group = {"size": 3, "workerTemplate": spec_of(component)["template"]}
            component["spec"] = {"replicas": 1, "leaderWorkerTemplate": group}
        if not names_a_queue:
            del component["metadata"]["labels"]
        await cluster.client.create(APP_WRAPPERS, wrapped(resource, component, 3, path))
        await asyncio.sleep(30)
        assert [name_of(each)[:14] for each in (await cluster.client.list(WORKLOADS)).items] == ["appwrapper-aw-"]
        assert await phases(cluster) == ["Running"] * 3
        await cluster.stop()

    run_virtual(main)


def test_pods_of_a_deployment_without_a_queue_wait_where_every_job_is_queued() -> None:
    async def main() -> None:
        cluster = await start(cpu="4", configuration=every_job("deployment"))
        obj = serving("web", 2)
        del obj["metadata"]["labels"]
        await cluster.client.create(DEPLOYMENTS, obj)
        await asyncio.sleep(10)
        assert await phases(cluster) == ["Pending", "Pending"]
        assert len((await cluster.client.list(WORKLOADS)).items) == 2
        await cluster.client.patch(DEPLOYMENTS, "web", "default", {"metadata": {"labels": {names.QUEUE_NAME: "lq"}}})
        await asyncio.sleep(30)
        assert await phases(cluster) == ["Running", "Running"]
        await cluster.stop()

    run_virtual(main)


def test_a_part_follows_the_job_it_is_of_through_a_kind_that_is_not_queued() -> None:
    async def main() -> None:
        cluster = await start(cpu="4", configuration=every_job("batch/job", "pod", WRAPPERS))
        container: dict[str, Any] = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
        pod = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        replicated = {"name": "r", "replicas": 2, "template": {"spec": {"template": pod}}}
        spec = {"replicatedJobs": [replicated]}
        job_set, path = {"metadata": {"name": "train"}, "spec": spec}, "replicatedJobs[0].template.spec.template"
        await cluster.client.create(APP_WRAPPERS, wrapped(JOB_SETS, job_set, 2, path))
        await asyncio.sleep(60)
        assert [name_of(each)[:14] for each in (await cluster.client.list(WORKLOADS)).items] == ["appwrapper-aw-"]
        (made,) = (await cluster.client.list(JOB_SETS)).items
        assert made["status"].get("terminalState") == "Completed"
        await cluster.stop()

    run_virtual(main)
