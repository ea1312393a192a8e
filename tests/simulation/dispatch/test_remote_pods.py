"""The pods of dispatched jobs as the manager shows them: whose they are, on which worker, and how they come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from corral.client.limits import ANSWER_S
from corral.configuration.dispatch import DispatchSettings
from corral.controllers.dispatch import set_up_remote_pods
from corral.controllers.dispatch.remote_pods.index import IDLE_S, RemotePods
from corral.controllers.dispatch.remote_pods.kept_pods import KeptPods
from corral.core.errors import Expired, ServiceUnavailable
from corral.core.meta import Obj, is_owned_by, key_of, labels_of, name_of, owner_references_of, status_of, uid_of
from corral.core.remote_pods import CLUSTER_LABEL
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.simulated import batch_job
from corral.jobs.framework.registry import dispatched_adapters
from corral.jobs.framework.simulated import SimulatedKind
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.jobset.simulated import job_set
from corral.jobs.kubeflow.kind import PYTORCH_JOBS
from corral.jobs.kubeflow.simulated import pytorch_job
from corral.kinds.kubernetes.apps.kinds import STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet
from corral.simulate.jobs import simulated_kinds

LONG = 100_000
Script = Callable[[SimulatedFleet, RemotePods], Awaitable[None]]


def on_fleet(test: Script, *frameworks: str) -> None:
    configuration = {
        "integrations": {"frameworks": [*(kind.framework for kind in simulated_kinds()), *frameworks]},
        "multiKueue": {"workerLostTimeout": "60s", "gcInterval": "15s"},
    }

    async def main() -> None:
        async with SimulatedFleet(configuration=configuration) as fleet:
            await fleet.introduce()
            await fleet.set_up_queues()
            await asyncio.sleep(1)
            remotes = fleet.manager.remotes
            assert remotes is not None
            pods = set_up_remote_pods(
                fleet.manager.manager,
                DispatchSettings(),
                remotes,
                dispatched_adapters(),
                lambda: fleet.manager.store.revision,
            )
            await test(fleet, pods)

    run_virtual(main)


@pytest.mark.parametrize(
    ("resource", "made", "label"),
    [
        (JOBS, batch_job("a", 1, LONG), "batch.kubernetes.io/controller-uid"),
        (JOB_SETS, job_set("a", 1, LONG), "jobset.sigs.k8s.io/jobset-uid"),
        (PYTORCH_JOBS, pytorch_job("a", 1, LONG), ""),
    ],
    ids=["Job", "JobSet", "PyTorchJob"],
)
def test_a_pod_belongs_to_the_managers_job_whatever_is_in_between(resource: Resource, made: Obj, label: str) -> None:
    async def check(fleet: SimulatedFleet, pods: RemotePods) -> None:
        job = await fleet.manager.client.create(resource, made)
        await asyncio.sleep(5)
        (shown,) = await pods.list("default")
        (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
        assert labels_of(shown)[CLUSTER_LABEL] == status_of(workload)["clusterName"]
        assert [owner["uid"] for owner in owner_references_of(shown)] == [uid_of(job)]
        if label:
            assert labels_of(shown)[label] == uid_of(job)
        assert await pods.list("other") == []
        assert (await fleet.manager.client.list(PODS)).items == []

    on_fleet(check)


def test_a_workers_own_pods_and_those_of_other_managers_are_not_shown() -> None:
    async def check(fleet: SimulatedFleet, pods: RemotePods) -> None:
        foreign = batch_job("theirs", 1, LONG)
        foreign["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] = "other"
        own = batch_job("own", 1, LONG)
        for worker in fleet.workers.values():
            await worker.client.create(JOBS, foreign)
            await worker.client.create(JOBS, own)
        await asyncio.sleep(5)
        assert await pods.list() == []

    on_fleet(check)


def test_changes_come_in_order_and_go_on_where_a_list_ended() -> None:
    async def check(fleet: SimulatedFleet, pods: RemotePods) -> None:
        revision = fleet.manager.store.revision
        assert await pods.list("", revision) == []
        await fleet.manager.client.create(JOBS, batch_job("a", 1, 5))
        await asyncio.sleep(30)
        current, feed = await pods.follow(revision)
        assert current == []
        seen = feed.poll()
        assert seen[0].old is None
        assert seen[-1].new is None
        phases = [status_of(change.new).get("phase") for change in seen if change.new is not None]
        assert phases == sorted(phases, key=["Pending", "Running", "Succeeded"].index)
        versions = [int(change.new["metadata"]["resourceVersion"]) for change in seen if change.new is not None]
        assert versions == sorted(versions)
        feed.close()

    on_fleet(check)


def test_after_a_pause_a_watch_is_told_to_list_again() -> None:
    async def check(fleet: SimulatedFleet, pods: RemotePods) -> None:
        revision = fleet.manager.store.revision
        await pods.list("", revision)
        await fleet.manager.client.create(JOBS, batch_job("a", 1, LONG))
        await asyncio.sleep(IDLE_S + 10)
        with pytest.raises(Expired):
            await pods.follow(revision)
        (shown,) = await pods.list("", fleet.manager.store.revision)
        assert status_of(shown)["phase"] == "Running"

    on_fleet(check)


def test_a_pod_moves_with_its_job_to_another_worker() -> None:
    async def check(fleet: SimulatedFleet, pods: RemotePods) -> None:
        await fleet.manager.client.create(JOBS, batch_job("a", 1, LONG))
        await asyncio.sleep(5)
        (first,) = await pods.list()
        away = labels_of(first)[CLUSTER_LABEL]
        fleet.links[away].set(cut=True)
        await asyncio.sleep(20)
        with pytest.raises(ServiceUnavailable, match=f"cluster {away}, which runs the pod, cannot be reached"):
            await pods.forward(first, "GET", "/", {})
        await asyncio.sleep(100)
        clusters = [labels_of(pod)[CLUSTER_LABEL] for pod in await pods.list()]
        assert [name for name in clusters if name != away] == [name for name in fleet.workers if name != away]
        fleet.links[away].set()
        await asyncio.sleep(400)
        (moved,) = await pods.list()
        assert labels_of(moved)[CLUSTER_LABEL] != away
        assert name_of(moved).startswith("a-")

    on_fleet(check)


def test_a_worker_that_does_not_answer_is_waited_for_once() -> None:
    async def check(fleet: SimulatedFleet, pods: RemotePods) -> None:
        fleet.links["worker2"].set(cut=True)
        await asyncio.sleep(1)
        await fleet.manager.client.create(JOBS, batch_job("a", 1, LONG))
        await asyncio.sleep(5)
        fleet.links["worker2"].set()
        await asyncio.sleep(60)
        fleet.links["worker2"].set(lose_requests=True)
        loop, took = asyncio.get_running_loop(), []
        for _ in range(3):
            started = loop.time()
            (shown,) = await pods.list()
            assert labels_of(shown)[CLUSTER_LABEL] == "worker1"
            took.append(loop.time() - started)
        assert took == [pytest.approx(ANSWER_S), 0.0, 0.0]

    on_fleet(check)


@pytest.mark.parametrize("kind", simulated_kinds(), ids=lambda kind: kind.resource.kind)
def test_the_pods_of_a_finished_job_of_any_kind_are_kept(kind: SimulatedKind) -> None:
    configuration = {
        "integrations": {"frameworks": [one.framework for one in simulated_kinds()]},
        "corral": {"keepFinished": "60s"},
    }

    async def main() -> None:
        async with SimulatedFleet(configuration=configuration) as fleet:
            await fleet.introduce()
            await fleet.set_up_queues()
            await asyncio.sleep(1)
            made = await fleet.manager.client.create(kind.resource, kind.make("a", 1, 3))
            other = await fleet.manager.client.create(kind.resource, kind.make("other", 1, 3))
            await asyncio.sleep(20)
            (workload,) = (
                held for held in (await fleet.manager.client.list(WORKLOADS)).items if is_owned_by(held, uid_of(made))
            )
            remote = fleet.manager.remote(status_of(workload)["clusterName"])
            assert remote is not None
            kept = KeptPods(fleet.manager.clock, "multikueue", 1 << 20)
            await kept.keep(remote, key_of(workload), [made, other])
            ((key, pod),) = kept.all()
            assert key.name.startswith("a-")
            assert status_of(pod)["phase"] == "Succeeded"
            assert [owner["uid"] for owner in owner_references_of(pod)] == [uid_of(made)]

    run_virtual(main)


@pytest.mark.parametrize("is_set", [True, False], ids=["StatefulSet", "Job"])
def test_only_sets_have_pods_of_their_own_on_the_manager_to_stand_for_those_that_run(is_set: bool) -> None:
    labels = {"app": "db"}
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    metadata = {"name": "a", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    spec = {"serviceName": "db", "replicas": 2, "selector": {"matchLabels": labels}, "template": template}

    async def check(fleet: SimulatedFleet, pods: RemotePods) -> None:
        made: Obj = {"metadata": metadata, "spec": spec} if is_set else batch_job("a", 1, LONG)
        await fleet.manager.client.create(STATEFUL_SETS if is_set else JOBS, made)
        await asyncio.sleep(20)
        shown = await pods.list("default")
        assert len(shown) == (2 if is_set else 1)
        assert {pods.has_stand_ins(pod) for pod in shown} == {is_set}

    on_fleet(check, "pod", "statefulset")
