"""The HTTP side of the webhook server: which path asks for what, and what is answered to everybody else."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from corral.clusters.webhooks.configurations import CONVERT, MUTATE, VALIDATE
from corral.clusters.webhooks.reviews import AdmissionReviews, ConversionReviews
from corral.core.admission import UserInfo
from corral.core.errors import ApiError, BadRequest, InternalError
from corral.core.meta import Obj
from corral.server.content.representations import error_response
from corral.server.http.message import TEXT, Answer, Request, Response

log = logging.getLogger(__name__)

HEALTH = ("/healthz", "/livez", "/readyz")
_CALLER = UserInfo("webhooks")
"""All who ask share what is kept for them."""
Review = Callable[[Obj], Awaitable[Obj]]
Further = Callable[[Request], Awaitable[Answer | None]]
"""Answers paths that are not a webhook's; None where there is nothing."""


class WebhookApplication:
    """Answers reviews, and health to those who ask. `is_ready` says whether the process can answer for the cluster."""

    def __init__(
        self,
        admission: AdmissionReviews,
        conversion: ConversionReviews,
        is_ready: Callable[[], bool],
        further: Further | None = None,
    ) -> None:
        async def convert(review: Obj) -> Obj:
            return conversion.convert(review)

        self._reviews: Mapping[str, Review] = {
            MUTATE: admission.mutate,
            VALIDATE: admission.validate,
            CONVERT: convert,
        }
        self._is_ready = is_ready
        self._further = further

    # what a connection calls

    def answer_now(self, request: Request) -> Response | None:
        if request.path not in HEALTH:
            return None
        if request.path == "/readyz" and not self._is_ready():
            return Response(503, b"informers are not in sync yet", TEXT)
        return Response(200, b"ok", TEXT)

    def caller(self, request: Request) -> UserInfo | None:
        """API servers show webhooks no credentials: whoever asks one asks a question, and learns what the API would say."""
        return _CALLER if request.path in self._reviews or request.peer is not None else None

    def refuse_body(self, request: Request) -> Response | None:
        return None if request.method == "POST" and request.path in self._reviews else self.refuse(404, "not found")

    def refuse(self, code: int, message: str) -> Response:
        return error_response(ApiError(message, code=code, reason=""))

    async def answer(self, request: Request) -> Answer:
        review = self._reviews.get(request.path)
        try:
            if review is None:
                found = await self._further(request) if self._further is not None else None
                return found or self.refuse(404, "404 page not found")
            return Response(200, msgspec.json.encode(await review(_body(request))))
        except ApiError as error:
            return error_response(error)
        except Exception as error:  # one review must not take the server with it
            log.exception("review failed", extra={"path": request.path})
            return error_response(InternalError(f"Internal error occurred: {error}"))


def _body(request: Request) -> Obj:
    try:
        body = msgspec.json.decode(request.body)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body is not an object")
    return body
