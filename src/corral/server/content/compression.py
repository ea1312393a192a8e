"""Large answers compressed for clients that take them so: lists, discovery and OpenAPI documents, never watches.

Compression runs in a thread, where it does not hold up other requests. Documents that are served again and again as
they are (they have an ETag) are compressed once.
"""

from __future__ import annotations

import asyncio
import gzip

from corral.server.http.message import TEXT, Request, Response

THRESHOLD = 128 * 1024
LEVEL = 1  # as real servers do: most of the gain for the least work
_REMEMBERED = 16


def wants_gzip(request: Request) -> bool:
    accepted = request.headers.get("accept-encoding", "")
    return "gzip" in accepted and any(token.strip() == "gzip" for token in accepted.split(","))


class Compression:
    """Compresses answers, and remembers those of documents."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[bytes, bytes]] = {}  # by identity; the original is kept, so it stays the same

    async def apply(self, request: Request, answer: Response) -> Response:
        """`answer`, compressed if it is large enough and the client wants it."""
        body, names = answer.body, [name.lower() for name, _ in answer.headers]
        if len(body) <= THRESHOLD or not wants_gzip(request) or "content-encoding" in names:
            return answer
        if answer.content_type.startswith(TEXT.partition(";")[0]):
            return answer
        known = self._known.get(id(body))
        packed = known[1] if known is not None else await asyncio.to_thread(gzip.compress, body, LEVEL, mtime=0)
        if known is None and "etag" in names:
            while len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[id(body)] = (body, packed)
        headers = [(name, value) for name, value in answer.headers if name.lower() != "vary"]
        varies = [value for name, value in answer.headers if name.lower() == "vary"]
        headers += [("Content-Encoding", "gzip"), ("Vary", ", ".join(["Accept-Encoding", *varies]))]
        return Response(answer.status, packed, answer.content_type, tuple(headers), answer.cache)
