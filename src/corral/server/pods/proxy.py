"""The proxy subresources: HTTP requests to a Service or a Pod, carried on by the API server.

    GET /api/v1/namespaces/ns/services/https:web:443/proxy/metrics

The name may carry a scheme and a port. As in Kubernetes, an HTTPS backend is not verified: it has no name to verify. Requests
go to pods and Services of this cluster and nowhere else: what an object's fields say is not taken for an address of the
cluster's, because those who may write them are not those who may make the server call somebody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from corral.client.wire import passed_on
from corral.core import errors
from corral.core.admission import UserInfo
from corral.core.errors import BadRequest, ServiceUnavailable
from corral.core.meta import Obj, spec_of, status_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES
from corral.server.extension.egress import NOT_ALLOWED, Egress
from corral.server.extension.outcalls import Address, Caller, CallFailed, endpoint, for_others, passed_back
from corral.server.http.message import JSON, Answer, Request
from corral.server.paths import RequestInfo
from corral.server.verbs.options import Warnings
from corral.store import ObjectKey, Store

Handler = Callable[[Request, RequestInfo, UserInfo, Warnings], Awaitable[Answer]]
_PATH = "/:@!$&'()*+,;=~"
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


def pod_port(pod: Obj, text: str) -> int:
    """The port of a pod that is asked for by number or by name; the first it declares, or 80, when none is."""
    declared = [each for container in spec_of(pod).get("containers") or () for each in container.get("ports") or ()]
    if not text:
        return int(declared[0]["containerPort"]) if declared else 80
    for each in declared:
        if each.get("name") == text:
            return int(each["containerPort"])
    if text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536:
        return int(text)
    raise BadRequest(f'invalid port "{text[:64]}": must be a number between 1 and 65535 or the name of a port')


class Proxying:
    """Serves the proxy subresources of Services and Pods."""

    def __init__(self, store: Store, caller: Caller, egress: Egress) -> None:
        self._store = store
        self._caller = caller
        self._egress = egress
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
        if spec_of(service).get("type") == "ExternalName":
            raise BadRequest(NOT_ALLOWED)
        try:
            host, number = endpoint(self._store, service, info.namespace, name, int(wanted["port"]))
        except CallFailed as error:
            raise ServiceUnavailable(str(error)) from error
        given = host == spec_of(service).get("clusterIP")  # whoever made the Service may have set it
        return await self._forward(request, info, scheme, self._egress.host(host, outside=not given), number)

    async def pod(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        scheme, name, port = split_name(info.name)
        pod = self._find(PODS, info.namespace, name)
        number = pod_port(pod, port)
        host = self._pod_host(pod, number)
        return await self._forward(request, info, scheme, host, number)

    def _pod_host(self, pod: Obj, port: int) -> str:
        status, spec = status_of(pod), spec_of(pod)
        address = str(status.get("podIP") or "")
        declared = [each for container in spec.get("containers") or () for each in container.get("ports") or ()]
        if spec.get("hostNetwork") and address and address == status.get("hostIP"):
            # It lives on a machine, with everything else that does: only what it says is its own can be meant.
            if any(each.get("containerPort") == port for each in declared):
                return f"[{address}]" if ":" in address else address
            raise BadRequest(NOT_ALLOWED)
        return self._egress.host(address, outside=True)

    async def _forward(self, request: Request, info: RequestInfo, scheme: str, host: str, port: int) -> Answer:
        base = f"{scheme}://{host}:{port}"
        _, _, query = request.target.partition("?")
        slash = "/" if request.path.endswith("/") and info.rest else ""
        suffix = f"/{quote(info.rest, safe=_PATH)}{slash}" + (f"?{passed_on(query)}" if query else "")
        fields = for_others(request)
        address = Address(base, base, "", is_checked=True)
        try:
            answer = await self._caller.open(
                request.method, address, body=request.body, headers=fields, verify=False, suffix=suffix
            )
            headers = tuple((key, value) for key, value in answer.headers if key not in _HOP_BY_HOP)
            content_type = answer.header("content-type", JSON)
            return await passed_back(answer, request.method, content_type, headers, "")
        except CallFailed as error:
            raise ServiceUnavailable(f"error trying to reach service: {error}") from error
