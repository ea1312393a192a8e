"""The training operator's webhooks."""

from __future__ import annotations

from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.webhook_rules import WebhookRules, denied
from corral.jobs.kubeflow import kind as kubeflow


class TrainingJobRules(WebhookRules):
    """The training operator's validating webhooks, for every kind alike."""

    name = "TrainingJobRules"
    kinds = tuple((kubeflow.GROUP, entry.kind) for entry in kubeflow.FRAMEWORKS)

    async def validate(self, request: AdmissionRequest) -> None:
        framework = kubeflow.framework_of(request.resource.kind)
        if framework is None or request.obj is None:
            return
        causes = self.causes(framework, request.obj, request.old)
        if causes:
            raise denied(framework.webhook, causes)
        for text in kubeflow.training_job_warnings(request.obj):
            request.warn(text)

    def causes(self, framework: kubeflow.Framework, job: Obj, old: Obj | None) -> list[Cause]:
        return kubeflow.validate_training_job(framework, job, old)


def plugins(context: OperatorContext) -> list[AdmissionPlugin]:
    return [TrainingJobRules()]
