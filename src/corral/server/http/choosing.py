"""The first protocol of every connection: it looks at what the TLS handshake agreed on, and hands over for good."""

from __future__ import annotations

import asyncio
from typing import cast

from corral.server.http.connection import Connection
from corral.server.http.http2.connection import Http2Connection
from corral.server.http.shared import Shared

PROTOCOLS = ("h2", "http/1.1")
"""What a handshake may agree on, the preferred one first. A client that names none speaks HTTP/1.1."""


class Choosing(asyncio.Protocol):
    """Lives from the accepted socket to the end of the handshake."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        secured = transport.get_extra_info("ssl_object")
        agreed = secured.selected_alpn_protocol() if secured is not None else None
        chosen = Http2Connection(self._shared) if agreed == "h2" else Connection(self._shared)
        cast(asyncio.Transport, transport).set_protocol(chosen)
        chosen.connection_made(transport)
