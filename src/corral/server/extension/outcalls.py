"""Calls from the API server to other servers: admission webhooks and aggregated APIs, by URL or by Service.

TLS is always verified against the bundle the configuration gives. A Service is reached through its endpoints, so that no
cluster network is needed; the certificate is checked for the Service's DNS name.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from corral.core.meta import Obj, spec_of
from corral.server.access.certificates import Pair, load_pair
from corral.store import ObjectKey, Store

if TYPE_CHECKING:
    import aiohttp

_SLICES = "endpointslices.discovery.k8s.io"


class CallFailed(Exception):
    """The other server did not give an answer; the message is in the words of Go's HTTP client."""


class Address(NamedTuple):
    """Where to call: the URL shown to people, the URL to connect to, and the name its certificate must have."""

    shown: str
    url: str
    server_name: str


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
    """Makes the calls, keeping connections between them. The HTTP client is only loaded when there is something to call."""

    def __init__(self, certificate: Pair | None = None) -> None:
        self._certificate = certificate
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0)
            self._session = aiohttp.ClientSession(auto_decompress=False, trust_env=False, timeout=timeout)
        return self._session

    def _context(self, bundle: str, *, verify: bool) -> ssl.SSLContext:
        key = bundle if verify else "<insecure>"
        context = self._contexts.get(key)
        if context is None:
            data = base64.b64decode(bundle).decode() if bundle else None
            context = ssl.create_default_context(cadata=data)
            if not verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self._certificate is not None:
                load_pair(context, self._certificate)
            self._contexts[key] = context
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
        opened = self.open(
            method, address, body=body, headers=list(headers.items()), bundle=bundle, verify=verify, suffix=suffix
        )
        try:
            async with asyncio.timeout(timeout_s), opened as answer:
                return Reply(answer.status, list(answer.headers.items()), await answer.read())
        except TimeoutError:
            raise CallFailed(f'{method.capitalize()} "{address.shown}{suffix}": context deadline exceeded') from None

    @asynccontextmanager
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
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A request whose answer is read by the caller, as long as it takes."""
        import aiohttp
        from multidict import CIMultiDict
        from yarl import URL

        shown = f'{method.capitalize()} "{address.shown}{suffix}"'
        try:
            async with self._client().request(
                method,
                URL(address.url + suffix, encoded=True),
                data=body or None,
                headers=CIMultiDict(headers),
                ssl=self._context(bundle, verify=verify),
                server_hostname=address.server_name or None,
                allow_redirects=False,
            ) as answer:
                yield answer
        except aiohttp.ClientConnectorCertificateError as error:
            raise CallFailed(f"{shown}: tls: failed to verify certificate: {error.certificate_error}") from error
        except aiohttp.ClientConnectorSSLError as error:
            raise CallFailed(f"{shown}: tls: {error.os_error}") from error
        except aiohttp.ClientConnectorError as error:
            raise CallFailed(f"{shown}: {_dial_error(error)}") from error
        except (aiohttp.ClientError, ValueError, ssl.SSLError) as error:
            raise CallFailed(f"{shown}: {error or 'EOF'}") from error


def _dial_error(error: aiohttp.ClientConnectorError) -> str:
    where = f"{error.host}:{error.port}"
    if isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {where}: connect: connection refused"
    if isinstance(error.os_error, OSError) and error.os_error.errno is not None and error.os_error.errno < 0:
        return f"dial tcp: lookup {error.host}: no such host"
    return f"dial tcp {where}: {error.os_error.strerror or error.os_error}"
