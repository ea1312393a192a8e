"""The training operator's webhooks."""

from __future__ import annotations

from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.validation import forbidden
from corral.jobs.framework.operators import OperatorContext, OperatorSettings
from corral.jobs.framework.webhook_rules import WebhookRules, denied
from corral.jobs.kubeflow import kind as kubeflow

FEATURE = "JobManagedBy"
"""Whether jobs may say who manages them. Without it `spec.runPolicy.managedBy` cannot be set."""


class TrainingJobRules(WebhookRules):
    """The training operator's validating webhooks, for every kind alike."""

    name = "TrainingJobRules"
    kinds = tuple((kubeflow.GROUP, entry.kind) for entry in kubeflow.FRAMEWORKS)

    def __init__(self, settings: OperatorSettings | None = None) -> None:
        self._takes_managers = (settings or OperatorSettings()).has(FEATURE)

    async def validate(self, request: AdmissionRequest) -> None:
        framework = kubeflow.framework_of(request.resource.kind)
        if framework is None or request.obj is None:
            return
        causes = self.causes(framework, request.obj, request.old)
        if not self._takes_managers and not _names_manager(request.old):
            causes += _manager_refused(request.obj)
        if causes:
            raise denied(framework.webhook, causes)
        for text in kubeflow.training_job_warnings(request.obj):
            request.warn(text)

    def causes(self, framework: kubeflow.Framework, job: Obj, old: Obj | None) -> list[Cause]:
        return kubeflow.validate_training_job(framework, job, old)


def _names_manager(job: Obj | None) -> bool:
    return kubeflow.run_policy_of(job or {}).get("managedBy") is not None


def _manager_refused(job: Obj) -> list[Cause]:
    if not _names_manager(job):
        return []
    text = f"may only be set where the feature {FEATURE} of the operators is on"
    return [forbidden("spec.runPolicy.managedBy", text)]


def plugins(context: OperatorContext) -> list[AdmissionPlugin]:
    return [TrainingJobRules(context.settings)]
