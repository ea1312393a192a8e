"""The page and the few questions it asks, over HTTP.

Every question needs a login and is put to the cluster as whoever logged in. The page answers only to names of its own (a page of
another site cannot reach it under a name of its own). What changes something is sent by POST, from this page alone.
"""

from __future__ import annotations

import contextlib
import html
import json
import socket
import ssl
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import BoundedSemaphore
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from corral.client.kubeconfig import Access, KubeconfigError, by_server
from corral.client.sync import SyncClient
from corral.core.errors import ApiError
from corral.core.meta import Obj
from corral.core.whole_numbers import whole_number
from corral.dashboard.actions import act
from corral.dashboard.address import Address
from corral.dashboard.details import details, document, events, logs, warnings
from corral.dashboard.forecast import forecast
from corral.dashboard.job_list import choice_from
from corral.dashboard.login import NOT_GOOD, Logins, session_cookie, session_of
from corral.dashboard.overview import overview
from corral.dashboard.workers import capacities, nodes
from corral.submit.errors import SubmitError

STATIC = {
    "/": ("page.html", "text/html"),
    **{f"/{name}": (name, "text/javascript") for name in ("page.mjs", "tree.mjs", "views.mjs", "panel.mjs")},
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
Others = Mapping[str, Access]
"""How the viewer reaches other clusters, by their servers."""
Question = Callable[[SyncClient, Query, Others], Any]
QUESTIONS: dict[str, Question] = {
    "/api/overview": lambda client, query, others: overview(client, choice_from(query)),
    "/api/capacities": lambda client, query, others: capacities(client, others),
    "/api/nodes": lambda client, query, others: nodes(client, query.get("cluster", ""), others),
    "/api/warnings": lambda client, query, others: warnings(client),
    "/api/forecast": lambda client, query, others: forecast(client, others),
    "/api/job": lambda client, query, others: details(client, query["namespace"], query["workload"]),
    "/api/events": lambda client, query, others: events(client, query["namespace"], query["workload"]),
    "/api/yaml": lambda client, query, others: document(client, query["namespace"], query["workload"]),
    "/api/logs": lambda client, query, others: logs(
        client, query["namespace"], query["pod"], query.get("container", ""), everything="all" in query
    ),
}
OF_A_JOB = ("namespace", "workload")
NEEDED = {
    "/api/job": OF_A_JOB,
    "/api/events": OF_A_JOB,
    "/api/yaml": OF_A_JOB,
    "/api/logs": ("namespace", "pod"),
    "/api/act": ("action", *OF_A_JOB),
}


def _act(client: SyncClient, form: Query, others: Others) -> Obj:
    return {"done": act(client, form["action"], form["namespace"], form["workload"])}


class PageServer(ThreadingHTTPServer):
    """The page over one cluster; `serve_forever` runs it."""

    daemon_threads = True

    def __init__(
        self,
        access: Access,
        address: Address,
        port: int,
        tls: ssl.SSLContext | None = None,
        *,
        contexts: Mapping[str, Access] | None = None,
        read_only: bool = False,
    ) -> None:
        self.logins = Logins(access)
        self.contexts = contexts or {}
        """The other clusters that the user of the kubeconfig may look at, by what he calls them."""
        self.others = by_server(self.contexts)
        self.read_only = read_only
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
            content = files("corral.dashboard").joinpath(name).read_bytes()
            if name == "page.html" and viewer is not None:
                content = content.replace(b"<body>", self._body(viewer).encode())
            return self._answer(200, kind, content)
        if target.path not in QUESTIONS or viewer is None:
            return self._answer(404, "text/plain", b"there is no such page\n")
        return self._ask(viewer, target.path, QUESTIONS[target.path], query)

    def _body(self, viewer: Access) -> str:
        """What the page has to know before it asks: whether it may change something, and what else there is to look at."""
        contexts = self.page.contexts if self.page.logins.is_own(viewer) else {}
        servers = html.escape(json.dumps({name: one.server for name, one in contexts.items()}))
        return f'<body{" data-read-only" if self.page.read_only else ""} data-contexts="{servers}">'

    def do_POST(self) -> None:
        if not self._is_ours():
            return None
        if self.path == "/logout":
            self.page.logins.log_out(self._session())
            return self._go_home("")
        if self.path not in ("/login", "/api/act"):
            return self._answer(404, "text/plain", b"there is no such page\n")
        length = whole_number(self.headers.get("Content-Length", ""))
        if length is None or length > MAX_FORM:
            return self._answer(413, "text/plain", b"this is a short form\n")
        form = dict(parse_qsl(self.rfile.read(length).decode("utf-8", "replace")))
        if self.path == "/api/act":
            return self._act(form)
        return self._log_in(form.get("token", "").strip(), by_address=False)

    def _act(self, form: Query) -> None:
        """Change something, for a viewer whose browser says that it was this page that asked."""
        viewer = self.page.logins.viewer(self._session())
        if viewer is None:
            return self._ask_to_log_in("/api/act")
        if self.page.read_only or not self.headers.get("Origin"):
            return self._answer(403, "text/plain", b"this page only shows; the command line changes\n")
        return self._ask(viewer, "/api/act", _act, form)

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

    def _ask(self, viewer: Access, path: str, question: Question, query: Query) -> None:
        missing = [name for name in NEEDED.get(path, ()) if name not in query]
        if missing:
            return self._answer(400, "text/plain", f"the question lacks {missing[0]!r}\n".encode())
        is_own = self.page.logins.is_own(viewer)
        if context := query.get("context", ""):
            if not is_own or context not in self.page.contexts:
                return self._answer(404, "text/plain", b"there is no such context that you may look at\n")
            viewer = self.page.contexts[context]
        client = SyncClient(viewer)
        try:
            answer = question(client, query, self.page.others if is_own else {})
        except ApiError as error:
            self._answer(error.code if error.code >= 400 else 502, "text/plain", f"{error}\n".encode())
        except (SubmitError, KubeconfigError) as error:
            self._answer(409, "text/plain", f"{error}\n".encode())
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
