"""What the job operators' webhooks and schemas refuse, in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.conformance.jobs.operator_stage import Stage, play, template

from corral.clusters.operators import operator_plugins
from corral.core.errors import ApiError, Forbidden, Invalid
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.kubeflow.kind import FRAMEWORKS, GROUP, PYTORCH, TENSORFLOW, XGBOOST, Framework

SEED = """
apiVersion: "kubeflow.org/v1"
kind: "TFJob"
metadata:
 name: "example-tfjob"
spec:
 runPolicy:
  managedBy: "kueue.x-k8s.io/multikueue"
  tfReplicaSpecs:
    Chief:
      replicas: 1
      template:
        spec:
          containers:
            - name: tensorflow
              image: tensorflow/tensorflow:latest
              args: ["python", "model.py"]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: tensorflow
              image: tensorflow/tensorflow:latest
              args: ["python", "model.py"]
"""


def nobody(cluster: Any) -> list[Any]:
    return []


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.manager))


def resource(framework: Framework) -> Resource:
    return Resource(GROUP, "v1", framework.plural, framework.kind)


def refused(where: Resource, body: Obj) -> ApiError:
    caught: list[ApiError] = []

    async def script(stage: Stage) -> None:
        with pytest.raises(ApiError) as found:
            await stage.create(where, body)
        caught.append(found.value)

    play(nobody, script, plugins=plugins)
    return caught[0]


def job(framework: Framework, specs: Obj, name: str = "job", **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {framework.field: specs, **spec}}


def one(framework: Framework, **more: Any) -> Obj:
    return {"template": template(framework.container), **more}


def test_replica_specs_under_run_policy_are_told_where_they_belong() -> None:
    error = refused(resource(TENSORFLOW), yaml.safe_load(SEED))
    assert isinstance(error, Invalid)
    assert "move spec.runPolicy.tfReplicaSpecs to spec.tfReplicaSpecs" in error.message
    assert [cause["field"] for cause in error.causes] == ["spec.runPolicy.tfReplicaSpecs"]


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda entry: entry.kind)
def test_missing_replica_specs_are_required(framework: Framework) -> None:
    error = refused(resource(framework), {"metadata": {"name": "job"}, "spec": {}})
    assert isinstance(error, Invalid)
    assert error.causes[0]["field"] == f"spec.{framework.field}"
    assert "Required value" in error.message


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda entry: entry.kind)
def test_managed_by_is_checked_and_immutable(framework: Framework) -> None:
    kind = "Worker" if framework is not XGBOOST else "Master"
    specs = {kind: one(framework)}
    error = refused(resource(framework), job(framework, specs, runPolicy={"managedBy": "other.io/x"}))
    prefix = f'admission webhook "validator.{framework.lower}.training-operator.kubeflow.org" denied the request: '
    assert error.message == (
        f'{prefix}spec.runPolicy.managedBy: Unsupported value: "other.io/x": '
        'supported values: "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"'
    )
    assert (error.code, error.reason) == (403, "Forbidden")

    async def script(stage: Stage) -> None:
        await stage.create(
            resource(framework), job(framework, specs, runPolicy={"managedBy": "kubeflow.org/training-operator"})
        )
        with pytest.raises(Forbidden, match="field is immutable"):
            await stage.patch(
                resource(framework), "job", {"spec": {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}}
            )

    play(nobody, script, plugins=plugins)


def test_queue_of_the_scheduling_policy_is_immutable() -> None:
    async def script(stage: Stage) -> None:
        where = resource(PYTORCH)
        await stage.create(
            where, job(PYTORCH, {"Worker": one(PYTORCH)}, runPolicy={"schedulingPolicy": {"queue": "a"}})
        )
        with pytest.raises(Invalid, match="is immutable"):
            await stage.patch(where, "job", {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "b"}}}})

    play(nobody, script, plugins=plugins)


@pytest.mark.parametrize(
    ("framework", "body", "text"),
    [
        pytest.param(PYTORCH, job(PYTORCH, {"Master": one(PYTORCH)}, "0-job"), "metadata.name", id="name"),
        pytest.param(
            PYTORCH,
            job(PYTORCH, {"Master": {"template": {"spec": {"containers": []}}}}),
            "must be specified",
            id="no containers",
        ),
        pytest.param(
            PYTORCH,
            job(PYTORCH, {"Master": {"template": {"spec": {"containers": [{"name": "pytorch"}]}}}}),
            "must be required",
            id="no image",
        ),
        pytest.param(
            PYTORCH,
            job(PYTORCH, {"Master": {"template": template("main")}}),
            "must have at least one container with name pytorch",
            id="container name",
        ),
        pytest.param(PYTORCH, job(PYTORCH, {"Master": one(PYTORCH, replicas=2)}), "must be 1", id="two masters"),
        pytest.param(PYTORCH, job(PYTORCH, {"Chief": one(PYTORCH)}), "Unsupported value", id="unknown type"),
        pytest.param(
            PYTORCH,
            job(PYTORCH, {"Master": one(PYTORCH)}, elasticPolicy={"minReplicas": 1}),
            "must be configured if elastic policy is used",
            id="elastic",
        ),
        pytest.param(
            TENSORFLOW,
            job(TENSORFLOW, {"Chief": one(TENSORFLOW), "Master": one(TENSORFLOW)}),
            "must not have more than 1 Chief or Master role",
            id="two chiefs",
        ),
        pytest.param(XGBOOST, job(XGBOOST, {"Worker": one(XGBOOST)}), "must be present", id="no master"),
    ],
)
def test_training_job_is_refused(framework: Framework, body: Obj, text: str) -> None:
    error = refused(resource(framework), body)
    assert isinstance(error, Forbidden)
    assert text in error.message


def replicated(name: str, **more: Any) -> Obj:
    return {"name": name, "template": {"spec": {"template": template()}}, **more}


def job_set(*jobs: Obj, name: str = "js", **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"replicatedJobs": list(jobs), **spec}}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(job_set(replicated("a"), name="j" * 60), "must be no more than 63 characters", id="long names"),
        pytest.param(
            job_set(replicated("a"), successPolicy={"operator": "All", "targetReplicatedJobs": ["b"]}),
            "does not appear in .spec.ReplicatedJobs",
            id="success target",
        ),
        pytest.param(
            job_set(
                replicated("a"), failurePolicy={"rules": [{"action": "FailJobSet", "onJobFailureReasons": ["Nope"]}]}
            ),
            "is not a recognized job failure reason",
            id="failure reason",
        ),
        pytest.param(
            job_set(replicated("a", dependsOn=[{"name": "b", "status": "Ready"}]), replicated("b")),
            "DependsOn can't be set for the first ReplicatedJob",
            id="first depends",
        ),
        pytest.param(
            job_set(replicated("a"), replicated("b", dependsOn=[{"name": "c", "status": "Ready"}]), replicated("c")),
            "not listed before it",
            id="later depends",
        ),
        pytest.param(job_set(replicated("a"), managedBy="nonsense"), "must be a domain-prefixed path", id="manager"),
        pytest.param(job_set(replicated("a"), coordinator={"replicatedJob": "x"}), "does not exist", id="coordinator"),
    ],
)
def test_job_set_is_refused(body: Obj, text: str) -> None:
    error = refused(JOB_SETS, body)
    assert isinstance(error, Invalid)
    assert error.message.startswith('admission webhook "vjobset.kb.io" denied the request: JobSet.jobset.x-k8s.io "')
    assert text in error.message


def test_job_set_fields_do_not_change_while_running() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set(replicated("a"), managedBy="acme.io/x"))
        for change in ({"managedBy": "acme.io/y"}, {"replicatedJobs": [replicated("a", replicas=3)]}):
            with pytest.raises(Invalid, match="field is immutable"):
                await stage.patch(JOB_SETS, "js", {"spec": change})
        with pytest.raises(Invalid, match="Value is immutable"):
            await stage.patch(JOB_SETS, "js", {"spec": {"successPolicy": {"operator": "Any"}}})

    play(nobody, script, plugins=plugins)
