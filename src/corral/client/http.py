"""The HTTPS client: any Kubernetes API, reached by kubeconfig.

Keep-alive connections to one cluster. Every call has a deadline; reads are tried again when the connection breaks, writes are
not (whether a lost write was carried out is for the caller's next look to find out). Both are tried again when the server is too
busy to take them. What a server may answer with is bounded by `client.limits`, and what it answers with is checked to be objects
before anybody sees it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from corral.client import answers, kubeconfig, limits
from corral.client.credentials import Credentials
from corral.client.protocol import ObjectList, Patch, PatchKind, Propagation, WatchEvent, ends_initial
from corral.client.wire import PASSED_ON, Exchange, TooLarge, Wire
from corral.core.errors import (
    ApiError,
    BadRequest,
    ConnectionFailed,
    Expired,
    Invalid,
    LimitExceeded,
    TooManyRequests,
)
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import PODS

log = logging.getLogger(__name__)

USER_AGENT = "corral"

_CONTENT_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_encode = msgspec.json.encode
_GOLDEN = (5**0.5 - 1) / 2


class HttpClient:
    """A `Client` over HTTPS."""

    def __init__(self, access: kubeconfig.Access, *, allow_exec: bool = False, user_agent: str = USER_AGENT) -> None:
        self.access = access
        self._credentials = Credentials(access, allow_exec=allow_exec)
        context = access.ssl_context() if access.server.startswith("https") else None
        self._wire = Wire(access.server, context, server_name=access.server_name)
        self._user_agent = user_agent
        self.streams_lists = True
        self._watches = 0

    @classmethod
    def from_kubeconfig(cls, path: Path | None = None, context: str = "", *, allow_exec: bool = True) -> HttpClient:
        """The cluster of a context of a kubeconfig file (default: what kubectl would use)."""
        path = path or kubeconfig.default_path()
        document = kubeconfig.load(path)
        found = kubeconfig.access(document, context, folder=path.parent, origin=str(path))
        return cls(found, allow_exec=allow_exec)

    async def close(self) -> None:
        self._wire.close()

    def _next_watch_s(self) -> float:
        """How long the next watch lasts: watches that began together must not all come back together. Multiples of the golden ratio lie
        as far from each other as they can."""
        self._watches += 1
        return limits.WATCH_S * (1.0 - limits.WATCH_SPREAD * (self._watches * _GOLDEN % 1.0))

    # The protocol

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        return answers.document(await self._read(resource.path(namespace, name)), self.access.server)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ObjectList:
        query = _query(
            labelSelector=labels,
            fieldSelector=fields,
            limit=limit or "",
            resourceVersion=resource_version,
            **{"continue": continue_token},
        )
        content = await self._read(resource.path(namespace), query)
        return await answers.page(content, resource, limit, self.access.server)

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        timeout: float | None = None,
        initial: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        seconds = self._next_watch_s() if timeout is None else timeout
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            labelSelector=labels,
            fieldSelector=fields,
            resourceVersion=resource_version,
            timeoutSeconds=int(seconds) or 1,
            sendInitialEvents="true" if initial else "",
            resourceVersionMatch="NotOlderThan" if initial else "",
        )
        limit = seconds + limits.WATCH_GRACE_S
        try:
            async with await self._request("GET", resource.path(namespace), query, limit=limit) as response:
                await _raise_for_status(response)
                size = 0
                async for line in answers.lines(response.chunks(), self.access.server):
                    event = answers.event(line, resource, self.access.server)
                    if initial:
                        initial, size = not ends_initial(event), size + len(line)
                        if size > limits.LIST_BYTES:
                            what = f"the streamed list of {resource.plural}"
                            raise LimitExceeded(
                                f"{self.access.server}: {what} is larger than {limits.LIST_BYTES} bytes"
                            )
                    yield event
        except (BadRequest, Invalid):
            self.streams_lists = self.streams_lists and not initial
            raise
        except (TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    async def create(self, resource: Resource, obj: Obj, *, manager: str = "", dry_run: bool = False) -> Obj:
        query = _query(fieldManager=manager, dryRun="All" if dry_run else "")
        return await self._write("POST", resource.path(namespace_of(obj)), query, _encode(answers.typed(obj, resource)))

    async def update(self, resource: Resource, obj: Obj, *, subresource: str = "", manager: str = "") -> Obj:
        path = resource.path(namespace_of(obj), name_of(obj), subresource)
        return await self._write("PUT", path, _query(fieldManager=manager), _encode(answers.typed(obj, resource)))

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Patch,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        manager: str = "",
    ) -> Obj:
        path = resource.path(namespace, name, subresource)
        return await self._write("PATCH", path, _query(fieldManager=manager), _encode(patch), _CONTENT_TYPES[kind])

    async def apply(
        self,
        resource: Resource,
        obj: Obj,
        *,
        manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Obj:
        path = resource.path(namespace_of(obj), name_of(obj), subresource)
        query = _query(fieldManager=manager, force="true" if force else "false", dryRun="All" if dry_run else "")
        return await self._write("PATCH", path, query, _encode(answers.typed(obj, resource)), _CONTENT_TYPES["apply"])

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
    ) -> None:
        options = delete_options(propagation, uid, resource_version, grace)
        await self._write("DELETE", resource.path(namespace, name), {}, _encode(options))

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> None:
        query = _query(labelSelector=labels, fieldSelector=fields)
        await self._write("DELETE", resource.path(namespace), query, b"")

    async def get_subresource(self, resource: Resource, name: str, namespace: str, subresource: str) -> Obj:
        return answers.document(await self._read(resource.path(namespace, name, subresource)), self.access.server)

    async def create_subresource(
        self, resource: Resource, name: str, namespace: str, subresource: str, body: Obj
    ) -> Obj:
        return await self._write("POST", resource.path(namespace, name, subresource), {}, _encode(body))

    async def logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
    ) -> AsyncIterator[bytes]:
        query = _query(
            container=container,
            follow="true" if follow else "",
            previous="true" if previous else "",
            timestamps="true" if timestamps else "",
            tailLines="" if tail_lines is None else tail_lines,
            sinceSeconds="" if since_seconds is None else since_seconds,
        )
        path = PODS.path(namespace, name, "log")
        limit = None if follow else limits.CALL_S
        try:
            async with await self._request("GET", path, query, limit=limit) as response:
                await _raise_for_status(response)
                async for chunk in response.chunks():
                    yield chunk
        except (TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    async def raw(self, method: str, path: str, body: Obj | None = None) -> Obj:
        if method == "GET":
            return answers.document(await self._read(path), self.access.server)
        return await self._write(method, path, {}, b"" if body is None else _encode(body))

    async def forward(self, method: str, target: str, headers: Mapping[str, str]) -> Exchange:
        """Hand a request on as it is, with our credentials, without a deadline; to be entered with `async with`."""
        own = {"User-Agent": self._user_agent, **await self._authorization()}
        return self._wire.request(method, target, {**headers, **own}, buffer=PASSED_ON)

    # Underneath

    async def _authorization(self) -> dict[str, str]:
        headers = {}
        if self.access.username:
            pair = f"{self.access.username}:{self.access.password}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        try:
            return headers | await self._credentials.header()
        except kubeconfig.KubeconfigError as error:
            raise ConnectionFailed(str(error)) from error

    async def _read(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        for attempt in range(limits.READ_ATTEMPTS):
            try:
                return await self._call("GET", path, query or {})
            except TooManyRequests as error:
                if attempt == limits.READ_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_wait(error))
            except LimitExceeded:
                raise
            except ConnectionFailed:
                if attempt == limits.READ_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
        raise AssertionError("the loop returns or raises")

    async def _write(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str = "application/json"
    ) -> Obj:
        for attempt in range(limits.READ_ATTEMPTS):
            try:
                content = await self._call(method, path, query, body, content_type)
                return answers.document(content, self.access.server)
            except (
                TooManyRequests
            ) as error:  # a busy server says so before it does anything; a budget of disruptions stays
                if attempt == limits.READ_ATTEMPTS - 1 or path.endswith("/eviction"):
                    raise
                await asyncio.sleep(_wait(error))
        raise AssertionError("the loop returns or raises")

    async def _call(
        self, method: str, path: str, query: Mapping[str, str], body: bytes = b"", content_type: str = ""
    ) -> bytes:
        try:
            async with await self._request(method, path, query, body, content_type, call=True) as response:
                await _raise_for_status(response, self._credentials)
                return await response.read()
        except (TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "",
        limit: float | None = limits.CALL_S,
        *,
        call: bool = False,
    ) -> Exchange:
        headers = {"Accept": "application/json", "User-Agent": self._user_agent}
        if content_type:
            headers["Content-Type"] = content_type
        headers |= await self._authorization()
        target = f"{path}?{urlencode(query)}" if query else path
        until = None if limit is None else asyncio.get_running_loop().time() + limit
        return self._wire.request(method, target, headers, body, until=until, call=call)

    def _unreachable(self, error: BaseException) -> ConnectionFailed:
        text = str(error) or type(error).__name__
        if isinstance(error, TooLarge):
            return LimitExceeded(f"{self.access.server}: {text}")
        return ConnectionFailed(f"cannot reach {self.access.server}: {text}")


def delete_options(
    propagation: Propagation | None, uid: str | None, resource_version: str | None, grace: int | None
) -> Obj:
    """A DeleteOptions body with what was asked for."""
    options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    conditions = {
        name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value is not None
    }
    if conditions:
        options["preconditions"] = conditions
    return options


def _query(**parameters: str | int) -> dict[str, str]:
    return {name: str(value) for name, value in parameters.items() if value != ""}


async def _raise_for_status(response: Exchange, credentials: Credentials | None = None) -> None:
    if response.status < 400:
        return
    status = answers.status(await response.read(at_most=limits.ERROR_BYTES), response.status, response.reason)
    if response.status == 401 and credentials is not None:
        credentials.expire()
    if response.status == 429:
        status = {**status, "details": {**_asked_for(response), **(status.get("details") or {})}}
    if response.status == 410:
        raise Expired(str(status.get("message")), details=status.get("details"))
    raise ApiError.from_status(status, response.status)


def _asked_for(response: Exchange) -> Obj:
    """The wait that a header asks for: a server that turns calls away before it looks at them says it there alone."""
    text = next((value for name, value in response.headers if name == "retry-after"), "")
    return {"retryAfterSeconds": int(text)} if text.isdecimal() and text.isascii() else {}


def _wait(error: TooManyRequests) -> float:
    """Seconds until a call that was put off is tried again: what the server asks for, within reason."""
    asked = error.retry_after_s
    return 1.0 if asked is None else min(asked, limits.RETRY_AFTER_S)
