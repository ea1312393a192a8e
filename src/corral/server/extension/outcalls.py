"""Calls from the API server to other servers: admission webhooks and aggregated APIs, by URL or by Service.

TLS is always verified against the bundle the configuration gives. A Service is reached through its endpoints, so that no
cluster network is needed; the certificate is checked for the Service's DNS name.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from corral.client.wire import PASSED_ON, BrokenAnswer, Dial, Exchange, Wire, passed_on
from corral.core.meta import Obj, spec_of
from corral.server.access.certificates import Pair, load_pair
from corral.server.http.message import NO_CACHE, Headers, Request, Response, Stream, Writer
from corral.store import ObjectKey, Store

_SLICES = "endpointslices.discovery.k8s.io"
_READS = ("GET", "HEAD")
_INSECURE = "<insecure>"
MAX_SERVERS = 64
"""Servers whose connections are kept; a proxy to pods may meet any number of them."""
SHORT = 256 * 1024
"""Bytes of an answer that is held as a whole before it is passed on; what is longer goes as the client takes it."""
MAX_ANSWER = 64 << 20
"""Bytes of an answer that is read as a whole; a third party must not fill the API server's memory."""


_OURS = frozenset(
    {"authorization", "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
_IDENTITY = ("impersonate-", "x-remote-")
_CREDENTIAL = "base64url.bearer."


def for_others(request: Request) -> list[tuple[str, str]]:
    """The headers of a request that another server may see: never with what credentials it came, nor who says it is whom."""
    fields = []
    for name, value in request.fields:
        if name in _OURS or name.replace("_", "-").startswith(_IDENTITY):
            continue
        if name == "sec-websocket-protocol":  # where browsers put their token
            value = ",".join(entry for entry in value.split(",") if not entry.strip().startswith(_CREDENTIAL))
        fields.append((name, passed_on(value)))
    return fields


class CallFailed(Exception):
    """The other server did not give an answer; the message is in the words of Go's HTTP client."""


class Address(NamedTuple):
    """Where to call: the URL shown to people, the URL to connect to, and the name its certificate must have. One that
    `is_checked` may be called as it is; of all others the caller finds out."""

    shown: str
    url: str
    server_name: str
    is_checked: bool = False


class Reply(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


def resolve(store: Store, config: Obj, query: str = "") -> Address:
    """The address in a webhook's clientConfig or an APIService's service reference; with the `query` a webhook is asked
    with, what is wrong with a Service is said as Go's client does."""
    url = config.get("url")
    if url:
        return Address(url, url, urlsplit(url).hostname or "")
    service = config.get("service") or {}
    namespace, name = service.get("namespace") or "", service.get("name") or ""
    port, path = int(service.get("port") or 443), service.get("path") or ""
    path = path if not path or path.startswith("/") else "/" + path
    server_name = f"{name}.{namespace}.svc"
    stored = store.get(ObjectKey("services", namespace, name))
    try:
        if stored is None:
            raise CallFailed(f'service "{name}" not found')
        host, target = endpoint(store, stored.obj, namespace, name, port)
    except CallFailed as error:
        if not query:
            raise
        raise CallFailed(f'Post "https://{server_name}:{port}{path or "/"}?{query}": {error}') from None
    return Address(f"https://{server_name}:{port}{path}", f"https://{host}:{target}{path}", server_name)


def endpoint(store: Store, service: Obj, namespace: str, name: str, port: int) -> tuple[str, int]:
    """An address behind a Service: a ready endpoint, its external name, or its cluster address."""
    spec = spec_of(service)
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName")), port
    declared: Obj = next((each for each in spec.get("ports") or () if each.get("port") == port), {})
    for stored in store.scan(_SLICES, namespace):
        if stored.labels.get("kubernetes.io/service-name") == name:
            found = _in_slice(stored.obj, declared, port)
            if found is not None:
                return found
    endpoints = store.get(ObjectKey("endpoints", namespace, name))
    for subset in (endpoints.obj.get("subsets") or ()) if endpoints is not None else ():
        ports = subset.get("ports") or []
        match = next((each for each in ports if each.get("name", "") == declared.get("name", "")), None)
        if subset.get("addresses") and match is not None:
            return str(subset["addresses"][0]["ip"]), int(match["port"])
    address = spec.get("clusterIP")
    if address and address != "None" and not spec.get("selector"):
        return str(address), int(declared.get("targetPort") or port) if str(
            declared.get("targetPort", "")
        ).isdigit() else port
    raise CallFailed(f'no endpoints available for service "{name}"')


def _in_slice(slice_: Obj, declared: Obj, port: int) -> tuple[str, int] | None:
    ports = slice_.get("ports") or []
    match = next((each for each in ports if each.get("name", "") == declared.get("name", "")), None)
    if match is None:
        return None
    for endpoint in slice_.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False and endpoint.get("addresses"):
            return str(endpoint["addresses"][0]), int(match.get("port") or port)
    return None


_REFUSALS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    413: "the request is too large",
    415: "the server was unable to respond with a content type that the client supports",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def check_status(reply: Reply) -> None:
    """Refuse an answer that is not a success, in the words of Go's client."""
    if reply.status == 200:
        return
    media = next((value for name, value in reply.headers if name.lower() == "content-type"), "text/plain")
    text = reply.body[:2048].decode("utf-8", "replace").strip() if media.startswith("text/") else "unknown"
    if reply.status == 403:
        raise CallFailed(text)
    if reply.status in _REFUSALS:
        raise CallFailed(_REFUSALS[reply.status])
    if reply.status >= 500:
        raise CallFailed(f'an error on the server ("{text}") has prevented the request from succeeding')
    raise CallFailed(f"the server responded with the status code {reply.status} but did not return more information")


class Caller:
    """Makes the calls, keeping connections between them."""

    def __init__(self, addresses: Dial, certificate: Pair | None = None) -> None:
        """`addresses` says where a host may be called."""
        self._addresses = addresses
        self._certificate = certificate
        self._wires: dict[tuple[str, str, str, bool], Wire] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def _wire(self, base: str, address: Address, bundle: str, *, verify: bool) -> Wire:
        """The connections to a server, with the certificates it is checked against."""
        trusted = bundle if verify else _INSECURE
        key = (base, address.server_name, trusted, address.is_checked)
        wire = self._wires.get(key)
        if wire is None:
            if len(self._wires) >= MAX_SERVERS:
                self._forget_idle()
            context = self._context(trusted) if base.startswith("https:") else None
            addresses = None if address.is_checked else self._addresses
            wire = self._wires[key] = Wire(base, context, server_name=address.server_name, addresses=addresses)
        return wire

    def _forget_idle(self) -> None:
        for key, wire in list(self._wires.items()):
            if not wire.is_busy:
                wire.close()
                del self._wires[key]

    def _context(self, trusted: str) -> ssl.SSLContext:
        context = self._contexts.get(trusted)
        if context is None:
            if len(self._contexts) >= MAX_SERVERS:
                self._contexts.clear()  # wires keep theirs
            data = base64.b64decode(trusted).decode() if trusted and trusted != _INSECURE else None
            context = ssl.create_default_context(cadata=data)
            if trusted == _INSECURE:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self._certificate is not None:
                load_pair(context, self._certificate)
            self._contexts[trusted] = context
        return context

    async def call(
        self,
        method: str,
        address: Address,
        *,
        body: bytes,
        headers: dict[str, str],
        bundle: str = "",
        verify: bool = True,
        timeout_s: float = 10.0,
        suffix: str = "",
    ) -> Reply:
        """One request; CallFailed when there is no answer. `suffix` is appended to path or query."""
        try:
            async with asyncio.timeout(timeout_s):
                fields = list(headers.items())
                answer = await self.open(
                    method, address, body=body, headers=fields, bundle=bundle, verify=verify, suffix=suffix
                )
                async with answer:
                    return Reply(answer.status, answer.headers, await answer.read())
        except TimeoutError:
            raise CallFailed(f'{method.capitalize()} "{address.shown}{suffix}": context deadline exceeded') from None

    async def open(
        self,
        method: str,
        address: Address,
        *,
        body: bytes,
        headers: Sequence[tuple[str, str]],
        bundle: str = "",
        verify: bool = True,
        suffix: str = "",
    ) -> OpenAnswer:
        """A request whose answer is read by the caller, as long as it takes, and closed with `async with`."""
        shown = f'{method.capitalize()} "{address.shown}{suffix}"'
        parts = urlsplit(address.url)
        host = parts.netloc.rpartition("@")[2]
        target = parts.path + (f"?{parts.query}" if parts.query else "") + suffix
        try:
            wire = self._wire(f"{parts.scheme}://{host}", address, bundle, verify=verify)
            return await _answered(
                shown, wire, method, target if target.startswith("/") else f"/{target}", headers, body
            )
        except (OSError, ValueError) as error:
            raise CallFailed(f"{shown}: {_reason(error, parts.hostname or '', host)}") from error


async def _answered(
    shown: str, wire: Wire, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes
) -> OpenAnswer:
    """Asked once, and again where a server may have closed the kept connection at the moment a read was sent over it."""
    exchange = wire.request(method, target, headers, body, buffer=PASSED_ON)
    try:
        return OpenAnswer(shown, await exchange.__aenter__())
    except (BrokenAnswer, ConnectionResetError):
        if not exchange.reused or method not in _READS:
            raise
    return OpenAnswer(shown, await wire.request(method, target, headers, body, buffer=PASSED_ON).__aenter__())


class OpenAnswer:
    """An answer whose body is still to be read. What goes wrong meanwhile is a CallFailed, too."""

    def __init__(self, shown: str, exchange: Exchange) -> None:
        self._shown = shown
        self._exchange = exchange
        self.status = exchange.status
        self.headers = exchange.headers
        self.header = exchange.header

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exchange.__aexit__()

    async def read(self) -> bytes:
        """The whole body."""
        try:
            return await self._exchange.read(at_most=MAX_ANSWER)
        except OSError as error:
            raise CallFailed(f"{self._shown}: {error}") from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        try:
            async for data in self._exchange.chunks():
                yield data
        except OSError as error:
            raise CallFailed(f"{self._shown}: {error}") from error


async def passed_back(
    answer: OpenAnswer, method: str, content_type: str, headers: Headers, cache: str = NO_CACHE
) -> Response | Stream:
    """The answer for the client: short ones at once, others as he takes them."""
    if answer.status < 200:
        async with answer:
            raise CallFailed(f"the server answered with status {answer.status}, which nobody asked for")
    length = answer.header("content-length")
    has_no_body = method == "HEAD" or answer.status in (204, 304)
    if has_no_body or (length.isascii() and length.isdigit() and len(length) < 16 and int(length) <= SHORT):
        async with answer:
            return Response(answer.status, await answer.read(), content_type, headers, cache)

    async def produce(writer: Writer) -> None:
        async with answer:
            async for chunk in answer.chunks():
                await writer.write(chunk)

    stream = Stream(produce, content_type, headers)
    stream.status = answer.status
    return stream


def _reason(error: OSError | ValueError, host: str, where: str) -> str:
    """Why there was no answer, in the words of Go's client."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"tls: failed to verify certificate: {error}"
        case ssl.SSLError():
            return f"tls: {error}"
        case ConnectionRefusedError():
            return f"dial tcp {where}: connect: connection refused"
        case socket.gaierror():
            return f"dial tcp: lookup {host}: no such host"
        case ConnectionResetError():
            return "read: connection reset by peer"
        case TimeoutError():
            return f"dial tcp {where}: i/o timeout"
        case OSError(errno=int(), strerror=str(text)):
            return f"dial tcp {where}: {text}"
    return str(error) or "EOF"
