"""The verbs on resources: from a request that may be made to the call on the API and back to an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ParamSpec, TypeVar

from corral.core import errors
from corral.core.admission import UserInfo
from corral.core.errors import ApiError, NotFound, UnsupportedMediaType
from corral.core.meta import Obj, labels_of
from corral.core.resource import Resource
from corral.core.selectors import FieldRequirement, FieldSelector
from corral.kinds.machinery.virtual_resources import ExtraApi, ExtraRequest
from corral.server.access.reviews import Review
from corral.server.api import Api
from corral.server.content import bodies, negotiation, parameters
from corral.server.content.negotiation import Representation
from corral.server.content.representations import Views, error_frame, plain, warning_headers
from corral.server.content.request_bodies import (
    PATCHES,
    check_posted,
    check_types,
    posted_resource,
    read_object,
    read_options,
    read_patch,
    updated_resource,
)
from corral.server.http.message import Answer, Headers, Query, Request, Response, Stream, Writer
from corral.server.http.turns import Turns
from corral.server.methods import check_method, not_allowed, not_served
from corral.server.paths import RequestInfo
from corral.server.pods.remote_pods import JoinedWatch, RemotePodsApi
from corral.server.served_resources import Served
from corral.server.verbs.options import Listing, Warnings, WatchOptions, WriteOptions
from corral.server.verbs.watch import Watch
from corral.store import Compacted, Event, ObjectKey, Stored

PODS = "pods"
PORTION = 64 * 1024
SLOW_READER_S = 60.0
JOINED, ENCODED = 512, 16
"""How much cheaper than decoding a body of its size it is to join a list of stored bytes, and to encode one."""

P = ParamSpec("P")
T = TypeVar("T")
Subhandler = Callable[[Request, RequestInfo, UserInfo, Warnings], Awaitable[Answer]]


def default_manager(request: Request) -> str:
    """The field manager of a client that names none: the product in its User-Agent."""
    product = request.headers.get("user-agent", "").partition("/")[0]
    printable = "".join(char for char in product if char.isprintable())
    return printable[: parameters.MAX_MANAGER] or "unknown"


@dataclass(frozen=True, slots=True)
class Call:
    """A request on a resource, with all that is known about it before the API is asked."""

    request: Request
    info: RequestInfo
    user: UserInfo
    served: Served
    wanted: Representation
    warnings: Warnings

    def write_options(self, kind: str, *, apply: bool = False) -> WriteOptions:
        manager = default_manager(self.request)
        found = parameters.write_options(self.request.query, kind, manager, self.warnings, apply=apply)
        return found._replace(size=len(self.request.body))

    @property
    def include(self) -> str:
        """How much of an object a Table carries."""
        return self.request.query.get("includeObject")

    @property
    def warned(self) -> Headers:
        """The headers that carry the warnings so far."""
        messages = self.warnings.messages
        return warning_headers(list(messages)) if messages else ()


class Resources:
    """Serves everything below /api/v1 and /apis/<group>/<version>."""

    def __init__(
        self,
        api: Api,
        views: Views,
        reviews: Mapping[str, Review],
        special: Mapping[tuple[str, str], Subhandler],
        extras: Sequence[ExtraApi] = (),
        remote_pods: RemotePodsApi | None = None,
    ) -> None:
        self._remote_pods = remote_pods
        self._api = api
        self._views = views
        self._turns = Turns()
        self._reviews = reviews
        self._special = special
        self._extras = {(kind.group, kind.plural): extra for extra in extras for kind in extra.kinds}

    def find(self, info: RequestInfo) -> Served:
        """What serves the resource in the path; checks that the path fits its scope."""
        served = self._api.serving.find(Resource(info.group, info.version, info.resource, ""))
        if not served.kind.namespaced and info.namespace and info.resource != "namespaces":
            raise not_served()
        return served

    async def answer(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        served = self.find(info)
        if info.watched and (info.subresource or request.method not in ("GET", "HEAD")):
            # Whoever may watch was let in here, so that nothing but watching may follow.
            raise not_served() if info.subresource else not_allowed()
        if served.version.deprecated:
            warnings(served.version.deprecation_warning or f"{served.api_version} {served.kind.kind} is deprecated")
        special = self._special.get((served.kind.group_resource, info.subresource))
        if special is not None:
            return await special(request, info, user, warnings)
        post = self._api.posts.get((served.kind.group_resource, info.subresource))
        if post is not None and request.method == "POST" and info.named:
            options = parameters.write_options(request.query, "CreateOptions", default_manager(request), warnings)
            posted = posted_resource(served, info.subresource)
            body = await self._read(user, request, read_object, request, posted, options)
            check_posted(served, posted, body)
            done = await post(user, info.namespace, info.name, body, options)
            return plain(done, 201, warning_headers(list(warnings.messages)))
        check_method(request.method, info, served)
        extra = self._extras.get((info.group, info.resource))
        if extra is not None:
            return await self._read_extra(extra, request, info, user, served)
        call = Call(request, info, user, served, _representation(request, served, info), warnings)
        if not info.named or info.watched:
            return await self._collection(call)
        try:
            return await self._named(call)
        except NotFound:
            answer = await self._from_remote_pods(call)
            if answer is None:
                raise
            return answer

    async def read_query(self, request: Request, owner: str) -> None:
        """Take the query apart, a long one beside the event loop."""
        await self._api.steps.read(owner, len(request.target), getattr, request, "query")

    async def _read(
        self, user: UserInfo, request: Request, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read a body, or what is asked for; what is long beside the event loop."""
        return await self._api.steps.read(user.name, len(request.body) + len(request.target), read, *args, **kwargs)

    def _remote_pods_of(self, served: Served) -> RemotePodsApi | None:
        """What runs elsewhere is pods; other kinds have nothing there."""
        return self._remote_pods if served.bucket == PODS else None

    async def _from_remote_pods(self, call: Call) -> Answer | None:
        """The answer for an object that is not here, when it is elsewhere: it can be read and not be written."""
        method, info = call.request.method, call.info
        remote_pods = self._remote_pods_of(call.served)
        if remote_pods is None or method == "PUT":
            return None
        if method not in ("GET", "HEAD"):
            await remote_pods.refuse_write(info.namespace, info.name)
            return None
        found = await remote_pods.get(call.served, info.namespace, info.name)
        return self._views.object(found, call.served, call.wanted, call.include) if found is not None else None

    # one object

    async def _named(self, call: Call) -> Answer:
        method = call.request.method
        if method in ("GET", "HEAD"):
            return await self._get(call)
        if method == "PATCH":
            return await self._patch(call)
        if method == "PUT":
            return await self._put(call)
        return await self._delete(call)

    async def _get(self, call: Call) -> Answer:
        info, query = call.info, call.request.query
        parameters.check_timeout(query)
        stored = await self._api.get(
            call.user,
            call.served.resource,
            info.namespace,
            info.name,
            subresource=info.subresource,
            resource_version=query.get("resourceVersion"),
        )
        remote_pods = self._remote_pods_of(call.served)
        if remote_pods is not None and not info.subresource:
            stored = await remote_pods.as_it_runs(stored)
        return self._answer(call, stored, 200)

    async def _put(self, call: Call) -> Answer:
        info, served = call.info, call.served
        options = call.write_options("UpdateOptions")
        typed = served.kind.builtin or info.subresource == "scale"
        resource = updated_resource(served, info.subresource)
        obj = await self._read(call.user, call.request, read_object, call.request, resource, options, typed=typed)
        stored, created = await self._api.update(
            call.user, served.resource, info.namespace, info.name, obj, options, subresource=info.subresource
        )
        return self._answer(call, stored, 201 if created else 200)

    async def _patch(self, call: Call) -> Answer:
        request, info, served = call.request, call.info, call.served
        kind = PATCHES.get(bodies.media_type(request.header("content-type")))
        if kind is None:
            raise UnsupportedMediaType("415: Unsupported Media Type", details={})
        if kind == "strategic" and not served.kind.builtin:
            accepted = [media for media, name in PATCHES.items() if name != "strategic"]
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(accepted)
            )
        options = call.write_options("PatchOptions", apply=kind == "apply")
        patch = await self._read(call.user, request, read_patch, request.body, kind)
        stored, created = await self._api.patch(
            call.user, served.resource, info.namespace, info.name, kind, patch, options, subresource=info.subresource
        )
        return self._answer(call, stored, 201 if created else 200)

    async def _delete(self, call: Call) -> Answer:
        sent = await self._read(call.user, call.request, read_options, call.request)
        options = parameters.delete_options(call.request.query, sent, call.warnings)
        left = await self._api.delete(call.user, call.served.resource, call.info.namespace, call.info.name, options)
        return plain(left, 200, call.warned)

    def _answer(self, call: Call, stored: Stored, status: int) -> Response:
        return self._views.object(stored, call.served, call.wanted, call.include, status, call.warned)

    # collections

    async def _collection(self, call: Call) -> Answer:
        request, info, served = call.request, call.info, call.served
        if request.method == "POST":
            return await self._post(call)
        if request.method == "DELETE":
            return await self._delete_collection(call)
        if info.verb == "watch":
            return await self._watch(call)
        options = await self._read(call.user, request, parameters.list_options, request.query, info.namespace)
        listing = await self._api.list(call.user, served.resource, options)
        remote_pods = self._remote_pods_of(served)
        if remote_pods is not None:
            listing = await remote_pods.list(served, options, listing)
        plainly = call.wanted.media == negotiation.JSON and not call.wanted.view
        size = sum(stored.encoded_size() for stored in listing.items) // (JOINED if plainly else ENCODED)
        answer = await self._api.steps.read(
            call.user.name, size, self._views.list, listing, served, call.wanted, call.include
        )
        answer.headers = call.warned
        return answer

    async def _post(self, call: Call) -> Answer:
        info, served = call.info, call.served
        options = call.write_options("CreateOptions")
        request, typed = call.request, served.kind.builtin
        obj = await self._read(call.user, request, read_object, request, served.resource, options, typed=typed)
        review = self._reviews.get(served.kind.group_resource)
        if review is not None:
            await self._read(call.user, request, check_types, served.resource, obj)
            return plain(await review(call.user, info.namespace, obj), 201)
        stored = await self._api.create(call.user, served.resource, info.namespace, obj, options)
        return self._answer(call, stored, 201)

    async def _delete_collection(self, call: Call) -> Answer:
        query = call.request.query
        selection = await self._read(call.user, call.request, parameters.list_options, query, call.info.namespace)
        sent = await self._read(call.user, call.request, read_options, call.request)
        options = parameters.delete_options(query, sent, call.warnings)
        gone = await self._api.delete_collection(call.user, call.served.resource, selection, options)
        listing = Listing(list(gone), str(self._api.store.revision))
        answer = self._views.list(listing, call.served, negotiation.PLAIN, "")
        answer.headers = call.warned
        return answer

    async def _watch(self, call: Call) -> Answer:
        query, served, wanted, include = call.request.query, call.served, call.wanted, call.include
        options = await self._read(call.user, call.request, _watch_options, query, call.info)
        await self._turns.begin(self._api.store.count(served.bucket))
        if options.timeout is None:
            options = replace(options, timeout=self._api.random.uniform(1800.0, 3600.0))
        remote_pods = self._remote_pods_of(served)
        watch: Watch | JoinedWatch
        try:
            watch = own = self._api.watch(call.user, served.resource, options)
            if remote_pods is not None:
                watch = await remote_pods.watch(served, options, own)
        except errors.Expired as error:
            return _expired_stream(error)
        views, turns = self._views, self._turns

        async def produce(writer: Writer) -> None:
            await _pump(watch, writer, views, served, wanted, include, turns)

        return Stream(produce)

    # virtual resources

    async def _read_extra(
        self, extra: ExtraApi, request: Request, info: RequestInfo, user: UserInfo, served: Served
    ) -> Answer:
        labels = await self._read(user, request, parameters.label_selector, request.query)
        asked = ExtraRequest(
            served.kind,
            served.version.name,
            info.namespace,
            info.name if info.named else "",
            info.subresource,
            user,
            labels,
            request.query.values,
        )
        wanted = _representation(request, served, info)
        include = request.query.get("includeObject")
        if info.named:
            obj = await extra.get(asked)
            if info.subresource:
                return plain(obj)
            return self._views.object(_virtual(obj, served), served, wanted, include)
        items = [obj for obj in await extra.list(asked) if labels is None or labels.matches(labels_of(obj))]
        listing = Listing([_virtual(obj, served) for obj in items], str(self._api.store.revision))
        return self._views.list(listing, served, wanted, include)


def _virtual(obj: Obj, served: Served) -> Stored:
    metadata = obj.get("metadata") or {}
    return Stored(ObjectKey(served.bucket, metadata.get("namespace", ""), metadata.get("name", "")), 0, obj=obj)


async def _pump(
    watch: Watch | JoinedWatch,
    writer: Writer,
    views: Views,
    served: Served,
    wanted: Representation,
    include: str,
    turns: Turns,
) -> None:
    """Write events as they come, a little at a time: what the client has not taken must not pile up here."""
    first = True
    try:
        await writer.write(b"")
        async for batch in watch:
            encode = partial(views.event_lines, served=served, wanted=wanted, include=include)
            async for lines in turns.share(_portions(batch, encode, first)):
                async with asyncio.timeout(SLOW_READER_S):
                    await writer.write(lines)
            first = False
    except TimeoutError:
        raise ConnectionResetError("the client does not read its watch") from None
    except ApiError as error:
        await writer.write(error_frame(error))
    except Compacted as error:
        await writer.write(error_frame(errors.Expired(str(error))))
    finally:
        watch.close()


def _portions(events: Sequence[Event], encode: Callable[..., bytes], first: bool) -> Iterator[bytes]:
    """The frames of these events in runs of about PORTION bytes, encoded when they are asked for."""
    run: list[bytes] = []
    size = 0
    for event in events:
        run.append(encode([event], first=first))
        first = False
        size += len(run[-1])
        if size >= PORTION:
            yield b"".join(run)
            run, size = [], 0
    if run:
        yield b"".join(run)


def _expired_stream(error: ApiError) -> Stream:
    async def produce(writer: Writer) -> None:
        await writer.write(error_frame(error))

    return Stream(produce)


def _watch_options(query: Query, info: RequestInfo) -> WatchOptions:
    return parameters.watch_options(query, info.namespace, _watched_fields(query, info))


def _watched_fields(query: Query, info: RequestInfo) -> FieldSelector | None:
    """The field selector of a watch; the legacy path /watch/.../name selects by name."""
    fields = parameters.field_selector(query)
    if not info.named:
        return fields
    named = FieldRequirement("metadata.name", False, info.name)  # whatever else is selected: this is what was allowed
    return FieldSelector((named, *(fields.requirements if fields is not None else ())))


def _representation(request: Request, served: Served, info: RequestInfo) -> Representation:
    return negotiation.choose(request.headers.get("accept", ""), served.kind.builtin, streams=not info.named)
