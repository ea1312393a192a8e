"""AppWrappers, scenario by scenario."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, template

from corral.clusters.operators import operator_plugins
from corral.core import conditions
from corral.core.admission import UserInfo
from corral.core.errors import Forbidden
from corral.core.meta import Obj, labels_of
from corral.jobs.appwrapper.kind import APP_WRAPPERS, inferred_pod_sets
from corral.jobs.appwrapper.operator import AppWrapperController
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.operator import JobController
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.jobset.operator import JobSetController
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS, SERVICES
from corral.server.local import LocalClient


def controllers(cluster: Any) -> list[Any]:
    kinds = (JobController, JobSetController, AppWrapperController)
    return [kind(cluster.manager) for kind in kinds]


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.manager))


def job(name: str = "j", **spec: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": template(restartPolicy="Never"), **spec},
    }


def wrapper(*templates: Obj, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    prefix = "workload.codeflare.dev.appwrapper/"
    marks = {prefix + name: value for name, value in (annotations or {}).items()}
    components = [entry if "template" in entry else {"template": entry} for entry in templates]
    return {"metadata": {"name": "aw", "annotations": marks}, "spec": {"components": components, **spec}}


async def phase(stage: Stage) -> str:
    return str((await stage.get(APP_WRAPPERS, "aw"))["status"]["phase"])


def test_runs_its_components_and_succeeds() -> None:
    async def script(stage: Stage) -> None:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}, "data": {"a": "b"}}
        await stage.create(APP_WRAPPERS, wrapper(job(), config))
        assert await phase(stage) == "Running"
        assert "extra" in await stage.names(CONFIG_MAPS)
        child = await stage.get(JOBS, "j")
        assert labels_of(child)["workload.codeflare.dev/appwrapper"] == "aw"
        assert labels_of((await stage.pods())[0])["workload.codeflare.dev/appwrapper"] == "aw"
        await stage.run()
        running = await stage.get(APP_WRAPPERS, "aw")
        assert conditions.is_true(running, "PodsReady")
        assert conditions.is_true(running, "ResourcesDeployed")
        assert running["metadata"]["finalizers"] == ["workload.codeflare.dev/finalizer"]
        await stage.succeed()
        await stage.pass_time(40)
        assert await phase(stage) == "Succeeded"

    play(controllers, script, plugins=plugins)


def test_wraps_a_job_set() -> None:
    async def script(stage: Stage) -> None:
        inner = {
            "name": "w",
            "replicas": 2,
            "template": {"spec": {"backoffLimit": 0, "template": template(restartPolicy="Never")}},
        }
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "js"},
            "spec": {"replicatedJobs": [inner]},
        }
        await stage.create(APP_WRAPPERS, wrapper(body))
        assert await stage.names(JOB_SETS) == ["js"]
        assert len(await stage.names(PODS)) == 2
        await stage.run()
        await stage.succeed()
        await stage.pass_time(40)
        assert await phase(stage) == "Succeeded"

    play(controllers, script, plugins=plugins)


def test_suspended_has_nothing_and_resumes_with_what_the_queue_chose() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(APP_WRAPPERS, wrapper(job(), suspend=True))
        assert await phase(stage) == "Suspended"
        assert await stage.names(JOBS) == []
        component = (await stage.get(APP_WRAPPERS, "aw"))["spec"]["components"][0]
        chosen = {**component, "podSetInfos": [{"nodeSelector": {"flavor": "a"}}]}
        await stage.patch(APP_WRAPPERS, "aw", {"spec": {"suspend": False, "components": [chosen]}})
        assert (await stage.pods())[0]["spec"]["nodeSelector"] == {"flavor": "a"}
        await stage.run()
        await stage.patch(APP_WRAPPERS, "aw", {"spec": {"suspend": True}})
        await stage.pass_time(60)
        assert await phase(stage) == "Suspended"
        assert await stage.names(JOBS) == await stage.names(PODS) == []

    play(controllers, script, plugins=plugins)


def test_failure_is_retried_and_then_final() -> None:
    async def script(stage: Stage) -> None:
        marks = {"failureGracePeriodDuration": "10s", "retryPausePeriodDuration": "20s", "retryLimit": "1"}
        await stage.create(APP_WRAPPERS, wrapper(job(), annotations=marks))
        await stage.run()
        await stage.fail()
        await stage.pass_time(5)
        assert conditions.is_true(await stage.get(APP_WRAPPERS, "aw"), "Unhealthy")
        await stage.pass_time(60)
        again = await stage.get(APP_WRAPPERS, "aw")
        assert (again["status"]["phase"], again["status"]["retries"]) == ("Running", 1)
        await stage.run()
        await stage.fail()
        await stage.pass_time(60)
        assert await phase(stage) == "Failed"
        assert await stage.names(JOBS) == []

    play(controllers, script, plugins=plugins)


def test_terminal_exit_code_is_not_retried() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(APP_WRAPPERS, wrapper(job(backoffLimit=6), annotations={"terminalExitCodes": "3,4"}))
        await stage.run()
        await stage.fail(code=3)
        await stage.pass_time(5)
        assert await phase(stage) == "Failed"

    play(controllers, script, plugins=plugins)


def test_deployment_is_all_or_nothing() -> None:
    async def script(stage: Stage) -> None:
        bad = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "Not_A_Name"}, "spec": {"clusterIP": "None"}}
        await stage.create(APP_WRAPPERS, wrapper(job(), bad, annotations={"retryLimit": "0"}))
        await stage.pass_time(60)
        assert await phase(stage) == "Failed"
        found = conditions.find(await stage.get(APP_WRAPPERS, "aw"), "Unhealthy")
        assert found is not None
        assert found["reason"] == "CreateFailed"
        assert await stage.names(JOBS) == await stage.names(SERVICES) == []

    play(controllers, script, plugins=plugins)


def test_pods_that_do_not_come_up_are_a_failure() -> None:
    async def script(stage: Stage) -> None:
        marks = {"warmupGracePeriodDuration": "30s", "retryLimit": "0"}
        await stage.create(APP_WRAPPERS, wrapper(job(), annotations=marks))
        await stage.pass_time(20)
        assert await phase(stage) == "Running"
        await stage.pass_time(60)
        assert await phase(stage) == "Failed"

    play(controllers, script, plugins=plugins)


def test_retryable_exit_code_is_retried_while_others_are_final() -> None:
    async def script(stage: Stage) -> None:
        marks = {"retryableExitCodes": "75", "failureGracePeriodDuration": "5s", "retryPausePeriodDuration": "5s"}
        await stage.create(APP_WRAPPERS, wrapper(job(), annotations=marks))
        await stage.run()
        await stage.fail(code=75)
        await stage.pass_time(60)
        assert await phase(stage) == "Running"
        await stage.run()
        await stage.fail(code=1)
        await stage.pass_time(5)
        assert await phase(stage) == "Failed"

    play(controllers, script, plugins=plugins)


def test_a_component_that_does_not_go_is_taken_away_by_force() -> None:
    async def script(stage: Stage) -> None:
        marks = {"forcefulDeletionGracePeriodDuration": "60s"}
        await stage.create(APP_WRAPPERS, wrapper(job(), annotations=marks))
        await stage.run()
        (pod,) = await stage.pods()
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await stage.client.patch(JOBS, "j", "default", hold)
        await stage.patch(APP_WRAPPERS, "aw", {"spec": {"suspend": True}})
        await stage.pass_time(30)
        assert await phase(stage) == "Suspending"
        assert conditions.is_true(await stage.get(APP_WRAPPERS, "aw"), "DeletingResources")
        await stage.pass_time(120)
        assert pod["metadata"]["name"] not in await stage.names(PODS)

    play(controllers, script, plugins=plugins)


def test_deletion_takes_the_components_along() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(APP_WRAPPERS, wrapper(job()))
        await stage.client.delete(APP_WRAPPERS, "aw", "default")
        await stage.pass_time(60)
        assert await stage.names(APP_WRAPPERS) == await stage.names(JOBS) == await stage.names(PODS) == []

    play(controllers, script, plugins=plugins)


def test_another_manager_is_left_alone() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(APP_WRAPPERS, wrapper(job(), managedBy="kueue.x-k8s.io/multikueue"))
        await stage.pass_time(5)
        held = await stage.get(APP_WRAPPERS, "aw")
        assert "status" not in held
        assert "finalizers" not in held["metadata"]
        with pytest.raises(Forbidden, match="field is immutable"):
            await stage.patch(APP_WRAPPERS, "aw", {"spec": {"managedBy": "x.io/y"}})

    play(controllers, script, plugins=plugins)


NESTED = {
    "apiVersion": "workload.codeflare.dev/v1beta2",
    "kind": "AppWrapper",
    "metadata": {"name": "in"},
    "spec": {"components": []},
}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (wrapper(NESTED), "Nested AppWrappers are forbidden"),
        (
            wrapper({**job(), "metadata": {"name": "j", "namespace": "kube-system"}}),
            "AppWrappers cannot create objects in other namespaces",
        ),
        (wrapper({"template": job(), "podSets": [{"replicas": 2, "path": "template.spec.template"}]}), "inconsistent"),
        (
            wrapper({"template": job(), "podSets": [{"path": "template.spec"}]}),
            "path does not refer to a v1.PodSpecTemplate",
        ),
        (
            wrapper({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
            "components contains no podspecs",
        ),
        (wrapper(*[job(f"j{i}") for i in range(9)]), "at most 8 are allowed"),
    ],
    ids=["nested", "namespace", "replicas", "path", "no pods", "too many"],
)
def test_app_wrapper_is_refused(body: Obj, text: str) -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(Forbidden, match=text):
            await stage.create(APP_WRAPPERS, body)

    play(controllers, script, plugins=plugins)


def test_nobody_wraps_what_he_may_not_create() -> None:
    def only_jobs(cluster: Any) -> list[Any]:
        async def may_create(user: UserInfo, wrapped: Obj, namespace: str) -> bool:
            return namespace == "default" and (user.name != "ann" or wrapped["kind"] == "Job")

        return operator_plugins(OperatorContext(cluster.manager, may_create=may_create))

    async def script(stage: Stage) -> None:
        ann = LocalClient(stage.cluster.api, UserInfo("ann", uid="u-1"))
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **template()}
        body = wrapper(job(), pod)
        body["metadata"]["namespace"] = "default"
        with pytest.raises(Forbidden) as refused:
            await ann.create(APP_WRAPPERS, body)
        assert refused.value.message == (
            'admission webhook "vappwrapper.kb.io" denied the request: spec.components[1].template: Forbidden: '
            "User ann is not authorized to create Pod in default"
        )
        allowed = wrapper(job())
        allowed["metadata"]["namespace"] = "default"
        made = await ann.create(APP_WRAPPERS, allowed)
        assert labels_of(made)["workload.codeflare.dev/user"] == "ann"
        assert labels_of(made)["workload.codeflare.dev/userid"] == "u-1"

    play(controllers, script, plugins=only_jobs)


def test_components_do_not_change() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(APP_WRAPPERS, wrapper(job(), suspend=True))
        with pytest.raises(Forbidden, match="components is immutable"):
            await stage.patch(APP_WRAPPERS, "aw", {"spec": {"components": [{"template": job("other")}]}})

    play(controllers, script, plugins=plugins)


def test_pod_sets_are_inferred() -> None:
    ray = {"kind": "RayCluster", "spec": {"headGroupSpec": {}, "workerGroupSpecs": [{"replicas": 3, "numOfHosts": 2}]}}
    torch = {"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}, "Master": {}}}}
    assert inferred_pod_sets(ray) == [
        {"replicas": 1, "path": "template.spec.headGroupSpec.template"},
        {"replicas": 6, "path": "template.spec.workerGroupSpecs[0].template"},
    ]
    assert inferred_pod_sets(torch) == [
        {"replicas": 1, "path": "template.spec.pytorchReplicaSpecs.Master.template"},
        {"replicas": 2, "path": "template.spec.pytorchReplicaSpecs.Worker.template"},
    ]
    assert inferred_pod_sets({"kind": "Pod"}) == [{"replicas": 1, "path": "template"}]
    assert inferred_pod_sets({"kind": "Widget"}) is None
