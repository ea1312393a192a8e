"""What a server's answers say, read without trusting them: pages of lists, events of watches, errors.

Nothing here does I/O. What is not as it should be is a `ConnectionFailed`, so that callers see objects or an API error and
nothing else; what is too much is a `LimitExceeded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from corral.client import limits
from corral.client.protocol import ObjectList, WatchEvent
from corral.core.errors import ApiError, ConnectionFailed, LimitExceeded
from corral.core.meta import Obj
from corral.core.resource import Resource

_EVENTS = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


class _Metadata(msgspec.Struct):
    """The part of a list's metadata that is used; other types than these are no list."""

    resource_version: str | None = msgspec.field(name="resourceVersion", default=None)
    continue_token: str | None = msgspec.field(name="continue", default=None)


class _Page(msgspec.Struct):
    """A list whose items are not decoded yet: finding where each ends is the cheap part."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    items: list[msgspec.Raw] | None = None


_pages = msgspec.json.Decoder(_Page)


def document(content: bytes, server: str) -> Obj:
    """The object in an answer; what is JSON but no object comes as its `value`."""
    decoded = _decoded(content, server) if content else {}
    return decoded if isinstance(decoded, dict) else {"value": decoded}


async def page(content: bytes, resource: Resource, limit: int, server: str) -> ObjectList:
    """The objects of a page, decoded a portion at a time so that others get their turn in between."""
    try:
        found = _pages.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConnectionFailed(f"{server} answered with something that is not a list: {_brief(error)}") from error
    raw = found.items or []
    if limit and len(raw) > limit:
        raise LimitExceeded(f"{server} answered with {len(raw)} {resource.plural} when asked for {limit}")
    items: list[Obj] = []
    portion = 0
    for entry in raw:
        items.append(typed(_object(_decoded(entry, server), server), resource))
        portion += len(memoryview(entry))
        if portion > limits.DECODE_BYTES:
            portion = 0
            await asyncio.sleep(0)
    metadata = found.metadata
    return ObjectList(items, metadata.resource_version or "", metadata.continue_token or "", len(content))


def event(line: bytes, resource: Resource, server: str) -> WatchEvent:
    """One event of a watch; an ERROR is raised as the error it stands for."""
    found = _decoded(line, server)
    kind, obj = (found.get("type"), found.get("object")) if isinstance(found, dict) else (None, None)
    if kind == "ERROR" and isinstance(obj, dict):
        raise ApiError.from_status(_plain(obj, 500))
    if not isinstance(kind, str) or kind not in _EVENTS:
        raise ConnectionFailed(f"{server} sent something that is not an event of a watch")
    return WatchEvent(kind, typed(_object(obj, server, named=kind != "BOOKMARK"), resource))


def status(content: bytes, code: int, reason: str) -> Obj:
    """The Status an error was answered with, or one made of what the answer says instead."""
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        found = None
    if isinstance(found, dict) and found.get("kind") == "Status":
        return _plain(found, code)
    text = content[:200].decode(errors="replace").strip()
    return {"message": text or reason[:200], "code": code}


async def lines(chunks: AsyncIterator[bytes], server: str) -> AsyncIterator[bytes]:
    """The lines of a stream. Each byte is looked at once, however many pieces a line comes in."""
    pending: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        pending.append(first)
        size += len(first)
        _check_line(size, server)
        if others:
            if size:
                yield b"".join(pending)
            for line in others[:-1]:
                _check_line(len(line), server)
                if line:
                    yield line
            pending, size = [others[-1]], len(others[-1])
            _check_line(size, server)
    if size:
        yield b"".join(pending)


def typed(obj: Obj, resource: Resource) -> Obj:
    """The object with apiVersion and kind, which items of typed lists lack."""
    if "kind" in obj and "apiVersion" in obj:
        return obj
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _check_line(size: int, server: str) -> None:
    if size > limits.LINE_BYTES:
        raise LimitExceeded(f"{server}: an event of a watch is larger than {limits.LINE_BYTES} bytes")


def _decoded(content: bytes | msgspec.Raw, server: str) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConnectionFailed(f"{server} answered with something that is not JSON: {_brief(error)}") from error


def _object(found: Any, server: str, *, named: bool = True) -> Obj:
    """An object as far as everybody relies on it: with metadata, a name and texts where texts belong."""
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(metadata, dict) or (named and not metadata.get("name")):
        raise ConnectionFailed(f"{server} answered with something that is not an object with metadata and a name")
    for field in ("name", "namespace", "uid", "resourceVersion"):
        if not isinstance(metadata.get(field) or "", str):
            raise ConnectionFailed(f"{server} answered with an object whose metadata.{field} is not a text")
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field), dict | None):
            raise ConnectionFailed(f"{server} answered with an object whose metadata.{field} is not a map")
    for field in ("spec", "status"):
        if not isinstance(found.get(field), dict | None):
            raise ConnectionFailed(f"{server} answered with an object whose {field} is not a map")
    assert isinstance(found, dict)
    return found


def _plain(found: Obj, code: int) -> Obj:
    """A Status with the types it should have and a message of a length that can be shown."""
    details, given = found.get("details"), found.get("code")
    return {
        "kind": "Status",
        "reason": str(found.get("reason") or "")[:200],
        "code": given if isinstance(given, int) and given else code,
        "message": limits.shortened(str(found.get("message") or ""), limits.ERROR_TEXT),
        "details": details if isinstance(details, dict) else None,
    }


def _brief(error: BaseException) -> str:
    return limits.shortened(str(error), 200)
