"""What the webhooks of the job operators check and fill in, as in-process admission plug-ins.

The same refusals reach a client in the same words, whether a webhook or this plug-in says them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corral.client.protocol import Client
from corral.core import validation as v
from corral.core.admission import AdmissionPlugin, AdmissionRequest, UserInfo
from corral.core.errors import ApiError, Cause, Forbidden, NotFound, invalid
from corral.core.meta import Obj, name_of, namespace_of, spec_of, status_of, with_labels
from corral.jobs.appwrapper import kind as appwrapper
from corral.jobs.jobset import kind as jobset
from corral.jobs.jobset.in_place_restart import STRATEGY, restarts_in_place
from corral.jobs.kubeflow import kind as kubeflow
from corral.jobs.leader_worker_set import kind as lws
from corral.jobs.leader_worker_set.operator import LeaderWorkerSetPods
from corral.jobs.mpijob import kind as mpi
from corral.jobs.trainjob import kind as trainer
from corral.runtime.clock import Clock

MayCreate = Callable[[UserInfo, Obj, str], bool]
"""Whether a user may create an object in a namespace."""


def denied(webhook: str, causes: Sequence[Cause]) -> Forbidden:
    """The refusal of a webhook that returns a plain error: 403, no causes."""
    texts = [str(cause) for cause in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Forbidden(f'admission webhook "{webhook}" denied the request: {text}', details={})


def _is_write(request: AdmissionRequest) -> bool:
    return request.operation in ("CREATE", "UPDATE") and not request.subresource and request.obj is not None


class _Rules:
    """Base of plug-ins that only check."""

    name = ""
    kinds: tuple[tuple[str, str], ...] = ()

    def handles(self, request: AdmissionRequest) -> bool:
        return request.kind in self.kinds and _is_write(request)

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj


class TrainingJobRules(_Rules):
    """The training operator's validating webhooks, for every kind alike."""

    name = "TrainingJobRules"
    kinds = tuple((kubeflow.GROUP, entry.kind) for entry in (*kubeflow.FRAMEWORKS, kubeflow.MPI))

    async def validate(self, request: AdmissionRequest) -> None:
        framework = kubeflow.framework_of(request.resource.kind)
        if framework is None or request.obj is None:
            return
        if framework is kubeflow.MPI:
            causes = mpi.validate_mpi_job(request.obj, request.old)
        else:
            causes = kubeflow.validate_training_job(framework, request.obj, request.old)
        if causes:
            raise denied(framework.webhook, causes)
        for text in kubeflow.training_job_warnings(request.obj):
            request.warn(text)


class JobSetRules(_Rules):
    """JobSet's webhook, which answers with a proper 422."""

    name = "JobSetRules"
    kinds = ((jobset.GROUP, "JobSet"),)

    def __init__(self, in_place_restart: bool = True) -> None:
        self._in_place_restart = in_place_restart

    async def validate(self, request: AdmissionRequest) -> None:
        if request.obj is None:
            return
        if request.old is None:
            causes = jobset.validate_job_set(request.obj)
        else:
            causes = jobset.validate_job_set_update(request.obj, request.old)
        if not self._in_place_restart and restarts_in_place(request.obj):
            text = f"{STRATEGY} restart strategy cannot be set when {STRATEGY} feature gate is disabled"
            causes = [v.forbidden("spec.failurePolicy.restartStrategy", text)]
        if causes:
            error = invalid("JobSet", name_of(request.obj), causes, jobset.GROUP)
            prefix = f'admission webhook "{jobset.WEBHOOK}" denied the request: '
            error.message = prefix + error.message
            raise error


class TrainerRules(_Rules):
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


class AppWrapperRules(_Rules):
    """AppWrapper's webhooks: who made it is noted, and nobody wraps what he may not create."""

    name = "AppWrapperRules"
    kinds = ((appwrapper.GROUP, "AppWrapper"),)

    def __init__(self, may_create: MayCreate | None = None) -> None:
        self._may_create = may_create

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        if request.obj is None or request.operation != "CREATE" or not request.user.name:
            return request.obj
        user = "".join(char if char.isalnum() or char in "-_." else "_" for char in request.user.name)[:63].strip("-_.")
        marks = {appwrapper.USER_LABEL: user}
        if request.user.uid:
            marks[appwrapper.USER_ID_LABEL] = request.user.uid
        return with_labels(request.obj, marks)

    async def validate(self, request: AdmissionRequest) -> None:
        if request.obj is None:
            return
        causes = appwrapper.validate_app_wrapper(request.obj, request.old)
        if causes:
            raise denied(appwrapper.WEBHOOK, causes)
        if self._may_create is None or request.old is not None:
            return
        for position, component in enumerate(spec_of(request.obj).get("components") or ()):
            if not self._may_create(request.user, component["template"], request.namespace):
                kind = component["template"].get("kind")
                text = f"User {request.user.name} is not authorized to create {kind} in {namespace_of(request.obj)}"
                raise denied(
                    appwrapper.WEBHOOK,
                    [Cause("FieldValueForbidden", f"Forbidden: {text}", f"spec.components[{position}].template")],
                )


class LeaderWorkerSetRules(_Rules):
    """LeaderWorkerSet's webhook."""

    name = "LeaderWorkerSetRules"
    kinds = ((lws.GROUP, "LeaderWorkerSet"),)

    async def validate(self, request: AdmissionRequest) -> None:
        if request.obj is None:
            return
        causes = lws.validate_leader_worker_set(request.obj, request.old)
        if causes:
            error: ApiError = invalid("LeaderWorkerSet", name_of(request.obj), causes, lws.GROUP)
            error.message = f'admission webhook "vleaderworkerset.kb.io" denied the request: {error.message}'
            raise error


def operator_plugins(
    client: Client, clock: Clock, may_create: MayCreate | None = None, *, in_place_restart: bool = True
) -> list[AdmissionPlugin]:
    """All plug-ins of the job operators."""
    return [
        TrainingJobRules(),
        JobSetRules(in_place_restart),
        TrainerRules(client, clock),
        AppWrapperRules(may_create),
        LeaderWorkerSetRules(),
        LeaderWorkerSetPods(),
    ]
