"""LeaderWorkerSet's webhooks: one checks the sets, one tells their pods their place."""

from __future__ import annotations

from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.errors import ApiError, invalid
from corral.core.meta import Obj, controller_of, labels_of, name_of
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.webhook_rules import WebhookRules
from corral.jobs.leader_worker_set import kind as lws
from corral.jobs.leader_worker_set.kind import NAME
from corral.jobs.leader_worker_set.plan import placed


class LeaderWorkerSetRules(WebhookRules):
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


class LeaderWorkerSetPods:
    """Tells every pod of a LeaderWorkerSet its place when it is created."""

    name = "LeaderWorkerSetPods"

    def handles(self, request: AdmissionRequest) -> bool:
        return (
            request.operation == "CREATE"
            and request.resource.kind == "Pod"
            and not request.subresource
            and request.obj is not None
            and NAME in labels_of(request.obj)
            and controller_of(request.obj) is not None
        )

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        if request.obj is None:
            return None
        return placed(request.obj, request.name or name_of(request.obj))

    async def validate(self, request: AdmissionRequest) -> None:
        """Nothing to refuse."""


def plugins(context: OperatorContext) -> list[AdmissionPlugin]:
    return [LeaderWorkerSetRules(), LeaderWorkerSetPods()]
