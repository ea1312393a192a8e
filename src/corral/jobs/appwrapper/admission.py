"""AppWrapper's webhooks."""

from __future__ import annotations

from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.errors import Cause
from corral.core.meta import Obj, namespace_of, spec_of, with_labels
from corral.jobs.appwrapper import kind as appwrapper
from corral.jobs.appwrapper.creator import with_creator, with_creator_of
from corral.jobs.framework.operators import MayCreate, OperatorContext
from corral.jobs.framework.webhook_rules import WebhookRules, denied


class AppWrapperRules(WebhookRules):
    """AppWrapper's webhooks: who made it is noted for good, and nobody wraps what he may not create."""

    name = "AppWrapperRules"
    kinds = ((appwrapper.GROUP, "AppWrapper"),)

    def __init__(self, may_create: MayCreate | None = None, starts_jobs: str = "") -> None:
        self._may_create = may_create
        self._starts_jobs = starts_jobs

    def handles(self, request: AdmissionRequest) -> bool:
        """Subresources too: through none of them another creator gets in."""
        return request.kind in self.kinds and request.operation in ("CREATE", "UPDATE")

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        if request.obj is None:
            return None
        if request.old is not None:
            return with_creator_of(request.obj, request.old)
        user = "".join(char if char.isalnum() or char in "-_." else "_" for char in request.user.name)[:63].strip("-_.")
        marks = {appwrapper.USER_LABEL: user}
        if request.user.uid:
            marks[appwrapper.USER_ID_LABEL] = request.user.uid
        return with_creator(with_labels(request.obj, marks), request.user)

    async def validate(self, request: AdmissionRequest) -> None:
        if request.obj is None or request.subresource:
            return
        causes = appwrapper.validate_app_wrapper(request.obj, request.old)
        if causes:
            raise denied(appwrapper.WEBHOOK, causes)
        if self._may_create is None or self._only_starts(request, request.obj):
            return
        for position, component in enumerate(spec_of(request.obj).get("components") or ()):
            if not await self._may_create(request.user, component["template"], request.namespace):
                kind = component["template"].get("kind")
                text = f"User {request.user.name} is not authorized to create {kind} in {namespace_of(request.obj)}"
                raise denied(
                    appwrapper.WEBHOOK,
                    [Cause("FieldValueForbidden", f"Forbidden: {text}", f"spec.components[{position}].template")],
                )

    def _only_starts(self, request: AdmissionRequest, changed: Obj) -> bool:
        """Components stay what they are; what is added to their pods later is the business of queueing, and of who may make them."""
        if request.old is None:
            return False
        return request.user.name == self._starts_jobs or _infos(request.old) == _infos(changed)


def _infos(app_wrapper: Obj) -> list[Obj | None]:
    return [component.get("podSetInfos") for component in spec_of(app_wrapper).get("components") or ()]


def plugins(context: OperatorContext) -> list[AdmissionPlugin]:
    return [AppWrapperRules(context.may_create, context.starts_jobs)]
