"""A lean HTTP/1.1 client: one TLS connection, one request at a time, as little Python between them as possible."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int, token: str, context: ssl.SSLContext) -> None:
        self._port = port
        self._head = f"Host: 127.0.0.1:{port}\r\nUser-Agent: bench/1\r\n"
        if token:  # else the context has a client certificate
            self._head += f"Authorization: Bearer {token}\r\n"
        self._context = context

    async def open(self) -> Connection:
        self._ends = False
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._context, limit=1 << 24
        )
        return self

    def close(self) -> None:
        self._writer.close()

    def _send(self, method: str, path: str, body: bytes, content_type: str) -> None:
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Accept: application/json\r\n"
        if body:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(head.encode() + b"\r\n" + body)

    async def _answer_head(self) -> tuple[int, dict[bytes, bytes]]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        fields = dict(line.split(b": ", 1) for line in lines[1:] if b": " in line)
        return int(lines[0].split(b" ", 2)[1]), {name.lower(): value for name, value in fields.items()}

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        if self._ends:
            self.close()
            await self.open()
        self._send(method, path, body, content_type)
        status, fields = await self._answer_head()
        self._ends = fields.get(b"connection") == b"close"
        if b"content-length" in fields:
            return status, await self._reader.readexactly(int(fields[b"content-length"]))
        chunks = []
        while chunk := await self._chunk():
            chunks.append(chunk)
        return status, b"".join(chunks)

    async def _chunk(self) -> bytes:
        size = int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16)
        return (await self._reader.readexactly(size + 2))[:-2]

    async def watch(self, path: str, ready: asyncio.Event) -> AsyncIterator[bytes]:
        """The lines of a watch; `ready` is set when the server has answered."""
        self._send("GET", path, b"", "")
        status, _ = await self._answer_head()
        if status != 200:
            raise RuntimeError(f"watch: {status}")
        ready.set()
        rest = b""
        while chunk := await self._chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line
