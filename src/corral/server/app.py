"""The application: the way of every request through authentication, impersonation, limits, authorization and dispatch.

The order is Kubernetes': a request that may not be made learns nothing about what exists.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from corral.core.admission import ANONYMOUS, UserInfo
from corral.core.errors import ApiError, BadRequest, Forbidden, InternalError
from corral.core.server_limits import Limits
from corral.server import paths
from corral.server.access.audit import AuditLog
from corral.server.access.authentication import Authenticator, impersonated
from corral.server.access.authorization import Authorizer
from corral.server.access.rbac import attributes_of
from corral.server.content import parameters
from corral.server.content.compression import THRESHOLD, Compression
from corral.server.content.discovery import Discovery
from corral.server.content.negotiation import JSON, PROTOBUF, YAML
from corral.server.content.openapi import OpenApi
from corral.server.content.representations import error_response, warning_headers
from corral.server.http.limits import TARGET_WEIGHT, Load, size_of
from corral.server.http.message import TEXT, Answer, Request, Response, Stream, Writer
from corral.server.methods import not_served
from corral.server.non_resource_paths import Endpoints
from corral.server.paths import RequestInfo
from corral.server.request_metrics import RequestMetrics
from corral.server.resources import Resources
from corral.server.verbs.options import Warnings
from corral.server.verbs.steps import LONG_BODY
from corral.store import Store

log = logging.getLogger(__name__)

_ANY_JSON = ("", JSON, "*/*", "application/json, */*")
_READ_BY_PEOPLE = ("curl/", "Wget/", "Mozilla/")
_NOSNIFF = (("X-Content-Type-Options", "nosniff"),)
_NAMES = {
    400: "BadRequest",
    429: "TooManyRequests",
    413: "RequestEntityTooLarge",
    414: "RequestURITooLong",
    431: "RequestHeaderFieldsTooLarge",
}

Fallback = Callable[[Request, RequestInfo, UserInfo], Awaitable[Answer | None]]


def wants_pretty(request: Request) -> bool:
    """Whether a person will read the answer: they say so, or use a tool for people."""
    asked = request.query.values.get("pretty")
    if asked is not None:
        return asked.lower() in ("true", "1", "")
    return request.headers.get("user-agent", "").startswith(_READ_BY_PEOPLE)


def not_a_page() -> Response:
    return Response(404, b"404 page not found\n", TEXT, _NOSNIFF)


class App:
    """Answers requests. `fallback` serves what no local kind does (aggregated APIs), if anything does."""

    def __init__(
        self,
        *,
        store: Store,
        resources: Resources,
        discovery: Discovery,
        openapi: OpenApi,
        endpoints: Endpoints,
        authenticator: Authenticator,
        authorizer: Authorizer,
        metrics: RequestMetrics,
        timestamp: Callable[[], str],
        fallback: Fallback | None = None,
        audit: AuditLog | None = None,
        virtual: frozenset[tuple[str, str]] = frozenset(),
        limits: Limits = Limits(),  # noqa: B008  # frozen
    ) -> None:
        self._store = store
        self._resources = resources
        self._discovery = discovery
        self._openapi = openapi
        self._endpoints = endpoints
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._metrics = metrics
        self._timestamp = timestamp
        self._fallback = fallback
        self._audit = audit
        self._virtual = virtual
        self.load = Load(limits)
        self._compression = Compression()

    # what a connection calls

    def refuse(self, code: int, message: str) -> Response:
        details: dict[str, Any] | None = {"retryAfterSeconds": 1} if code == 429 else None
        return error_response(ApiError(message, code=code, reason=_NAMES.get(code, "BadRequest"), details=details))

    def caller(self, request: Request) -> UserInfo | None:
        """Who asks, when the request comes with good credentials."""
        try:
            user = self._authenticator.identify(request)
        except ApiError:
            return None
        return user if user is not ANONYMOUS else None

    def _owner(self, request: Request) -> str:
        """Whose turn it is when a request takes long before anybody looks at who asks."""
        try:
            return self._authenticator.identify(request).name
        except ApiError:
            return ANONYMOUS.name

    def refuse_body(self, request: Request) -> Response | None:
        """The refusal of a request of which only the head is there, or None when its body may come."""
        try:
            info = self._info(request)
            acting = impersonated(request, self._authenticator.identify(request), self._authorizer)
            self._authorizer.require(acting, attributes_of(info))
        except ValueError:
            return self.refuse(400, "malformed request target")
        except ApiError as error:
            return self._failed(request, error, Warnings())
        return None

    @staticmethod
    def _info(request: Request) -> RequestInfo:
        selected = parameters.selected_name(request.query)
        return paths.parse(request.method, request.path, watch=request.query.flag("watch"), selected_name=selected)

    def answer_now(self, request: Request) -> Response | None:
        """A plain read of one object needs no waiting, so it needs no task either."""
        if request.method != "GET" or "?" in request.target or not request.target.startswith("/api"):
            return None
        headers = request.headers
        if headers.get("accept", "") not in _ANY_JSON or "impersonate-user" in headers or "upgrade" in headers:
            return None
        if headers.get("user-agent", "").startswith(_READ_BY_PEOPLE):
            return None
        info = paths.parse("GET", request.path)
        if (
            not info.named
            or info.verb != "get"
            or info.subresource
            or self._audit is not None
            or (info.group, info.resource) in self._virtual
        ):
            return None
        try:
            user = self._authenticator.identify(request)
            self._authorizer.require(user, attributes_of(info))
            served = self._resources.find(info)
            if (served.kind.namespaced and not info.namespace) or "get" not in served.kind.verbs:
                return None
            if served.version.deprecated or served.needs_webhook:
                return None
            stored = self._store.get(served.key(info.namespace, info.name))
        except ApiError:
            return None
        if stored is None or stored.encoded_size() > THRESHOLD:  # which is compressed, or sent piece by piece
            return None
        self._metrics.count(info, 200)
        return Response(200, served.view(stored).raw)

    async def answer(self, request: Request) -> Answer:
        warnings = Warnings()
        try:
            if len(request.target) > LONG_BODY:
                await self._resources.read_query(request, self._owner(request))
            info = self._info(request)
        except ValueError:
            return self.refuse(400, "malformed request target")
        received = self._timestamp() if self._audit is not None else ""
        user, acting = ANONYMOUS, None
        try:
            user = self._authenticator.identify(request)
            acting = impersonated(request, user, self._authorizer)
            answer = await self._admit(request, info, acting, warnings)
        except ApiError as error:
            answer = self._failed(request, error, warnings)
        except RecursionError:
            answer = self._failed(request, BadRequest("the object is nested too deeply"), warnings)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # one request must not take the server with it
            log.exception("request failed: %s %s", request.method, request.path)
            answer = self._failed(request, InternalError(f"Internal error occurred: {error}"), warnings)
        if isinstance(answer, Response) and answer.content_type == JSON and wants_pretty(request):
            body = msgspec.json.format(answer.body, indent=2) + b"\n"
            answer = Response(answer.status, body, JSON, answer.headers, answer.cache)
        if isinstance(answer, Response) and len(answer.body) > THRESHOLD:
            answer = await self._compression.apply(request, answer)
        code = answer.status if isinstance(answer, Response | Stream) else 101
        if not request.handed_on:
            self._metrics.count(info, code)
        if self._audit is not None and not request.handed_on:
            other = acting if acting is not user else None
            self._audit.record(info, user, other, request.target, request.header("user-agent"), code, received)
        return answer

    async def _admit(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        """Within limits and allowed? Then dispatch."""
        with self.load.request(user, info.verb, size_of(request)):
            self._authorizer.require(user, attributes_of(info))
            answer = await self._dispatch(request, info, user, warnings)
        if info.verb == "watch" and isinstance(answer, Stream):
            answer.produce = self._counted(answer.produce, user, TARGET_WEIGHT * len(request.target))
        return answer

    def _counted(
        self, produce: Callable[[Writer], Awaitable[None]], user: UserInfo, size: int
    ) -> Callable[[Writer], Awaitable[None]]:
        async def counted(writer: Writer) -> None:
            with self.load.watch(user, size):
                await produce(writer)

        return counted

    async def _dispatch(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        if info.is_resource:
            if not self._discovery.serves(info.group):
                return await self._aggregated(request, info, user) or not_a_page()
            try:
                return await self._resources.answer(request, info, user, warnings)
            except ApiError as error:
                if error.details == {} and error.code == 404:
                    found = await self._aggregated(request, info, user)
                    if found is not None:
                        return found
                raise
        return await self._other_path(request, info, user)

    async def _other_path(self, request: Request, info: RequestInfo, user: UserInfo) -> Answer:
        first = request.path.split("/")[1] if "/" in request.path else ""
        found: Answer | None
        if first in ("api", "apis"):
            found = self._discovery.answer(request) or await self._aggregated(request, info, user)
            if found is None and len(info.path.split("/")) > 3 and self._discovery.serves(info.path.split("/")[2]):
                raise not_served()
        elif first == "openapi":
            found = await self._openapi.answer(request)
        else:
            found = self._endpoints.answer(request)
        return found or not_a_page()

    async def _aggregated(self, request: Request, info: RequestInfo, user: UserInfo) -> Answer | None:
        return await self._fallback(request, info, user) if self._fallback is not None else None

    def _failed(self, request: Request, error: ApiError, warnings: Warnings) -> Response:
        headers = warning_headers(list(warnings.messages))
        if isinstance(error, Forbidden) and "cannot" in error.message:
            headers = (*headers, *_NOSNIFF)
        accept = request.header("accept").strip()
        media = accept if accept in (PROTOBUF, YAML) else JSON
        return error_response(error, headers, media)
