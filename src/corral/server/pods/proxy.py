"""The proxy subresources: HTTP requests to a Service or a Pod, carried on by the API server.

    GET /api/v1/namespaces/ns/services/https:web:443/proxy/metrics

The name may carry a scheme and a port. As in Kubernetes, an HTTPS backend is not verified: it has no name to verify.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from corral.core import errors
from corral.core.admission import UserInfo
from corral.core.errors import BadRequest, ServiceUnavailable
from corral.core.meta import Obj, spec_of, status_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES
from corral.server.extension.outcalls import MAX_ANSWER, Address, Caller, CallFailed, OpenAnswer, endpoint
from corral.server.http.message import JSON, Answer, Request, Response, Stream, Writer
from corral.server.paths import RequestInfo
from corral.server.verbs.options import Warnings
from corral.store import ObjectKey, Store

Handler = Callable[[Request, RequestInfo, UserInfo, Warnings], Awaitable[Answer]]
_DROPPED = {"host", "authorization", "connection", "content-length", "transfer-encoding", "upgrade"}
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "date", "keep-alive", "content-type"}


def split_name(text: str) -> tuple[str, str, str]:
    """(scheme, name, port) of `name`, `name:port` or `scheme:name:port`."""
    parts = text.split(":")
    if len(parts) == 1:
        return "http", parts[0], ""
    if len(parts) == 2:
        return "http", parts[0], parts[1]
    if len(parts) == 3 and parts[0] in ("", "http", "https"):
        return parts[0] or "http", parts[1], parts[2]
    raise BadRequest(f"invalid service request {text!r}")


class Proxying:
    """Serves the proxy subresources of Services and Pods."""

    def __init__(self, store: Store, caller: Caller) -> None:
        self._store = store
        self._caller = caller
        self.by_subresource: dict[tuple[str, str], Handler] = {
            ("services", "proxy"): self.service,
            ("pods", "proxy"): self.pod,
        }

    def _find(self, resource: Resource, namespace: str, name: str) -> Obj:
        stored = self._store.get(ObjectKey(resource.plural, namespace, name))
        if stored is None:
            raise errors.not_found(resource, name)
        return stored.obj

    async def service(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        scheme, name, port = split_name(info.name)
        service = self._find(SERVICES, info.namespace, name)
        ports = spec_of(service).get("ports") or []
        wanted = next((each for each in ports if port in (str(each.get("port")), each.get("name"))), None)
        if wanted is None:
            wanted = ports[0] if ports and not port else None
        if wanted is None:
            raise ServiceUnavailable(f'no service port "{port}" found for service "{name}"')
        try:
            host, number = endpoint(self._store, service, info.namespace, name, int(wanted["port"]))
        except CallFailed as error:
            raise ServiceUnavailable(str(error)) from error
        return await self._forward(request, info, f"{scheme}://{host}:{number}")

    async def pod(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        scheme, name, port = split_name(info.name)
        pod = self._find(PODS, info.namespace, name)
        host = status_of(pod).get("podIP")
        if not host:
            raise BadRequest("address not allowed")
        declared = [each for container in spec_of(pod).get("containers") or () for each in container.get("ports") or ()]
        number = port or str(declared[0]["containerPort"] if declared else 80)
        return await self._forward(request, info, f"{scheme}://{host}:{number}")

    async def _forward(self, request: Request, info: RequestInfo, base: str) -> Answer:
        _, _, query = request.target.partition("?")
        slash = "/" if request.path.endswith("/") and info.rest else ""
        suffix = f"/{info.rest}{slash}" + (f"?{query}" if query else "")
        fields = [(key, value) for key, value in request.fields if key not in _DROPPED]
        address = Address(base, base, "")
        try:
            answer = await self._caller.open(
                request.method, address, body=request.body, headers=fields, verify=False, suffix=suffix
            )
            headers = tuple((key, value) for key, value in answer.headers if key not in _HOP_BY_HOP)
            content_type = answer.header("content-type", JSON)
            if answer.status != 200 or _is_small(answer):
                async with answer:
                    return Response(answer.status, await answer.read(), content_type, headers, "")
        except CallFailed as error:
            raise ServiceUnavailable(f"error trying to reach service: {error}") from error

        async def produce(writer: Writer) -> None:
            async with answer:
                async for chunk in answer.chunks():
                    await writer.write(chunk)

        return Stream(produce, content_type, headers)


def _is_small(answer: OpenAnswer) -> bool:
    """Whether the answer can be held as a whole: its length is known, and not too much."""
    length = answer.header("content-length")
    return length.isdigit() and int(length) <= MAX_ANSWER
