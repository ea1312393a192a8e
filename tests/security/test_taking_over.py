"""Who may create jobs of one kind gets at nothing that has the name of a thing his job would have: operators change and delete what belongs
to the job alone."""

from __future__ import annotations

from tests.conformance.jobs import test_kubeflow, test_lws, test_ray
from tests.conformance.jobs.operator_stage import Stage, play

from corral.core.meta import Obj, spec_of, uid_of
from corral.core.resource import Resource
from corral.jobs.leader_worker_set.kind import LEADER_WORKER_SETS
from corral.jobs.ray.kind import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from corral.kinds.kubernetes.apps.kinds import STATEFUL_SETS
from corral.kinds.kubernetes.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from corral.kinds.kubernetes.core.kinds import EVENTS, SERVICES


async def complaints(stage: Stage, job: Obj) -> list[str]:
    events = (await stage.client.list(EVENTS, "default")).items
    return [event["message"] for event in events if event["involvedObject"].get("uid") == uid_of(job)]


def test_a_leader_worker_set_leaves_a_stateful_set_of_its_name_alone() -> None:
    async def script(stage: Stage) -> None:
        pods = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "db"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "db"}}, "template": pods}
        theirs = await stage.create(STATEFUL_SETS, {"metadata": {"name": "lw"}, "spec": spec})
        mine = await stage.create(LEADER_WORKER_SETS, test_lws.lws(replicas=5))
        after = await stage.get(STATEFUL_SETS, "lw")
        assert spec_of(after) == spec_of(theirs)
        assert after["metadata"].get("labels") == theirs["metadata"].get("labels")
        assert any('"lw" already exists' in text for text in await complaints(stage, mine))

    play(test_lws.controllers, script, plugins=test_lws.plugins)


def test_a_ray_service_sends_nobody_elses_clients_to_its_pods() -> None:
    dashboard = test_ray.FakeDashboard()
    dashboard.apps = {"hello": {"status": "RUNNING", "message": "", "deployments": {}}}

    async def script(stage: Stage) -> None:
        selector = {"app": "shop"}
        for name in ("rs-head-svc", "rs-serve-svc"):
            spec = {"selector": selector, "ports": [{"port": 80}]}
            await stage.create(SERVICES, {"metadata": {"name": name}, "spec": spec})
        config = "applications:\n- name: hello\n  import_path: hello:app\n"
        spec = {"serveConfigV2": config, "rayClusterConfig": test_ray.cluster_spec(1)}
        mine = await stage.create(RAY_SERVICES, {"metadata": {"name": "rs"}, "spec": spec})
        await stage.run()
        await stage.pass_time(3)
        for name in ("rs-head-svc", "rs-serve-svc"):
            assert spec_of(await stage.get(SERVICES, name))["selector"] == selector
            assert any(f'"{name}" already exists' in text for text in await complaints(stage, mine))

    play(dashboard.controllers, script)


def test_a_suspended_job_does_not_delete_an_autoscaler_of_its_name() -> None:
    async def script(stage: Stage) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
        spec = {"maxReplicas": 9, "scaleTargetRef": target}
        theirs = await stage.create(HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": "job"}, "spec": spec})
        where: Resource = test_kubeflow.resource(test_kubeflow.PYTORCH)
        usage = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
        elastic = {"minReplicas": 1, "maxReplicas": 4, "metrics": [{"type": "Resource", "resource": usage}]}
        extra = {"elasticPolicy": elastic}
        await stage.create(where, test_kubeflow.job(test_kubeflow.PYTORCH, {"suspend": True}, extra=extra, Worker=2))
        await stage.pass_time(1)
        assert uid_of(await stage.get(HORIZONTAL_POD_AUTOSCALERS, "job")) == uid_of(theirs)

    play(test_kubeflow.controllers, script)


def test_a_ray_job_ends_no_cluster_but_its_own() -> None:
    async def script(stage: Stage) -> None:
        theirs = await stage.create(RAY_CLUSTERS, test_ray.ray_cluster())
        mine = await stage.create(RAY_JOBS, test_ray.ray_job())
        ended = {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete", "rayClusterName": "rc"}
        status = {**mine.get("status", {}), **ended, "jobId": "j", "endTime": "2020-01-01T00:00:00Z"}
        now = await stage.get(RAY_JOBS, "rj")
        await stage.client.update(RAY_JOBS, {**now, "status": status}, subresource="status")
        await stage.pass_time(60)
        left = await stage.get(RAY_CLUSTERS, "rc")
        assert uid_of(left) == uid_of(theirs)
        assert "deletionTimestamp" not in left["metadata"]

    play(test_ray.controllers, script)
