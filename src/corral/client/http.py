"""The HTTPS client: any Kubernetes API, reached by kubeconfig.

Keep-alive connections to one cluster. Every call has a deadline; reads are tried again when the connection breaks, writes are
not (whether a lost write was carried out is for the caller's next look to find out).
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from corral.client import kubeconfig
from corral.client.credentials import Credentials
from corral.client.protocol import ObjectList, Patch, PatchKind, Propagation, WatchEvent
from corral.client.wire import Exchange, Wire
from corral.core.errors import ApiError, ConnectionFailed, Expired, TooManyRequests
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import PODS

log = logging.getLogger(__name__)

CALL_TIMEOUT_S = 30.0
WATCH_TIMEOUT_S = 290.0
WATCH_GRACE_S = 20.0
READ_ATTEMPTS = 3
MAX_RETRY_AFTER_S = 10.0
USER_AGENT = "corral"

_CONTENT_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_decode = msgspec.json.decode
_encode = msgspec.json.encode


class HttpClient:
    """A `Client` over HTTPS."""

    def __init__(self, access: kubeconfig.Access, *, allow_exec: bool = False, user_agent: str = USER_AGENT) -> None:
        self.access = access
        self._credentials = Credentials(access, allow_exec=allow_exec)
        context = access.ssl_context() if access.server.startswith("https") else None
        self._wire = Wire(access.server, context, server_name=access.server_name)
        self._user_agent = user_agent

    @classmethod
    def from_kubeconfig(cls, path: Path | None = None, context: str = "", *, allow_exec: bool = True) -> HttpClient:
        """The cluster of a context of a kubeconfig file (default: what kubectl would use)."""
        path = path or kubeconfig.default_path()
        document = kubeconfig.load(path)
        found = kubeconfig.access(document, context, folder=path.parent, origin=str(path))
        return cls(found, allow_exec=allow_exec)

    async def close(self) -> None:
        self._wire.close()

    # The protocol

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        return await self._read(resource.path(namespace, name))

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
        body = await self._read(resource.path(namespace), query)
        items = [_typed(item, resource) for item in body.get("items") or []]
        metadata = body.get("metadata") or {}
        return ObjectList(items, str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or ""))

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        timeout: float | None = None,
    ) -> AsyncIterator[WatchEvent]:
        seconds = WATCH_TIMEOUT_S if timeout is None else timeout
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            labelSelector=labels,
            fieldSelector=fields,
            resourceVersion=resource_version,
            timeoutSeconds=int(seconds) or 1,
        )
        limit = seconds + WATCH_GRACE_S
        try:
            async with await self._request("GET", resource.path(namespace), query, limit=limit) as response:
                await _raise_for_status(response)
                async for line in _lines(response.chunks()):
                    event = _decode(line)
                    if event["type"] == "ERROR":
                        raise ApiError.from_status(event["object"])
                    yield WatchEvent(event["type"], _typed(event["object"], resource))
        except (TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    async def create(self, resource: Resource, obj: Obj, *, manager: str = "", dry_run: bool = False) -> Obj:
        query = _query(fieldManager=manager, dryRun="All" if dry_run else "")
        return await self._write("POST", resource.path(namespace_of(obj)), query, _encode(_typed(obj, resource)))

    async def update(self, resource: Resource, obj: Obj, *, subresource: str = "", manager: str = "") -> Obj:
        path = resource.path(namespace_of(obj), name_of(obj), subresource)
        return await self._write("PUT", path, _query(fieldManager=manager), _encode(_typed(obj, resource)))

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
        return await self._write("PATCH", path, query, _encode(_typed(obj, resource)), _CONTENT_TYPES["apply"])

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
        return await self._read(resource.path(namespace, name, subresource))

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
        limit = None if follow else CALL_TIMEOUT_S
        try:
            async with await self._request("GET", path, query, limit=limit) as response:
                await _raise_for_status(response)
                async for chunk in response.chunks():
                    yield chunk
        except (TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    async def raw(self, method: str, path: str, body: Obj | None = None) -> Obj:
        if method == "GET":
            return await self._read(path)
        return await self._write(method, path, {}, b"" if body is None else _encode(body))

    async def forward(self, method: str, target: str, headers: Mapping[str, str]) -> Exchange:
        """Hand a request on as it is, with our credentials, without a deadline; to be entered with `async with`."""
        own = {"User-Agent": self._user_agent, **await self._authorization()}
        return self._wire.request(method, target, {**headers, **own})

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

    async def _read(self, path: str, query: Mapping[str, str] | None = None) -> Obj:
        for attempt in range(READ_ATTEMPTS):
            try:
                return await self._call("GET", path, query or {})
            except TooManyRequests as error:
                if attempt == READ_ATTEMPTS - 1:
                    raise
                wait = float((error.details or {}).get("retryAfterSeconds") or 1)
                await asyncio.sleep(min(wait, MAX_RETRY_AFTER_S))
            except ConnectionFailed:
                if attempt == READ_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
        raise AssertionError("the loop returns or raises")

    async def _write(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str = "application/json"
    ) -> Obj:
        return await self._call(method, path, query, body, content_type)

    async def _call(
        self, method: str, path: str, query: Mapping[str, str], body: bytes = b"", content_type: str = ""
    ) -> Obj:
        try:
            async with await self._request(method, path, query, body, content_type, call=True) as response:
                await _raise_for_status(response, self._credentials)
                content = await response.read()
        except (TimeoutError, OSError) as error:
            raise self._unreachable(error) from error
        try:
            decoded = _decode(content) if content else {}
        except msgspec.DecodeError as error:
            raise ConnectionFailed(f"{self.access.server} answered {path} with something that is not JSON") from error
        return decoded if isinstance(decoded, dict) else {"value": decoded}

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "",
        limit: float | None = CALL_TIMEOUT_S,
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


def _typed(obj: Obj, resource: Resource) -> Obj:
    """The object with apiVersion and kind, which items of typed lists lack."""
    if "kind" in obj and "apiVersion" in obj:
        return obj
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


async def _raise_for_status(response: Exchange, credentials: Credentials | None = None) -> None:
    if response.status < 400:
        return
    content = await response.read()
    try:
        status = _decode(content)
        if not isinstance(status, dict) or status.get("kind") != "Status":
            raise ValueError
    except ValueError:
        text = content[:200].decode(errors="replace").strip()
        status = {"message": text or response.reason or "", "code": response.status}
    if response.status == 401 and credentials is not None:
        credentials.expire()
    if response.status == 410:
        raise Expired(str(status.get("message")), details=status.get("details"))
    raise ApiError.from_status(status, response.status)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream, however long each is."""
    pending = b""
    async for chunk in chunks:
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
    if pending:
        yield pending
