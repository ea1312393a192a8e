"""PodGroups for gang schedulers: volcano's and those of scheduler-plugins, for every operator that makes them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Controllers, Stage, play

from corral.core.meta import Obj, annotations_of, labels_of
from corral.jobs.batch_job.operator import JobController
from corral.jobs.framework.pod_group_kinds import PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS
from corral.jobs.jobset.operator import JobSetController
from corral.jobs.kubeflow.kind import PYTORCH_JOBS
from corral.jobs.kubeflow.operator import training_controllers
from corral.jobs.kubeflow.view import Settings
from corral.jobs.mpijob.kind import MPI_JOBS
from corral.jobs.mpijob.operator import mpi_controllers
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS
from corral.jobs.trainjob.operator import TrainJobController
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES

PLUGINS = "scheduler-plugins-scheduler"


def with_scheduler(scheduler: str) -> Controllers:
    def controllers(cluster: Any) -> list[Any]:
        return [
            JobController(cluster.manager),
            JobSetController(cluster.manager),
            TrainJobController(cluster.manager),
            *training_controllers(cluster.manager, Settings(gang_scheduler=scheduler)),
            *mpi_controllers(cluster.manager, scheduler),
        ]

    return controllers


def template(container: str, cpu: str, **spec: Any) -> Obj:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu, "memory": "1Gi"}}
    return {"spec": {"containers": [{"name": container, "image": "img:1", "resources": resources}], **spec}}


def pytorch(policy: Obj | None = None, **worker: Any) -> Obj:
    run: Obj = {"schedulingPolicy": policy} if policy is not None else {}
    specs = {
        "Master": {"replicas": 1, "template": template("pytorch", "1")},
        "Worker": {"replicas": 3, "template": template("pytorch", "2", **worker)},
    }
    return {"metadata": {"name": "job"}, "spec": {"runPolicy": run, "pytorchReplicaSpecs": specs}}


async def let_in(stage: Stage, phase: str = "Inqueue") -> None:
    """What volcano does to a group it has room for."""
    await stage.client.patch(VOLCANO_POD_GROUPS, "job", "default", {"status": {"phase": phase}}, subresource="status")
    await stage.cluster.settle()


def test_volcano_lets_the_group_in_before_pods_are_made() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(PYTORCH_JOBS, pytorch())
        group = await stage.get(VOLCANO_POD_GROUPS, "job")
        assert group["spec"] == {
            "minMember": 4,
            "queue": "default",
            "minResources": {"cpu": "7", "memory": "4Gi"},
        }
        assert group["metadata"]["ownerReferences"][0]["kind"] == "PyTorchJob"
        assert await stage.names(PODS) == []
        await let_in(stage, "Pending")
        assert await stage.names(PODS) == []
        await let_in(stage)
        pods = await stage.pods()
        assert len(pods) == 4
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
        assert {annotations_of(pod)["scheduling.k8s.io/group-name"] for pod in pods} == {"job"}
        assert [annotations_of(pod)["volcano.sh/task-spec"] for pod in pods] == ["master", *["worker"] * 3]

    play(with_scheduler("volcano"), script)


def test_scheduling_policy_decides_about_the_group() -> None:
    async def script(stage: Stage) -> None:
        policy = {"minAvailable": 2, "queue": "research", "priorityClass": "high", "scheduleTimeoutSeconds": 30}
        await stage.create(PYTORCH_JOBS, pytorch(policy))
        spec = (await stage.get(VOLCANO_POD_GROUPS, "job"))["spec"]
        assert (spec["minMember"], spec["queue"], spec["priorityClassName"]) == (2, "research", "high")
        assert spec["minResources"] == {"cpu": "3", "memory": "2Gi"}
        assert "scheduleTimeoutSeconds" not in spec
        told = {**policy, "minResources": {"cpu": "100"}}
        await stage.patch(PYTORCH_JOBS, "job", {"spec": {"runPolicy": {"schedulingPolicy": told}}})
        assert (await stage.get(VOLCANO_POD_GROUPS, "job"))["spec"]["minResources"] == {"cpu": "100"}

    play(with_scheduler("volcano"), script)


def test_the_most_important_pods_count_for_the_least_resources() -> None:
    async def script(stage: Stage) -> None:
        await stage.client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        await stage.create(PYTORCH_JOBS, pytorch({"minAvailable": 2}, priorityClassName="high"))
        assert (await stage.get(PLUGINS_POD_GROUPS, "job"))["spec"]["minResources"] == {"cpu": "4", "memory": "2Gi"}

    play(with_scheduler(PLUGINS), script)


def test_scheduler_plugins_group_does_not_hold_pods_back() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(PYTORCH_JOBS, pytorch({"queue": "ignored", "scheduleTimeoutSeconds": 30}))
        spec = (await stage.get(PLUGINS_POD_GROUPS, "job"))["spec"]
        assert (spec["minMember"], spec["scheduleTimeoutSeconds"]) == (4, 30)
        assert "queue" not in spec
        pods = await stage.pods()
        assert len(pods) == 4
        assert {labels_of(pod)["scheduling.x-k8s.io/pod-group"] for pod in pods} == {"job"}
        assert {pod["spec"]["schedulerName"] for pod in pods} == {PLUGINS}

    play(with_scheduler(PLUGINS), script)


def test_scheduler_of_the_user_is_kept_and_said() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(PYTORCH_JOBS, pytorch(schedulerName="mine"))
        assert [pod["spec"]["schedulerName"] for pod in await stage.pods()] == [PLUGINS, "mine", "mine", "mine"]
        assert "SetPodTemplateSchedulerName" in await stage.reasons()

    play(with_scheduler(PLUGINS), script)


def test_group_goes_with_suspension_and_with_the_end() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(PYTORCH_JOBS, pytorch())
        await stage.patch(PYTORCH_JOBS, "job", {"spec": {"runPolicy": {"suspend": True}}})
        assert await stage.names(PLUGINS_POD_GROUPS) == []
        await stage.pass_time(40)
        await stage.patch(PYTORCH_JOBS, "job", {"spec": {"runPolicy": {"suspend": False}}})
        assert await stage.names(PLUGINS_POD_GROUPS) == ["job"]
        await stage.run()
        await stage.succeed("job-master-0")
        assert await stage.names(PLUGINS_POD_GROUPS) == []
        assert {"JobTerminated", "SuccessfulDeletePodGroup"} <= set(await stage.reasons())

    play(with_scheduler(PLUGINS), script)


def test_no_group_without_a_gang_scheduler_nor_for_another_manager() -> None:
    async def script(stage: Stage) -> None:
        foreign = pytorch()
        foreign["spec"]["runPolicy"]["managedBy"] = "kueue.x-k8s.io/multikueue"
        await stage.create(PYTORCH_JOBS, foreign)
        assert await stage.names(PLUGINS_POD_GROUPS) == await stage.names(VOLCANO_POD_GROUPS) == []

    play(with_scheduler(PLUGINS), script)

    async def without(stage: Stage) -> None:
        await stage.create(PYTORCH_JOBS, pytorch({"minAvailable": 2}))
        assert await stage.names(VOLCANO_POD_GROUPS) == []
        assert all("schedulerName" not in annotations_of(pod) for pod in await stage.pods())

    play(with_scheduler(""), without)


def mpi(policy: Obj | None = None, **run: Any) -> Obj:
    if policy is not None:
        run["schedulingPolicy"] = policy
    specs = {
        "Launcher": {"replicas": 1, "template": template("mpi", "500m", priorityClassName="first")},
        "Worker": {"replicas": 2, "template": template("mpi", "2", priorityClassName="second")},
    }
    return {"metadata": {"name": "job"}, "spec": {"runPolicy": run, "mpiReplicaSpecs": specs}}


async def make_classes(stage: Stage) -> None:
    for name in ("first", "second"):
        await stage.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 10})


@pytest.mark.parametrize(
    ("scheduler", "policy", "want"),
    [
        (
            "volcano",
            None,
            {
                "minMember": 3,
                "priorityClassName": "first",
                "queue": "default",
                "minResources": {"cpu": "4500m", "memory": "3Gi"},
            },
        ),
        (
            "volcano",
            {"minAvailable": 2, "queue": "q", "priorityClass": "own"},
            {
                "minMember": 2,
                "priorityClassName": "own",
                "queue": "q",
                "minResources": {"cpu": "2500m", "memory": "2Gi"},
            },
        ),
        (
            PLUGINS,
            None,
            {"minMember": 3, "scheduleTimeoutSeconds": 0, "minResources": {"cpu": "4500m", "memory": "3Gi"}},
        ),
    ],
    ids=["volcano", "volcano with a policy", "scheduler-plugins"],
)
def test_mpi_job_has_a_group(scheduler: str, policy: Obj | None, want: Obj) -> None:
    async def script(stage: Stage) -> None:
        await make_classes(stage)
        await stage.create(MPI_JOBS, mpi(policy, cleanPodPolicy="All"))
        resource = VOLCANO_POD_GROUPS if scheduler == "volcano" else PLUGINS_POD_GROUPS
        assert (await stage.get(resource, "job"))["spec"] == want
        pods = await stage.pods()
        assert len(pods) == 3
        assert {pod["spec"]["schedulerName"] for pod in pods} == {scheduler}
        marks = [annotations_of(pod) if scheduler == "volcano" else labels_of(pod) for pod in pods]
        key = "scheduling.k8s.io/group-name" if scheduler == "volcano" else "scheduling.x-k8s.io/pod-group"
        assert [entry[key] for entry in marks] == ["job"] * 3
        await stage.run()
        launcher = next(pod["metadata"]["name"] for pod in pods if "launcher" in pod["metadata"]["name"])
        await stage.succeed(launcher)
        await stage.pass_time(3)
        assert await stage.names(resource) == []

    play(with_scheduler(scheduler), script)


def test_v1_mpi_job_has_a_group() -> None:
    async def script(stage: Stage) -> None:
        await make_classes(stage)
        await stage.create(MPI_JOBS.at("v1"), mpi())
        assert (await stage.get(PLUGINS_POD_GROUPS, "job"))["spec"]["minMember"] == 3
        assert {labels_of(pod)["scheduling.x-k8s.io/pod-group"] for pod in await stage.pods()} == {"job"}

    play(with_scheduler(PLUGINS), script)


@pytest.mark.parametrize(
    ("policy", "resource", "want"),
    [
        (
            {"coscheduling": {"scheduleTimeoutSeconds": 90}},
            PLUGINS_POD_GROUPS,
            {"minMember": 3, "scheduleTimeoutSeconds": 90, "minResources": {"cpu": "6", "memory": "3Gi"}},
        ),
        ({"coscheduling": {}}, PLUGINS_POD_GROUPS, {"scheduleTimeoutSeconds": 60}),
        (
            {"volcano": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}},
            VOLCANO_POD_GROUPS,
            {
                "minMember": 3,
                "queue": "research",
                "priorityClassName": "high",
                "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
            },
        ),
    ],
    ids=["coscheduling", "default timeout", "volcano"],
)
def test_train_job_has_the_group_its_runtime_asks_for(policy: Obj, resource: Any, want: Obj) -> None:
    async def script(stage: Stage) -> None:
        await stage.client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 10})
        node = {
            "name": "node",
            "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                "spec": {"template": template("node", "2", priorityClassName="high")},
            },
        }
        spec = {
            "mlPolicy": {"numNodes": 3, "torch": {}},
            "podGroupPolicy": policy,
            "template": {
                "metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "research"}},
                "spec": {"replicatedJobs": [node]},
            },
        }
        await stage.create(CLUSTER_TRAINING_RUNTIMES, {"metadata": {"name": "rt"}, "spec": spec})
        await stage.create(TRAIN_JOBS, {"metadata": {"name": "job"}, "spec": {"runtimeRef": {"name": "rt"}}})
        group = await stage.get(resource, "job")
        assert {name: group["spec"].get(name) for name in want} == want
        assert group["metadata"]["ownerReferences"][0]["kind"] == "TrainJob"
        pods = await stage.pods()
        assert len(pods) == 3
        if resource is VOLCANO_POD_GROUPS:
            assert {annotations_of(pod)["scheduling.k8s.io/group-name"] for pod in pods} == {"job"}
        else:
            assert {labels_of(pod)["scheduling.x-k8s.io/pod-group"] for pod in pods} == {"job"}

    play(with_scheduler(""), script)
