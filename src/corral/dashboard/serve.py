"""The page and the few questions it asks, over HTTP.

Every question needs a login and is put to the cluster as whoever logged in. The page answers only to names of its own (a page of
another site cannot reach it under a name of its own), and only reads.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import BoundedSemaphore
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from corral.client.kubeconfig import Access
from corral.client.sync import SyncClient
from corral.core.errors import ApiError
from corral.dashboard.address import Address
from corral.dashboard.details import details, logs
from corral.dashboard.job_list import choice_from
from corral.dashboard.login import NOT_GOOD, Logins, session_cookie, session_of
from corral.dashboard.overview import overview

STATIC = {
    "/": ("page.html", "text/html"),
    "/page.mjs": ("page.mjs", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
OPEN = ("/page.css",)
"""What the login page itself needs."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
TIMEOUT_S = 30.0
MAX_FORM = 64 * 1024
MAX_CONNECTIONS = 64

Query = Mapping[str, str]
QUESTIONS: dict[str, Callable[[SyncClient, Query], Any]] = {
    "/api/overview": lambda client, query: overview(client, choice_from(query)),
    "/api/job": lambda client, query: details(client, query["namespace"], query["workload"]),
    "/api/logs": lambda client, query: logs(client, query["namespace"], query["pod"], query.get("container", "")),
}

NEEDED = {"/api/job": ("namespace", "workload"), "/api/logs": ("namespace", "pod")}


class PageServer(ThreadingHTTPServer):
    """The page over one cluster; `serve_forever` runs it."""

    daemon_threads = True

    def __init__(self, access: Access, address: Address, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.logins = Logins(access)
        self.address = address
        self.tls = tls
        self._room = BoundedSemaphore(MAX_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, port), Handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where it is, with the token that opens it."""
        return f"{'https' if self.tls else 'http'}://{self.address.shown}:{self.port}/?token={self.logins.token}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Each connection has a thread; strangers do not get more of them than there are."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Runs in the connection's thread, so that a handshake that does not go on holds up nobody."""
        request.settimeout(TIMEOUT_S)
        if self.tls is None:
            return super().finish_request(request, client_address)
        with self.tls.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)
            with contextlib.suppress(OSError):
                wrapped.shutdown(socket.SHUT_WR)
        return None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that speaks no TLS, or has gone, is no news to whoever started the page."""


class Handler(BaseHTTPRequestHandler):
    """One request: to a name of ours, by somebody who is logged in, for something we have."""

    timeout = TIMEOUT_S

    @property
    def page(self) -> PageServer:
        return cast(PageServer, self.server)

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        query = dict(parse_qsl(target.query))
        if not self._is_ours():
            return None
        if target.path == "/" and "token" in query:
            return self._log_in(query["token"], by_address=True)
        viewer = self.page.logins.viewer(self._session())
        if viewer is None and target.path not in OPEN:
            return self._ask_to_log_in(target.path)
        if target.path in STATIC:
            name, kind = STATIC[target.path]
            return self._answer(200, kind, files("corral.dashboard").joinpath(name).read_bytes())
        if target.path not in QUESTIONS or viewer is None:
            return self._answer(404, "text/plain", b"there is no such page\n")
        missing = [name for name in NEEDED.get(target.path, ()) if name not in query]
        if missing:
            return self._answer(400, "text/plain", f"the question lacks {missing[0]!r}\n".encode())
        return self._ask(viewer, QUESTIONS[target.path], query)

    def do_POST(self) -> None:
        if not self._is_ours():
            return None
        if self.path == "/logout":
            self.page.logins.log_out(self._session())
            return self._go_home("")
        if self.path != "/login":
            return self._answer(404, "text/plain", b"there is no such page\n")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_FORM:
            return self._answer(413, "text/plain", b"a login is a short form\n")
        form = dict(parse_qsl(self.rfile.read(int(length)).decode("utf-8", "replace")))
        return self._log_in(form.get("token", "").strip(), by_address=False)

    def _is_ours(self) -> bool:
        """Whether it was sent to a name of ours, and by no other page."""
        origin = self.headers.get("Origin")
        addressed = self.page.address.answers_to(self.headers.get("Host", ""))
        if addressed and (origin is None or self.page.address.answers_to(urlsplit(origin).netloc)):
            return True
        advice = "" if addressed else "; `corral dashboard --name NAME` gives it another name"
        self._answer(403, "text/plain", f"this page is served under its own address only{advice}\n".encode())
        return False

    def _session(self) -> str:
        return session_of(self.headers.get("Cookie", ""), self.page.port)

    def _log_in(self, token: str, *, by_address: bool) -> None:
        """Addresses are remembered by browsers and proxies: only the printed token, which dies with the page, is taken from one."""
        logins = self.page.logins
        try:
            session = logins.log_in(token) if not by_address or logins.opens(token) else None
        except ApiError as error:
            return self._answer(502, "text/plain", f"the cluster does not say who that is: {error}\n".encode())
        return self._go_home(session) if session else self._ask_to_log_in("/", NOT_GOOD)

    def _go_home(self, session: str) -> None:
        cookie = session_cookie(session, self.page.port, secure=self.page.tls is not None)
        self._answer(303, "text/plain", b"", {"Location": "/", "Set-Cookie": cookie})

    def _ask_to_log_in(self, path: str, wrong: str = "") -> None:
        if path.startswith("/api/"):
            return self._answer(401, "text/plain", b"you are not logged in; reload the page\n")
        text = files("corral.dashboard").joinpath("login.html").read_text().replace("<!-- wrong -->", wrong)
        return self._answer(401, "text/html", text.encode())

    def _ask(self, viewer: Access, question: Callable[[SyncClient, Query], Any], query: Query) -> None:
        client = SyncClient(viewer)
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

    def _answer(self, code: int, kind: str, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self.send_response(code)
        length = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in {**HEADERS, **length, **(more or {})}.items():
            self.send_header(name, value)
        with contextlib.suppress(OSError):  # whoever asked may have gone
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the page asks every few seconds, and a line would hold the token."""
