"""JobSet's webhook."""

from __future__ import annotations

from corral.core import validation as v
from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.errors import invalid
from corral.core.meta import name_of
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.webhook_rules import WebhookRules
from corral.jobs.jobset import kind as jobset
from corral.jobs.jobset.in_place_restart import STRATEGY, restarts_in_place


class JobSetRules(WebhookRules):
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


def plugins(context: OperatorContext) -> list[AdmissionPlugin]:
    return [JobSetRules(context.settings.has("InPlaceRestart"))]
