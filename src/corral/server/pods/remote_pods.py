"""Pods that run on other clusters, served next to the cluster's own: read, listed, watched, and reached.

They cannot be written here: who wants them gone deletes the job. An own pod hides one of the same name elsewhere, unless it
only waits behind its gate while the other runs: then it is shown with the other's status. Lists and watches have those that
`PodListing` says, and all of them for who names the label of their cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from corral.core.errors import Forbidden, ServiceUnavailable
from corral.core.meta import (
    Obj,
    labels_of,
    name_of,
    namespace_of,
    resource_version_of,
    spec_of,
    status_of,
    with_metadata,
)
from corral.core.remote_pods import CLUSTER_LABEL, Forwarded, PodChange, PodFeed, PodListing, RemotePodSource
from corral.core.streams import LogOptions
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.tasks import until_one_ends
from corral.server.http.message import Answer, Headers, RawStream, Request, Response, Stream, Upgrade, Writer
from corral.server.served_resources import Served
from corral.server.verbs.options import Listing, ListOptions, WatchOptions
from corral.server.verbs.selection import Selection
from corral.server.verbs.watch import Watch
from corral.store import Event, ObjectKey, Store, Stored

MOST_KEPT = 256 * 1024
_PASSED_ON = ("accept", "connection", "upgrade", "x-stream-protocol-version")
_WEBSOCKET = "sec-websocket-"
_BEARER = "base64url.bearer."
_NOT_PASSED_BACK = {"connection", "transfer-encoding", "content-length", "date", "content-type", "cache-control"}
SWITCHING = 101


class RemotePodsApi:
    """What the API answers about pods elsewhere."""

    def __init__(self, pods: RemotePodSource, store: Store) -> None:
        self._pods = pods
        self._store = store

    async def get(self, served: Served, namespace: str, name: str) -> Stored | None:
        pod = await self._pods.get(namespace, name)
        return _stored(served, pod) if pod is not None else None

    async def find(self, namespace: str, name: str) -> Obj | None:
        return await self._pods.get(namespace, name)

    async def list(self, served: Served, options: ListOptions, listing: Listing) -> Listing:
        """The list with the pods elsewhere behind the own ones, on its last page."""
        view = self._view(served, options)
        if listing.continue_token or view is None:
            return listing
        found = await self._pods.list(options.namespace, int(listing.resource_version))
        seen = {stored.key: stored for pod in found if (stored := view.seen(_stored(served, pod))) is not None}
        shown = [*(seen.pop(stored.key, stored) for stored in listing.items), *seen.values()]
        return listing._replace(items=[stored for stored in shown if view.matches(stored)])

    async def as_it_runs(self, own: Stored) -> Stored:
        """An own pod as it is shown."""
        if not _waits(own.obj) or self._pods.listing is PodListing.ON_REQUEST:
            return own
        pod = await self._pods.get(own.key.namespace, own.key.name)
        return _standing_in(own, pod) if pod is not None else own

    async def watch(self, served: Served, options: WatchOptions, watch: Watch) -> Watch | JoinedWatch:
        """A watch of the own pods and those elsewhere."""
        view = self._view(served, options)
        if view is None:
            return watch
        since = int(options.resource_version or 0)
        if options.send_initial_events:
            since = 0
        current, feed = await self._pods.follow(since)
        if since == 0 and options.send_initial_events is False:
            current = []
        first = [event for pod in current if view.adds(pod) and (event := view.event(PodChange(None, pod))) is not None]
        return JoinedWatch(watch, feed, first, view.event, view.own_event)

    def _view(self, served: Served, options: ListOptions | WatchOptions) -> _View | None:
        """What a list or watch shows of pods elsewhere; None when that is nothing."""
        labels = options.labels
        asked = labels is not None and any(entry.key == CLUSTER_LABEL for entry in labels.requirements)
        if not asked and self._pods.listing is PodListing.ON_REQUEST:
            return None
        selection = Selection(served, options.namespace, labels, options.fields)
        return _View(self._pods, self._store, served, selection, asked)

    async def refuse_write(self, namespace: str, name: str) -> None:
        """Say why a pod that is shown cannot be written; nothing when there is none."""
        pod = await self._pods.get(namespace, name)
        if pod is not None:
            cluster = labels_of(pod).get(CLUSTER_LABEL)
            raise Forbidden(
                f'pods "{name}" is forbidden: it runs on cluster {cluster} and is only shown here; change its job instead'
            )

    def kept_log(self, pod: Obj, container: str, options: LogOptions) -> bytes | None:
        return self._pods.kept_log(pod, container, options)

    async def forward(self, pod: Obj, subresource: str, request: Request) -> Answer:
        """Hand a request about a pod on to its cluster; upgraded connections are joined byte by byte.

        The path is built anew from what was allowed: how the caller spelt it might mean something else over there.
        """
        path = PODS.path(namespace_of(pod), name_of(pod), subresource)
        _, mark, query = request.target.partition("?")
        opened = await self._pods.forward(pod, request.method, f"{path}{mark}{query}", _passed_on(request))
        try:
            answer = await opened.__aenter__()
        except OSError as error:
            raise ServiceUnavailable(f"the cluster that runs the pod cannot be reached: {error}") from error
        passed = tuple((name, value) for name, value in answer.headers if name not in _NOT_PASSED_BACK)
        content_type = dict(answer.headers).get("content-type", "text/plain")
        if answer.status == SWITCHING:

            async def run(raw: RawStream) -> None:
                try:
                    await _join(raw, answer)
                finally:
                    await opened.__aexit__(None, None, None)

            return Upgrade(run, passed)
        chunks, begun = answer.chunks(), b""
        if answer.status != 200 or not request.query.flag("follow"):
            try:
                begun, is_whole = await _beginning(chunks)
            except OSError as error:
                await opened.__aexit__(None, None, None)
                raise ServiceUnavailable(f"the cluster that runs the pod broke off: {error}") from error
            except BaseException:
                await opened.__aexit__(None, None, None)
                raise
            if is_whole or answer.status != 200:
                await opened.__aexit__(None, None, None)
                return Response(answer.status, begun, content_type, _of_a_body(passed))

        async def produce(writer: Writer) -> None:
            try:
                await writer.write(begun)
                async for chunk in chunks:
                    await writer.write(chunk)
            finally:
                await opened.__aexit__(None, None, None)

        return Stream(produce, content_type, _of_a_body(passed))


async def _beginning(chunks: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """As much of an answer as is kept here, and whether it is all of it. What is longer goes on as the client takes it: another cluster
    may send without end."""
    parts, size = [], 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > MOST_KEPT:
            return b"".join(parts), False
    return b"".join(parts), True


class _View:
    """Pods elsewhere as one selection sees them."""

    def __init__(self, pods: RemotePodSource, store: Store, served: Served, selection: Selection, asked: bool) -> None:
        self._pods = pods
        self._store = store
        self._served = served
        self._selection = selection
        self._asked = asked

    def matches(self, stored: Stored) -> bool:
        if self._selection.namespace and stored.key.namespace != self._selection.namespace:
            return False
        return self._selection.match is None or self._selection.match(stored)

    def seen(self, other: Stored) -> Stored | None:
        """What is shown for a pod elsewhere; None when an own one hides it, or its job has pods here."""
        own = self._store.get(other.key)
        if own is None:
            return other if self._asked or not self._pods.has_stand_ins(other.obj) else None
        return _standing_in(own, other.obj) if _waits(own.obj) else None

    def adds(self, pod: Obj) -> bool:
        """Whether a pod elsewhere is one more than the own ones that are selected."""
        own = self._store.get(_stored(self._served, pod).key)
        return own is None or not self.matches(own)

    def event(self, change: PodChange) -> Event | None:
        """A change elsewhere."""
        pods = [_stored(self._served, pod) if pod is not None else None for pod in change]
        own = self._store.get(next(pod.key for pod in pods if pod is not None))
        # An own pod is there before one elsewhere stands for it, and stays when that is gone.
        old, new = (self.seen(pod) if pod is not None else own for pod in pods)
        was, now = (pod is not None and self.matches(pod) for pod in (old, new))
        if now and new is not None:
            return Event("MODIFIED" if was else "ADDED", new, old) if new is not old else None
        return Event("DELETED", old, old) if was and old is not None else None

    def own_event(self, event: Event) -> Event:
        """A change of an own pod, as it is shown."""
        if event.type not in ("ADDED", "MODIFIED") or not _waits(event.stored.obj):
            return event
        pod = self._pods.known(event.stored.key.namespace, event.stored.key.name)
        return Event(event.type, _standing_in(event.stored, pod), event.previous) if pod is not None else event


_Translate = Callable[[PodChange], Event | None]


class JoinedWatch:
    """A watch of own pods with changes elsewhere put in between. What came first elsewhere also goes out first."""

    def __init__(
        self,
        own: Watch,
        feed: PodFeed,
        first: Sequence[Event],
        translate: _Translate,
        own_event: Callable[[Event], Event],
    ) -> None:
        self._own = own
        self._own_event = own_event
        self._feed = feed
        self._first = list(first)
        self._translate = translate
        self._next: asyncio.Task[list[Event]] | None = None

    def __aiter__(self) -> JoinedWatch:
        return self

    async def __anext__(self) -> list[Event]:
        while True:
            if found := self._remote_events():
                return found
            if self._next is None:
                self._next = asyncio.ensure_future(self._own.next())
            news = asyncio.ensure_future(self._feed.wait())
            try:
                await asyncio.wait({self._next, news}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
            if self._next.done():
                task, self._next = self._next, None
                batch = task.result()
                if not batch:
                    raise StopAsyncIteration
                return [*self._remote_events(), *map(self._own_event, batch)]

    def _remote_events(self) -> list[Event]:
        first, self._first = self._first, []
        changes = self._feed.poll()
        return [*first, *(event for change in changes if (event := self._translate(change)) is not None)]

    def close(self) -> None:
        self._feed.close()
        self._own.close()
        if self._next is not None:
            self._next.cancel()


async def _join(raw: RawStream, answer: Forwarded) -> None:
    """Carry bytes both ways until either side is done."""

    async def out() -> None:
        while data := await raw.read():
            await answer.send(data)

    async def back() -> None:
        while data := await answer.receive():
            await raw.write(data)

    await until_one_ends(out(), back())


def _passed_on(request: Request) -> dict[str, str]:
    """The headers another cluster may see: what is asked for, but never who asks or with what credentials."""
    passed: dict[str, list[str]] = {}
    for name, value in request.fields:
        if name in _PASSED_ON or name.startswith(_WEBSOCKET):
            entries = [entry for entry in value.split(",") if not entry.strip().startswith(_BEARER)]
            passed.setdefault(name, []).append(",".join(entries))
    return {name: ",".join(values) for name, values in passed.items() if any(values)}


def _of_a_body(headers: Headers) -> Headers:
    return tuple((name, value) for name, value in headers if name not in ("upgrade", "audit-id"))


def _waits(pod: Obj) -> bool:
    """Whether a pod is held back by a gate; that of a dispatched job is for good."""
    return bool(spec_of(pod).get("schedulingGates")) and not spec_of(pod).get("nodeName")


def _standing_in(own: Stored, pod: Obj) -> Stored:
    """An own pod with the status of the one that runs for it, and the name of the cluster that runs that."""
    labels = {**labels_of(own.obj), CLUSTER_LABEL: labels_of(pod).get(CLUSTER_LABEL, "")}
    return Stored(own.key, own.revision, obj={**with_metadata(own.obj, labels=labels), "status": status_of(pod)})


def _stored(served: Served, pod: Obj) -> Stored:
    key = ObjectKey(served.bucket, namespace_of(pod), name_of(pod))
    return Stored(key, int(resource_version_of(pod) or 0), obj=pod)
