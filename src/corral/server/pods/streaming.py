"""The streaming subresources of pods: log, exec, attach and port-forward, over WebSocket or SPDY.

What runs in a pod is the node's business (`core.streams.PodStreams`); this carries bytes between it and the client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from corral.core import errors, validation
from corral.core.admission import UserInfo
from corral.core.errors import BadRequest, NotFound
from corral.core.meta import Obj, annotations_of, name_of, spec_of
from corral.core.streams import ExecSession, LogOptions, PodStreams, PortStream
from corral.core.timestamps import parse_time
from corral.core.whole_numbers import whole_number
from corral.kinds.kubernetes.core.kinds import PODS
from corral.server.api import Api
from corral.server.content import parameters
from corral.server.http import channels
from corral.server.http.message import Answer, Query, RawStream, Request, Response, Stream, Upgrade, Writer
from corral.server.paths import RequestInfo
from corral.server.pods.remote_pods import RemotePodsApi
from corral.server.verbs.options import Warnings
from corral.store import ObjectKey

Handler = Callable[[Request, RequestInfo, UserInfo, Warnings], Awaitable[Answer]]


def _names(spec: Obj, group: str) -> list[str]:
    return [container["name"] for container in spec.get(group) or ()]


def choose_container(pod: Obj, wanted: str) -> str:
    """The container meant: the named one, the only one, or the one an annotation marks as default."""
    name, spec = name_of(pod), spec_of(pod)
    main, inits, debug = (_names(spec, group) for group in ("containers", "initContainers", "ephemeralContainers"))
    if wanted:
        if wanted not in (*main, *inits, *debug):
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    default = annotations_of(pod).get("kubectl.kubernetes.io/default-container")
    if default in main:
        return str(default)
    if len(main) == 1:
        return main[0]
    extra = f" or one of the init containers: [{' '.join(inits)}]" if inits else ""
    raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]{extra}")


def _log_options(query: Query, name: str, now: float) -> LogOptions:
    causes = []
    tail, limit = parameters.integer(query, "tailLines"), parameters.integer(query, "limitBytes")
    seconds = parameters.integer(query, "sinceSeconds")
    if tail is not None and tail < 0:
        causes.append(validation.invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        causes.append(validation.invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and seconds < 1:
        causes.append(validation.invalid("sinceSeconds", seconds, "must be greater than 0"))
    if seconds is not None and query.get("sinceTime"):
        causes.append(validation.forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if causes:
        raise errors.invalid("PodLogOptions", name, causes)
    since = None if seconds is None else now - seconds
    if query.get("sinceTime"):
        try:
            since = parse_time(query.get("sinceTime"))
        except ValueError as error:
            raise BadRequest(str(error)) from error
    return LogOptions(query.flag("follow"), query.flag("previous"), query.flag("timestamps"), tail, since, limit)


class PodStreaming:
    """Serves the streaming subresources; while `streams` gives None no pod has anything to stream."""

    def __init__(
        self, api: Api, streams: Callable[[], PodStreams | None], remote_pods: RemotePodsApi | None = None
    ) -> None:
        self._api = api
        self._remote_pods = remote_pods
        self._streams = streams
        self.by_subresource: dict[tuple[str, str], Handler] = {
            ("pods", "log"): self._here_or_there(self.log),
            ("pods", "exec"): self._here_or_there(self.exec),
            ("pods", "attach"): self._here_or_there(self.attach),
            ("pods", "portforward"): self._here_or_there(self.port_forward),
        }

    def _here_or_there(self, here: Handler) -> Handler:
        """A pod of another cluster answers from there: one that is only shown here, or one of ours that waits for good."""
        remote_pods = self._remote_pods
        if remote_pods is None:
            return here

        async def handle(request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
            own = self._api.store.get(ObjectKey("pods", info.namespace, info.name))
            if own is None or not spec_of(own.obj).get("nodeName"):
                pod = await remote_pods.find(info.namespace, info.name)
                if pod is not None:
                    return self._kept(remote_pods, pod, request, info) or await remote_pods.forward(
                        pod, info.subresource, request
                    )
            return await here(request, info, user, warnings)

        return handle

    def _kept(self, remote_pods: RemotePodsApi, pod: Obj, request: Request, info: RequestInfo) -> Answer | None:
        """The answer for a pod that is gone where it ran, of which some log is left; None when it is still there."""
        first = spec_of(pod)["containers"][0]["name"]
        if remote_pods.kept_log(pod, first, LogOptions()) is None:
            return None
        if info.subresource != "log":
            raise BadRequest(f"pod {info.name} has ended and is gone; the end of its log is all that is left of it")
        options = _log_options(request.query, info.name, self._api.clock.now())
        container = choose_container(pod, request.query.get("container"))
        if options.previous:
            raise BadRequest(
                f"pod {info.name} has ended and is gone; what is left of its log is of the last run of {container!r}"
            )
        return Response(200, remote_pods.kept_log(pod, container, options) or b"", "text/plain")

    async def _pod(self, info: RequestInfo, user: UserInfo) -> Obj:
        return (await self._api.get(user, PODS, info.namespace, info.name)).obj

    def _on_node(self, pod: Obj) -> PodStreams:
        node = spec_of(pod).get("nodeName") or ""
        streams = self._streams()
        if streams is None:
            raise NotFound(f'pods "{node}" not found', details={"name": node, "kind": "pods"})
        return streams

    async def log(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        pod = await self._pod(info, user)
        options = _log_options(request.query, info.name, self._api.clock.now())
        container = choose_container(pod, request.query.get("container"))
        if not spec_of(pod).get("nodeName"):
            return Response(204, b"", "")
        lines = self._on_node(pod).logs(pod, container, options)
        first = await anext(lines, b"")  # so that a refusal is still an HTTP error
        second = await anext(lines, b"") if not options.follow else b""
        if not options.follow and not second:
            return Response(200, first, "text/plain")

        async def produce(writer: Writer) -> None:
            try:
                await writer.write(first)
                if second:
                    await writer.write(second)
                async for chunk in lines:
                    await writer.write(chunk)
            finally:
                await _close(lines)

        return Stream(produce, "text/plain")

    async def exec(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        query = request.query

        async def begin(pod: Obj, container: str) -> ExecSession:
            if not query.all("command"):
                raise BadRequest("you must specify at least 1 command for the container")
            return await self._on_node(pod).exec(
                pod, container, query.all("command"), stdin=query.flag("stdin"), tty=query.flag("tty")
            )

        return await self._session(request, info, user, begin)

    async def attach(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        query = request.query

        async def begin(pod: Obj, container: str) -> ExecSession:
            return await self._on_node(pod).attach(pod, container, stdin=query.flag("stdin"), tty=query.flag("tty"))

        return await self._session(request, info, user, begin)

    async def _session(
        self,
        request: Request,
        info: RequestInfo,
        user: UserInfo,
        begin: Callable[[Obj, str], Awaitable[ExecSession]],
    ) -> Answer:
        pod = await self._pod(info, user)
        container = choose_container(pod, request.query.get("container"))
        if not spec_of(pod).get("nodeName"):
            raise BadRequest(f"pod {info.name} does not have a host assigned")
        wanted = channels.wanted_streams(request.query)
        link = channels.negotiate(request, channels.EXEC)
        session = await begin(pod, container)
        return Upgrade(lambda raw: channels.run_session(raw, link, session, wanted), link.headers)

    async def port_forward(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        pod = await self._pod(info, user)
        if not spec_of(pod).get("nodeName"):
            raise BadRequest(f"pod {info.name} does not have a host assigned")
        streams = self._on_node(pod)
        link = channels.negotiate(request, channels.PORT_FORWARD)
        ports = [_port(text) for value in request.query.all("ports") for text in value.split(",")]
        if link.transport == "websocket" and not ports:
            raise BadRequest('query parameter "ports" is required')

        async def connect(port: int) -> PortStream:
            return await streams.port_forward(pod, port)

        async def run(raw: RawStream) -> None:
            await channels.run_port_forward(raw, link, ports, connect)

        return Upgrade(run, link.headers)


def _port(text: str) -> int:
    port = whole_number(text)
    if port is None or not 0 < port < 65536:
        raise BadRequest(f'unable to parse "{text}" as a port')
    return port


async def _close(lines: AsyncIterator[bytes]) -> None:
    """End the node's iterator when the client is gone, whether or not it is a generator."""
    close = getattr(lines, "aclose", None)
    if close is not None:
        await close()
