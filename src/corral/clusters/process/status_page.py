"""What a process of controllers tells about itself over HTTPS: health to everybody, metrics and profiles to whom the cluster lets.

Whoever wants more than health shows a bearer token of the cluster, and needs the right to `get` the path: a ClusterRole with
`nonResourceURLs: [/metrics]`, as for any component of Kubernetes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from corral.client.protocol import Client
from corral.clusters.access_reviews import owner_of, require
from corral.core.admission import UserInfo
from corral.core.errors import ApiError, BadRequest, InternalError
from corral.core.server_limits import Limits
from corral.runtime import profiling
from corral.runtime.clock import Clock
from corral.server.access.certificates import Authority, load_pair
from corral.server.access.rbac import Attributes
from corral.server.content.representations import error_response
from corral.server.http.listener import Listener, server_context
from corral.server.http.message import TEXT, Answer, Request, Response

log = logging.getLogger(__name__)

HEALTH = ("/healthz", "/livez", "/readyz")
METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
TRUSTED_S = 30.0
"""How long an answer of the API server about a token and a path holds."""
MOST_PROFILED_S = 60.0
_CALLER = UserInfo("status")
"""All who may see the pages share what is kept for them."""


class StatusApplication:
    """`trouble` says why the process is not ready, nothing when it is; `metrics` gives the text of a scrape."""

    def __init__(self, client: Client, clock: Clock, trouble: Callable[[], str], metrics: Callable[[], bytes]) -> None:
        self._client = client
        self._clock = clock
        self._trouble = trouble
        self._metrics = metrics
        self._trusted: dict[tuple[str, str], float] = {}
        self._pages: Mapping[str, Callable[[Request], Awaitable[Response]]] = {
            "/metrics": self._scrape,
            "/debug/profile": self._profile,
            "/debug/tasks": self._tasks,
        }

    # what a connection calls

    def answer_now(self, request: Request) -> Response | None:
        if request.path not in HEALTH:
            return None
        trouble = self._trouble() if request.path == "/readyz" else ""
        return Response(503, trouble.encode(), TEXT) if trouble else Response(200, b"ok", TEXT)

    def caller(self, request: Request) -> UserInfo | None:
        return _CALLER if self._is_trusted(_token(request), request.path) else None

    def refuse_body(self, request: Request) -> Response | None:
        return self.refuse(405, "only GET is answered here")

    def refuse(self, code: int, message: str) -> Response:
        return error_response(ApiError(message, code=code, reason=""))

    async def answer(self, request: Request) -> Answer:
        page = self._pages.get(request.path)
        try:
            if page is None or request.method != "GET":
                return self.refuse(404, "404 page not found")
            await self._authorize(request)
            return await page(request)
        except ApiError as error:
            return error_response(error)
        except Exception as error:  # one request must not take the process with it
            log.exception("status page failed", extra={"path": request.path})
            return error_response(InternalError(f"Internal error occurred: {error}"))

    async def _authorize(self, request: Request) -> None:
        token = _token(request)
        if self._is_trusted(token, request.path):
            return
        user = await owner_of(self._client, token)
        await require(self._client, user, Attributes("get", path=request.path))
        now = self._clock.monotonic()
        self._trusted = {key: until for key, until in self._trusted.items() if until > now}
        self._trusted[token, request.path] = now + TRUSTED_S

    def _is_trusted(self, token: str, path: str) -> bool:
        return self._trusted.get((token, path), 0.0) > self._clock.monotonic()

    # the pages

    async def _scrape(self, request: Request) -> Response:
        return Response(200, self._metrics(), METRICS_TEXT)

    async def _profile(self, request: Request) -> Response:
        try:
            seconds = float(request.query.get("seconds", "10"))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= MOST_PROFILED_S:
            raise BadRequest(f"seconds: expected a number up to {MOST_PROFILED_S:g}")
        return Response(200, (await profiling.profile(seconds)).encode(), TEXT)

    async def _tasks(self, request: Request) -> Response:
        return Response(200, profiling.tasks().encode(), TEXT)


def _token(request: Request) -> str:
    scheme, _, token = request.header("authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class StatusPage:
    """Serves the application on a port, with a certificate of its own that nobody is asked to believe: as for kubelets and
    scrapes of other controllers, the token is what is checked."""

    def __init__(self, application: StatusApplication, clock: Clock, host: str, port: int) -> None:
        self._application = application
        self._clock = clock
        self._listener = Listener(Limits(), clock.now)
        self._host = host
        self.port = port

    async def start(self) -> None:
        """Listen; whoever asks is answered when this returns."""
        now, context = self._clock.now(), server_context()
        load_pair(context, Authority.create("corral-status", now).issue_server(["localhost"], now))
        self.port = self._listener.bind(self._host, self.port)
        await self._listener.serve(self._application, context, "")
        log.info("health and metrics are served", extra={"port": self.port})

    async def stop(self) -> None:
        await self._listener.stop()
