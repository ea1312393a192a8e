"""The trainer's webhooks."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.errors import Cause, NotFound
from corral.core.meta import Obj, spec_of, status_of
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.webhook_rules import WebhookRules, denied
from corral.jobs.trainjob import kind as trainer
from corral.runtime.clock import Clock


class TrainerRules(WebhookRules):
    """The trainer's webhooks: a TrainJob has to fit the runtime it names."""

    name = "TrainerRules"
    kinds = tuple((trainer.GROUP, kind) for kind in ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime"))

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        if request.obj is None or request.resource.kind != "TrainJob":
            return request.obj
        return trainer.stamp_patches(request.obj, request.old, self._clock.timestamp())

    async def validate(self, request: AdmissionRequest) -> None:
        if request.obj is None:
            return
        if request.resource.kind != "TrainJob":
            causes = trainer.validate_runtime(request.obj)
        else:
            causes = await self._check_train_job(request, request.obj)
        if causes:
            raise denied(f"validator.{request.resource.kind.lower()}.trainer.kubeflow.org", causes)

    async def _check_train_job(self, request: AdmissionRequest, train_job: Obj) -> list[Cause]:
        if spec_of(train_job).get("managedBy") == trainer.MULTIKUEUE and request.old is not None:
            return []
        runtime = await self._runtime(train_job, request.namespace)
        if request.old is None and runtime is not None:
            for text in trainer.runtime_warnings(runtime):
                request.warn(text)
        active = False
        patches = [spec_of(obj).get("runtimePatches") for obj in (train_job, request.old) if obj is not None]
        if request.old is not None and patches[0] != patches[-1]:
            counts = status_of(request.old).get("jobsStatus") or ()
            active = any(int(entry.get("active") or 0) > 0 for entry in counts)
        return trainer.validate_train_job(train_job, request.old, runtime, active=active)

    async def _runtime(self, train_job: Obj, namespace: str) -> Obj | None:
        reference = spec_of(train_job).get("runtimeRef") or {}
        try:
            if reference.get("kind") == "TrainingRuntime":
                return await self._client.get(trainer.TRAINING_RUNTIMES, reference.get("name") or "", namespace)
            return await self._client.get(trainer.CLUSTER_TRAINING_RUNTIMES, reference.get("name") or "")
        except NotFound:
            return None


def plugins(context: OperatorContext) -> list[AdmissionPlugin]:
    return [TrainerRules(context.manager.client, context.manager.clock)]
