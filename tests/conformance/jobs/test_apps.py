"""Deployments, StatefulSets, DaemonSets, CronJobs and endpoints, scenario by scenario."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import NAMESPACE, Stage, play, template

from corral.controllers.apps.daemonset import DaemonSetController
from corral.controllers.apps.deployment import DeploymentController
from corral.controllers.apps.endpoints import EndpointsController
from corral.controllers.apps.replicaset import ReplicaSetController
from corral.core import conditions
from corral.core.meta import Obj, labels_of, name_of
from corral.jobs.batch_job.cron_operator import CronJobController
from corral.jobs.batch_job.kind import CRON_JOBS, JOBS
from corral.jobs.batch_job.operator import JobController
from corral.jobs.stateful_set.operator import StatefulSetController
from corral.kinds.kubernetes.apps.kinds import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from corral.kinds.kubernetes.core.kinds import ENDPOINTS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES


def controllers(cluster: Any) -> list[Any]:
    kinds = (
        ReplicaSetController,
        DeploymentController,
        StatefulSetController,
        DaemonSetController,
        CronJobController,
        JobController,
        EndpointsController,
    )
    return [kind(cluster.manager) for kind in kinds]


def labelled(image: str = "img:1", **spec: Any) -> Obj:
    body = template("c", **spec)
    body["spec"]["containers"][0]["image"] = image
    return {"metadata": {"labels": {"app": "web"}}, **body}


def deployment(replicas: int = 3, **spec: Any) -> Obj:
    base = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": labelled()}
    return {"metadata": {"name": "web"}, "spec": {**base, **spec}}


async def sets(stage: Stage) -> list[Obj]:
    found = (await stage.client.list(REPLICA_SETS, NAMESPACE)).items
    return sorted(found, key=lambda rs: int(rs["metadata"]["annotations"]["deployment.kubernetes.io/revision"]))


async def roll(stage: Stage, rounds: int = 12) -> None:
    for _ in range(rounds):
        await stage.run()
        await stage.pass_time(1)


def test_deployment_becomes_available() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(DEPLOYMENTS, deployment())
        [rs] = await sets(stage)
        assert name_of(rs).startswith("web-")
        assert labels_of(rs)["pod-template-hash"] == name_of(rs).removeprefix("web-")
        assert len(await stage.names(PODS)) == 3
        new = await stage.get(DEPLOYMENTS, "web")
        assert new["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        available = conditions.find(new, "Available")
        assert available is not None
        assert available["reason"] == "MinimumReplicasUnavailable"
        await stage.run()
        done = (await stage.get(DEPLOYMENTS, "web"))["status"]
        counts = {key: value for key, value in done.items() if key != "conditions"}
        assert counts == {
            "observedGeneration": 1,
            "replicas": 3,
            "updatedReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
        }
        progress = conditions.find(done["conditions"], "Progressing")
        assert progress is not None
        assert (progress["reason"], progress["message"]) == (
            "NewReplicaSetAvailable",
            f'ReplicaSet "{name_of(rs)}" has successfully progressed.',
        )
        available = conditions.find(done["conditions"], "Available")
        assert available is not None
        assert available["message"] == "Deployment has minimum availability."
        assert "ScalingReplicaSet" in await stage.reasons()

    play(controllers, script)


def test_rolling_update_keeps_enough_pods_and_can_be_undone() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(DEPLOYMENTS, deployment(4))
        await stage.run()
        first = (await stage.get(DEPLOYMENTS, "web"))["spec"]["template"]
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"template": labelled("img:2")}})
        for _ in range(12):
            pods = await stage.pods()
            ready = [
                pod for pod in pods if conditions.is_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]
            ]
            assert len(ready) >= 3
            assert len([pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]) <= 5
            await stage.run()
        old, new = await sets(stage)
        assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (0, 4)
        assert {pod["spec"]["containers"][0]["image"] for pod in await stage.pods()} == {"img:2"}
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"template": first}})
        await roll(stage)
        newer, undone = await sets(stage)
        assert name_of(undone) == name_of(old)
        assert undone["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        assert (newer["spec"]["replicas"], undone["spec"]["replicas"]) == (0, 4)

    play(controllers, script)


def test_recreate_waits_for_the_old_pods() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(DEPLOYMENTS, deployment(2, strategy={"type": "Recreate"}))
        await stage.run()
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"template": labelled("img:2")}})
        await stage.pass_time(60)
        assert {pod["spec"]["containers"][0]["image"] for pod in await stage.pods()} == {"img:2"}
        assert len(await stage.pods()) == 2

    play(controllers, script)


def test_scaling_and_pausing() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(DEPLOYMENTS, deployment(1))
        await stage.run()
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}})
        assert len(await stage.names(PODS)) == 5
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"paused": True, "template": labelled("img:2")}})
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2}})
        await stage.pass_time(40)
        assert len(await sets(stage)) == 1
        assert len(await stage.names(PODS)) == 2
        paused = conditions.find(await stage.get(DEPLOYMENTS, "web"), "Progressing")
        assert paused is not None
        assert paused["reason"] == "DeploymentPaused"

    play(controllers, script)


def test_stuck_rollout_says_so() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(DEPLOYMENTS, deployment(1, progressDeadlineSeconds=60))
        await stage.pass_time(70)
        stuck = conditions.find(await stage.get(DEPLOYMENTS, "web"), "Progressing")
        assert stuck is not None
        assert (stuck["status"], stuck["reason"]) == ("False", "ProgressDeadlineExceeded")

    play(controllers, script)


def test_history_is_limited() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(DEPLOYMENTS, deployment(1, revisionHistoryLimit=1))
        for number in range(2, 5):
            await stage.run()
            await stage.patch(DEPLOYMENTS, "web", {"spec": {"template": labelled(f"img:{number}")}})
            await roll(stage, 4)
        assert len(await sets(stage)) == 2

    play(controllers, script)


def stateful(replicas: int = 3, **spec: Any) -> Obj:
    base = {
        "replicas": replicas,
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}},
        "template": labelled(),
    }
    return {"metadata": {"name": "web"}, "spec": {**base, **spec}}


def test_stateful_set_starts_in_order_and_stops_in_reverse() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(STATEFUL_SETS, stateful())
        for count in range(1, 4):
            assert await stage.names(PODS) == [f"web-{index}" for index in range(count)]
            await stage.run()
        pod = await stage.get(PODS, "web-2")
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-2", "web")
        assert labels_of(pod)["apps.kubernetes.io/pod-index"] == "2"
        assert labels_of(pod)["statefulset.kubernetes.io/pod-name"] == "web-2"
        status = (await stage.get(STATEFUL_SETS, "web"))["status"]
        assert (status["replicas"], status["readyReplicas"], status["currentRevision"]) == (
            3,
            3,
            status["updateRevision"],
        )
        await stage.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 1}})
        await stage.pass_time(0.1)
        await stage.pass_time(90)
        assert await stage.names(PODS) == ["web-0"]

    play(controllers, script)


def test_stateful_set_in_parallel() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(STATEFUL_SETS, stateful(podManagementPolicy="Parallel", ordinals={"start": 5}))
        assert await stage.names(PODS) == ["web-5", "web-6", "web-7"]

    play(controllers, script)


def test_stateful_set_updates_from_the_end_down_to_the_partition() -> None:
    async def script(stage: Stage) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await stage.create(STATEFUL_SETS, stateful(updateStrategy=strategy))
        await roll(stage, 4)
        await stage.patch(STATEFUL_SETS, "web", {"spec": {"template": labelled("img:2")}})
        for _ in range(6):
            await stage.pass_time(35)
            await stage.run()
        images = {name_of(pod): pod["spec"]["containers"][0]["image"] for pod in await stage.pods()}
        assert images == {"web-0": "img:1", "web-1": "img:2", "web-2": "img:2"}
        assert len(await stage.names(CONTROLLER_REVISIONS)) == 2
        await stage.patch(STATEFUL_SETS, "web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
        for _ in range(3):
            await stage.pass_time(35)
            await stage.run()
        status = (await stage.get(STATEFUL_SETS, "web"))["status"]
        assert status["currentRevision"] == status["updateRevision"]

    play(controllers, script)


def test_stateful_set_makes_claims_and_recreates_failed_pods() -> None:
    async def script(stage: Stage) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await stage.create(STATEFUL_SETS, stateful(1, volumeClaimTemplates=[claim]))
        assert await stage.names(PERSISTENT_VOLUME_CLAIMS) == ["data-web-0"]
        pod = await stage.get(PODS, "web-0")
        claims = [volume for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
        assert claims[0]["persistentVolumeClaim"]["claimName"] == "data-web-0"
        await stage.run()
        await stage.fail()
        await stage.pass_time(60)
        assert (await stage.get(PODS, "web-0"))["metadata"]["uid"] != pod["metadata"]["uid"]

    play(controllers, script)


def test_daemon_set_follows_the_nodes() -> None:
    async def script(stage: Stage) -> None:
        for name, extra in (("a", {}), ("b", {}), ("c", {"taints": [{"key": "x", "effect": "NoSchedule"}]})):
            await stage.create(NODES, {"metadata": {"name": name, "labels": {"disk": "ssd"}}, "spec": extra})
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": labelled(nodeSelector={"disk": "ssd"})}
        await stage.create(DAEMON_SETS, {"metadata": {"name": "agent"}, "spec": spec})
        assert len(await stage.names(PODS)) == 2
        status = (await stage.get(DAEMON_SETS, "agent"))["status"]
        assert status["desiredNumberScheduled"] == 2
        await stage.create(NODES, {"metadata": {"name": "d", "labels": {"disk": "ssd"}}})
        assert len(await stage.names(PODS)) == 3
        await stage.client.delete(NODES, "d")
        await stage.pass_time(40)
        assert len(await stage.names(PODS)) == 2

    play(controllers, script)


def cron(schedule: str = "*/5 * * * *", **spec: Any) -> Obj:
    job = {"spec": {"backoffLimit": 0, "template": template(restartPolicy="Never")}}
    return {"metadata": {"name": "tick"}, "spec": {"schedule": schedule, "jobTemplate": job, **spec}}


def test_cron_job_starts_jobs_on_time_and_forgets_old_ones() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CRON_JOBS, cron(successfulJobsHistoryLimit=2))
        await stage.pass_time(299)
        assert await stage.names(JOBS) == []
        for _ in range(4):
            await stage.pass_time(301)
            await stage.run()
            await stage.succeed()
        names = await stage.names(JOBS)
        minutes = int(stage.cluster.clock.epoch) // 60
        assert names == [f"tick-{minutes + 20}", f"tick-{minutes + 25}"]
        status = (await stage.get(CRON_JOBS, "tick"))["status"]
        assert {"lastScheduleTime", "lastSuccessfulTime"} <= status.keys()
        assert "active" not in status

    play(controllers, script)


@pytest.mark.parametrize(("policy", "running"), [("Allow", 2), ("Forbid", 1), ("Replace", 1)])
def test_cron_job_concurrency(policy: str, running: int) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CRON_JOBS, cron(concurrencyPolicy=policy))
        await stage.pass_time(302)
        first = await stage.names(JOBS)
        await stage.pass_time(360)
        names = await stage.names(JOBS)
        assert len(names) == running
        assert (first[0] in names) == (policy != "Replace")
        assert ("JobAlreadyActive" in await stage.reasons()) == (policy == "Forbid")

    play(controllers, script)


def test_suspended_cron_job_does_nothing() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CRON_JOBS, cron(suspend=True))
        await stage.pass_time(1000)
        assert await stage.names(JOBS) == []

    play(controllers, script)


def test_endpoints_follow_ready_pods() -> None:
    async def script(stage: Stage) -> None:
        ports = [{"name": "http", "port": 80, "targetPort": "web"}]
        await stage.create(
            SERVICES, {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
        )
        pod = labelled()
        pod["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 8080}]
        await stage.create(STATEFUL_SETS, stateful(1, template=pod))
        await stage.run()
        [piece] = (await stage.client.list(ENDPOINT_SLICES, NAMESPACE)).items
        assert labels_of(piece)["kubernetes.io/service-name"] == "web"
        assert piece["ports"][0]["port"] == 8080
        [endpoint] = piece["endpoints"]
        assert (endpoint["addresses"], endpoint["hostname"], endpoint["conditions"]["ready"]) == (
            ["10.0.0.1"],
            "web-0",
            True,
        )
        old = await stage.get(ENDPOINTS, "web")
        assert old["subsets"][0]["addresses"][0]["ip"] == "10.0.0.1"
        await stage.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 0}})
        await stage.pass_time(60)
        assert "subsets" not in await stage.get(ENDPOINTS, "web")
        await stage.client.delete(SERVICES, "web", NAMESPACE)
        await stage.pass_time(1)
        assert await stage.names(ENDPOINT_SLICES) == []

    play(controllers, script)
