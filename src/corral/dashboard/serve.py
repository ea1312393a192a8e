"""The page and the few questions it asks, over HTTP on this machine.

It answers only to its own name (a page of another site cannot reach it under a name of its own), only reads, and shows what the
user of the kubeconfig may see.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from corral.client.kubeconfig import Access
from corral.client.sync import SyncClient
from corral.core.errors import ApiError
from corral.dashboard.details import details, logs
from corral.dashboard.overview import overview

STATIC = {
    "/": ("page.html", "text/html"),
    "/page.mjs": ("page.mjs", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

Query = Mapping[str, str]
QUESTIONS: dict[str, Callable[[SyncClient, Query], Any]] = {
    "/api/overview": lambda client, query: overview(client),
    "/api/job": lambda client, query: details(client, query["namespace"], query["workload"]),
    "/api/logs": lambda client, query: logs(client, query["namespace"], query["pod"], query.get("container", "")),
}

NEEDED = {"/api/job": ("namespace", "workload"), "/api/logs": ("namespace", "pod")}


def make_server(access: Access, host: str, port: int) -> ThreadingHTTPServer:
    """A server for the page over one cluster; `serve_forever` runs it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            target = urlsplit(self.path)
            if not _is_own_name(self.headers.get("Host", ""), host):
                self._answer(403, "text/plain", b"this page is served under its own address only\n")
            elif target.path in STATIC:
                name, kind = STATIC[target.path]
                self._answer(200, kind, files("corral.dashboard").joinpath(name).read_bytes())
            elif target.path in QUESTIONS:
                query = dict(parse_qsl(target.query))
                missing = [name for name in NEEDED.get(target.path, ()) if name not in query]
                if missing:
                    self._answer(400, "text/plain", f"the question lacks {missing[0]!r}\n".encode())
                else:
                    self._ask(QUESTIONS[target.path], query)
            else:
                self._answer(404, "text/plain", b"there is no such page\n")

        def _ask(self, question: Callable[[SyncClient, Query], Any], query: Query) -> None:
            client = SyncClient(access)
            try:
                answer = question(client, query)
            except ApiError as error:
                self._answer(error.code if error.code >= 400 else 502, "text/plain", f"{error}\n".encode())
            else:
                if isinstance(answer, bytes):
                    self._answer(200, "text/plain", answer)
                else:
                    self._answer(200, "application/json", json.dumps(answer).encode())
            finally:
                client.close()

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            for name, value in {
                **HEADERS,
                "Content-Type": f"{kind}; charset=utf-8",
                "Content-Length": str(len(body)),
            }.items():
                self.send_header(name, value)
            with contextlib.suppress(ConnectionError):  # whoever asked may have gone
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the page asks every few seconds."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    return server


def _is_own_name(header: str, host: str) -> bool:
    name, colon, port = header.rpartition(":")
    name = name if colon and port.isdecimal() else header
    return name in (host, "localhost", "127.0.0.1", "[::1]")
