"""What the webhooks of job operators have in common, as in-process admission plug-ins.

The same refusals reach a client in the same words, whether a webhook or such a plug-in says them.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.admission import AdmissionRequest
from corral.core.errors import Cause, Forbidden
from corral.core.meta import Obj


def denied(webhook: str, causes: Sequence[Cause]) -> Forbidden:
    """The refusal of a webhook that returns a plain error: 403, no causes."""
    texts = [str(cause) for cause in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Forbidden(f'admission webhook "{webhook}" denied the request: {text}', details={})


class WebhookRules:
    """Base of plug-ins that only check new and changed objects of some kinds."""

    name = ""
    kinds: tuple[tuple[str, str], ...] = ()

    def handles(self, request: AdmissionRequest) -> bool:
        is_write = request.operation in ("CREATE", "UPDATE") and not request.subresource and request.obj is not None
        return request.kind in self.kinds and is_write

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj
