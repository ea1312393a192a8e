"""Objects, lists and watch events as bytes, in the representation a client asked for.

The common case never encodes an object again: stored bytes are joined with what goes around them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import yaml

from corral.core.errors import ApiError, BadRequest
from corral.core.meta import Obj, metadata_of, resource_version_of
from corral.core.validation import invalid
from corral.kinds.machinery import tables
from corral.server.content.negotiation import PROTOBUF, YAML, Representation
from corral.server.http.message import JSON, Headers, Response, Stream, Writer
from corral.server.served_resources import Served
from corral.server.verbs.options import Listing
from corral.store import Event, Stored

encode = msgspec.json.Encoder().encode


_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), " ")
"""What a header must not have: some clients refuse the whole answer for it."""
MAX_WARNINGS = 50  # Python's own HTTP client takes a hundred headers and refuses the answer with more


def warning_headers(messages: Sequence[str]) -> Headers:
    """Warnings as HTTP headers, cut to what proxies and clients accept."""
    headers: list[tuple[str, str]] = []
    budget = 4096
    for message in messages[:MAX_WARNINGS]:
        text = (message if len(message) <= 256 else message[:256]).translate(_CONTROLS)
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        budget -= len(quoted)
        if budget < 0:
            break
        headers.append(("Warning", f'299 - "{quoted}"'))
    return tuple(headers)


def error_response(error: ApiError, headers: Headers = (), media: str = JSON) -> Response:
    """The Status of an error."""
    status = error.status
    metadata = getattr(error, "metadata", None)
    if metadata:
        status["metadata"] = metadata
    retry = (error.details or {}).get("retryAfterSeconds")
    if retry:
        headers = (*headers, ("Retry-After", str(retry)))
    if error.code == 401:
        headers = (*headers, ("WWW-Authenticate", 'Basic realm="corral"'))
    if media == PROTOBUF:  # Go writes these fields even when they are empty
        status["metadata"] = {"selfLink": "", "resourceVersion": "", "continue": "", **status["metadata"]}
    body, content_type = encode_as(status, media)
    return Response(error.code, body, content_type, headers)


def encode_as(obj: Any, media: str) -> tuple[bytes, str]:
    """An object in one of the media types, and the Content-Type it got."""
    if media == YAML:
        return yaml.dump(obj, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True).encode(), YAML
    if media == PROTOBUF:
        from corral.kinds.machinery import protobuf

        try:
            return protobuf.encode(obj), PROTOBUF
        except LookupError:
            return encode(obj), JSON
    return encode(obj), JSON


class Views:
    """Turns stored objects into answers; `now` is the time ages are counted from."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def object(
        self,
        stored: Stored,
        served: Served,
        wanted: Representation,
        include: str,
        status: int = 200,
        headers: Headers = (),
    ) -> Response:
        if not wanted.view and wanted.media == JSON:
            return Response(status, stored.raw, JSON, headers)
        shown = stored.obj
        if wanted.view == "Table":
            shown = self.table([stored], served, wanted, include, {"resourceVersion": resource_version_of(stored.obj)})
        elif wanted.view:
            shown = partial(stored.obj, wanted.version)
        body, content_type = encode_as(shown, wanted.media)
        return Response(status, body, content_type, headers)

    def list(self, listing: Listing, served: Served, wanted: Representation, include: str) -> Response | Stream:
        # A custom list always has the field, as lists without a Go type do.
        metadata: Obj = {} if served.kind.builtin or wanted.view else {"continue": ""}
        metadata["resourceVersion"] = listing.resource_version
        if listing.continue_token:
            metadata["continue"] = listing.continue_token
            if listing.remaining is not None:
                metadata["remainingItemCount"] = listing.remaining
        if not wanted.view and wanted.media == JSON:
            return Response(200, list_body(listing.items, served, metadata))
        if wanted.view == "Table":
            shown = self.table(listing.items, served, wanted, include, metadata)
        elif wanted.view:
            version = f"meta.k8s.io/{wanted.version}"
            items = [partial(stored.obj, wanted.version) for stored in listing.items]
            shown = {"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": metadata, "items": items}
        else:
            shown = {
                "kind": served.kind.list_kind,
                "apiVersion": served.api_version,
                "metadata": metadata,
                "items": [stored.obj for stored in listing.items],
            }
        many = "rows" if wanted.view == "Table" else "items"
        if wanted.media == YAML and len(listing.items) > 1:
            return yaml_stream(shown, many)
        if wanted.media == JSON:
            return Response(200, _encode_each(shown, many))
        body, content_type = encode_as(shown, wanted.media)
        return Response(200, body, content_type)

    def table(
        self, items: Sequence[Stored], served: Served, wanted: Representation, include: str, metadata: Obj
    ) -> Obj:
        """The printed view of objects; `include` says how much of each object its row carries."""
        if include not in ("", "Metadata", "Object", "None"):
            why = "must be 'Metadata', 'Object', 'None', or empty"
            raise BadRequest(f"Unable to convert to Table as requested: {invalid('includeObject', include, why)}")
        now = self._now()
        rows = []
        for stored in items:
            obj = stored.obj
            row: Obj = {"cells": tables.cells(served.kind, served.version, obj, now)}
            conditions = tables.row_conditions(served.kind, obj)
            if conditions:
                row["conditions"] = conditions
            row["object"] = None
            if include != "None":
                row["object"] = obj if include == "Object" else partial(obj, wanted.version)
            rows.append(row)
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{wanted.version}",
            "metadata": metadata,
            "columnDefinitions": tables.column_definitions(served.kind, served.version),
            "rows": rows,
        }

    def event_lines(
        self, events: Sequence[Event], served: Served, wanted: Representation, include: str, first: bool
    ) -> bytes:
        """Watch frames; column definitions come with the first table only."""
        if not wanted.view:
            return b"".join([event.line for event in events])
        return b"".join(
            [self._frame(event, served, wanted, include, first and not n) for n, event in enumerate(events)]
        )

    def _frame(self, event: Event, served: Served, wanted: Representation, include: str, first: bool) -> bytes:
        shown: Obj
        if wanted.view == "Table":
            version = {"resourceVersion": resource_version_of(event.stored.obj)}
            items = [] if event.type == "BOOKMARK" else [event.stored]
            shown = self.table(items, served, wanted, include, version)
            if not first:
                shown["columnDefinitions"] = None
            if event.type == "BOOKMARK":
                shown["rows"] = [{"cells": [], "object": event.stored.obj}]
        else:
            shown = partial(event.stored.obj, wanted.version)
        return encode({"type": event.type, "object": shown}) + b"\n"


def _encode_each(shown: Obj, many: str) -> bytes:
    """A list in JSON, encoded item by item: a single call for all of them would hold the interpreter's lock for as long."""
    head = encode({name: value for name, value in shown.items() if name != many})[:-1]
    return b'%b,"%b":[%b]}' % (head, many.encode(), b",".join([encode(item) for item in shown[many]]))


def yaml_stream(shown: Obj, many: str) -> Stream:
    """A list as YAML, written item by item: writing it takes long, and others must have their turn meanwhile."""

    async def produce(writer: Writer) -> None:
        for name in sorted(shown):
            if name != many:
                await writer.write(encode_as({name: shown[name]}, YAML)[0])
                continue
            await writer.write(f"{many}:\n".encode())
            for item in shown[many]:
                await writer.write(encode_as([item], YAML)[0])
                await asyncio.sleep(0)

    return Stream(produce, YAML)


def partial(obj: Obj, version: str) -> Obj:
    """Only the metadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata_of(obj),
    }


def list_body(items: Sequence[Stored], served: Served, metadata: Obj) -> bytes:
    """A list in JSON. Items of Kubernetes' own kinds do not repeat what they are; those of custom kinds do."""
    head = b'{"kind":%b,"apiVersion":%b,"metadata":%b,"items":[' % (
        encode(served.kind.list_kind),
        encode(served.api_version),
        encode(metadata),
    )
    pieces = [stored.raw for stored in items]
    if served.kind.builtin:
        pieces = _without_type(pieces, served)
    return head + b",".join(pieces) + b"]}"


def _without_type(pieces: list[bytes], served: Served) -> list[bytes]:
    kind, version = encode(served.kind.kind), encode(served.api_version)
    fronts = (b'{"kind":%b,"apiVersion":%b,' % (kind, version), b'{"apiVersion":%b,"kind":%b,' % (version, kind))
    length = len(fronts[0])
    return [b"{" + raw[length:] if raw.startswith(fronts) else raw for raw in pieces]


def error_frame(error: ApiError) -> bytes:
    """An error in the middle of a watch."""
    return encode({"type": "ERROR", "object": error.status}) + b"\n"


def plain(obj: Any, status: int = 200, headers: Headers = ()) -> Response:
    """Any JSON value as an answer."""
    return Response(status, encode(obj), JSON, headers)
