"""The verbs on resources: from a request that may be made to the call on the API and back to an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from corral.core import errors
from corral.core.admission import UserInfo
from corral.core.errors import ApiError, BadRequest, MethodNotAllowed, NotFound, UnsupportedMediaType
from corral.core.meta import Obj, labels_of
from corral.core.resource import Resource
from corral.core.selectors import FieldSelector, parse_field_selector
from corral.kinds.extra import ExtraApi, ExtraRequest
from corral.server import bodies, negotiation, parameters
from corral.server.api import Api
from corral.server.elsewhere import Elsewhere, JoinedWatch
from corral.server.gojson import type_name
from corral.server.http.message import JSON, Answer, Query, Request, Response, Stream, Writer
from corral.server.negotiation import Representation
from corral.server.options import Listing, Warnings, WriteOptions
from corral.server.paths import RequestInfo
from corral.server.representations import Views, error_frame, plain, warning_headers
from corral.server.reviews import Review
from corral.server.serving import Served
from corral.server.watching import Watch
from corral.store import Compacted, ObjectKey, Stored

PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
MAX_PATCH_OPERATIONS = 10_000
PODS = "pods"

Subhandler = Callable[[Request, RequestInfo, UserInfo, Warnings], Awaitable[Answer]]


def not_served() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def default_manager(request: Request) -> str:
    """The field manager of a client that names none: the product in its User-Agent."""
    product = request.headers.get("user-agent", "").partition("/")[0]
    printable = "".join(char for char in product if char.isprintable())
    return printable[: parameters.MAX_MANAGER] or "unknown"


class Resources:
    """Serves everything below /api/v1 and /apis/<group>/<version>."""

    def __init__(
        self,
        api: Api,
        views: Views,
        reviews: Mapping[str, Review],
        special: Mapping[tuple[str, str], Subhandler],
        extras: Sequence[ExtraApi] = (),
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        self._api = api
        self._views = views
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
        if served.version.deprecated:
            warnings(served.version.deprecation_warning or f"{served.api_version} {served.kind.kind} is deprecated")
        special = self._special.get((served.kind.group_resource, info.subresource))
        if special is not None:
            return await special(request, info, user, warnings)
        post = self._api.posts.get((served.kind.group_resource, info.subresource))
        if post is not None and request.method == "POST" and info.named:
            options = parameters.write_options(request.query, "CreateOptions", default_manager(request), warnings)
            body = _body(request, _posted(served, info.subresource), options)
            done = await post(user, info.namespace, info.name, body, options)
            return plain(done, 201, warning_headers(list(warnings.messages)))
        _check_method(request.method, info, served)
        extra = self._extras.get((info.group, info.resource))
        if extra is not None:
            return await self._read_extra(extra, request, info, user, served)
        wanted = _representation(request, served)
        if not info.named:
            return await self._collection(request, info, user, served, wanted, warnings)
        try:
            return await self._named(request, info, user, served, wanted, warnings)
        except NotFound:
            elsewhere = self._elsewhere_of(served)
            if elsewhere is None or request.method == "PUT":
                raise
            if request.method in ("GET", "HEAD"):
                found = await elsewhere.get(served, info.namespace, info.name)
                if found is None:
                    raise
                return self._views.object(found, served, wanted, request.query.get("includeObject"))
            await elsewhere.refuse_write(info.namespace, info.name)
            raise

    def _elsewhere_of(self, served: Served) -> Elsewhere | None:
        """What runs elsewhere is pods; other kinds have nothing there."""
        return self._elsewhere if served.bucket == PODS else None

    # one object

    async def _named(
        self,
        request: Request,
        info: RequestInfo,
        user: UserInfo,
        served: Served,
        wanted: Representation,
        warnings: Warnings,
    ) -> Answer:
        if request.method in ("GET", "HEAD"):
            return await self._get(request, info, user, served, wanted, warnings)
        if request.method == "PATCH":
            return await self._patch(request, info, user, served, wanted, warnings)
        if request.method == "PUT":
            return await self._put(request, info, user, served, wanted, warnings)
        return await self._delete(request, info, user, served, warnings)

    async def _get(
        self,
        request: Request,
        info: RequestInfo,
        user: UserInfo,
        served: Served,
        wanted: Representation,
        warnings: Warnings,
    ) -> Answer:
        query = request.query
        parameters.check_timeout(query)
        stored = await self._api.get(
            user,
            served.resource,
            info.namespace,
            info.name,
            subresource=info.subresource,
            resource_version=query.get("resourceVersion"),
        )
        return self._views.object(
            stored, served, wanted, query.get("includeObject"), 200, warning_headers(list(warnings.messages))
        )

    async def _put(
        self,
        request: Request,
        info: RequestInfo,
        user: UserInfo,
        served: Served,
        wanted: Representation,
        warnings: Warnings,
    ) -> Answer:
        options = parameters.write_options(request.query, "UpdateOptions", default_manager(request), warnings)
        typed = served.kind.builtin or info.subresource == "scale"
        obj = _body(request, body_resource(served, info.subresource), options, typed=typed)
        stored, created = await self._api.update(
            user, served.resource, info.namespace, info.name, obj, options, subresource=info.subresource
        )
        return self._written(stored, served, wanted, 201 if created else 200, request, warnings)

    async def _patch(
        self,
        request: Request,
        info: RequestInfo,
        user: UserInfo,
        served: Served,
        wanted: Representation,
        warnings: Warnings,
    ) -> Answer:
        kind = PATCHES.get(bodies.media_type(request.header("content-type")))
        if kind is None:
            raise UnsupportedMediaType("415: Unsupported Media Type", details={})
        if kind == "strategic" and not served.kind.builtin:
            accepted = [media for media, name in PATCHES.items() if name != "strategic"]
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(accepted)
            )
        options = parameters.write_options(
            request.query, "PatchOptions", default_manager(request), warnings, apply=kind == "apply"
        )
        patch = _patch_body(request.body, kind)
        stored, created = await self._api.patch(
            user, served.resource, info.namespace, info.name, kind, patch, options, subresource=info.subresource
        )
        return self._written(stored, served, wanted, 201 if created else 200, request, warnings)

    async def _delete(
        self, request: Request, info: RequestInfo, user: UserInfo, served: Served, warnings: Warnings
    ) -> Answer:
        options = parameters.delete_options(request.query, _options_body(request), warnings)
        left = await self._api.delete(user, served.resource, info.namespace, info.name, options)
        return plain(left, 200, warning_headers(list(warnings.messages)))

    def _written(
        self,
        stored: Stored,
        served: Served,
        wanted: Representation,
        status: int,
        request: Request,
        warnings: Warnings,
    ) -> Response:
        headers = warning_headers(list(warnings.messages)) if warnings.messages else ()
        return self._views.object(stored, served, wanted, request.query.get("includeObject"), status, headers)

    # collections

    async def _collection(
        self,
        request: Request,
        info: RequestInfo,
        user: UserInfo,
        served: Served,
        wanted: Representation,
        warnings: Warnings,
    ) -> Answer:
        if request.method == "POST":
            options = parameters.write_options(request.query, "CreateOptions", default_manager(request), warnings)
            obj = _body(request, served.resource, options, typed=served.kind.builtin)
            review = self._reviews.get(served.kind.group_resource)
            if review is not None:
                return plain(await review(user, info.namespace, obj), 201)
            stored = await self._api.create(user, served.resource, info.namespace, obj, options)
            return self._written(stored, served, wanted, 201, request, warnings)
        if request.method == "DELETE":
            return await self._delete_collection(request, info, user, served, warnings)
        if info.verb == "watch":
            return await self._watch(request.query, info, user, served, wanted)
        options_ = parameters.list_options(request.query, info.namespace)
        listing = await self._api.list(user, served.resource, options_)
        elsewhere = self._elsewhere_of(served)
        if elsewhere is not None:
            listing = await elsewhere.list(served, options_, listing)
        answer = self._views.list(listing, served, wanted, request.query.get("includeObject"))
        answer.headers = warning_headers(list(warnings.messages))
        return answer

    async def _delete_collection(
        self, request: Request, info: RequestInfo, user: UserInfo, served: Served, warnings: Warnings
    ) -> Answer:
        selection = parameters.list_options(request.query, info.namespace)
        options = parameters.delete_options(request.query, _options_body(request), warnings)
        gone = await self._api.delete_collection(user, served.resource, selection, options)
        listing = Listing(list(gone), str(self._api.store.revision))
        answer = self._views.list(listing, served, negotiation.PLAIN, "")
        answer.headers = warning_headers(list(warnings.messages))
        return answer

    async def _watch(
        self, query: Query, info: RequestInfo, user: UserInfo, served: Served, wanted: Representation
    ) -> Answer:
        options = parameters.watch_options(query, info.namespace, _watched_fields(query, info))
        if options.timeout is None:
            options = replace(options, timeout=self._api.random.uniform(1800.0, 3600.0))
        include = query.get("includeObject")
        elsewhere = self._elsewhere_of(served)
        watch: Watch | JoinedWatch
        try:
            watch = own = self._api.watch(user, served.resource, options)
            if elsewhere is not None:
                watch = await elsewhere.watch(served, options, own)
        except errors.Expired as error:
            return _expired_stream(error)
        views = self._views

        async def produce(writer: Writer) -> None:
            await writer.write(b"")
            await _pump(watch, writer, views, served, wanted, include)

        return Stream(produce)

    # virtual resources

    async def _read_extra(
        self, extra: ExtraApi, request: Request, info: RequestInfo, user: UserInfo, served: Served
    ) -> Answer:
        labels = parameters.label_selector(request.query)
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
        wanted = _representation(request, served)
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
    watch: Watch | JoinedWatch, writer: Writer, views: Views, served: Served, wanted: Representation, include: str
) -> None:
    """Write batches as they come; what piled up while the client was slow goes out in one write."""
    first = True
    try:
        async for batch in watch:
            await writer.write(views.event_lines(batch, served, wanted, include, first))
            first = False
    except ApiError as error:
        await writer.write(error_frame(error))
    except Compacted as error:
        await writer.write(error_frame(errors.Expired(str(error))))
    finally:
        watch.close()


def _expired_stream(error: ApiError) -> Stream:
    async def produce(writer: Writer) -> None:
        await writer.write(error_frame(error))

    return Stream(produce)


def _watched_fields(query: Query, info: RequestInfo) -> FieldSelector | None:
    """The field selector of a watch; the legacy path /watch/.../name selects by name."""
    fields = parameters.field_selector(query)
    if info.named and fields is None:
        return parse_field_selector(f"metadata.name={info.name}")
    return fields


def _check_method(method: str, info: RequestInfo, served: Served) -> None:
    """405 for what a path never does, 404 for subresources that do not exist."""
    kind = served.kind
    if info.subresource:
        _check_subresource(method, info, served)
        return
    if info.rest:
        raise not_served()
    if kind.namespaced and not info.namespace:
        if info.named:
            raise not_served()
        if method not in ("GET", "HEAD"):
            raise not_allowed()
    allowed = ("GET", "HEAD", "PUT", "PATCH", "DELETE") if info.named else ("GET", "HEAD", "POST", "DELETE")
    if method not in allowed or info.verb not in kind.verbs:
        raise not_allowed()


def _check_subresource(method: str, info: RequestInfo, served: Served) -> None:
    name = info.subresource
    if info.rest or not info.named:
        raise not_served()
    if (name == "status" and served.version.status) or (name == "scale" and served.version.scale is not None):
        if method not in ("GET", "HEAD", "PUT", "PATCH"):
            raise not_allowed()
        return
    declared = next((sub for sub in served.kind.subresources if sub.name == name), None)
    if declared is None:
        if name == "scale" and not served.kind.builtin:
            raise errors.not_found(served.resource, info.name)
        raise not_served()
    if info.verb not in declared.verbs:
        raise not_allowed()


def _representation(request: Request, served: Served) -> Representation:
    return negotiation.choose(request.headers.get("accept", ""), served.kind.builtin)


def body_resource(served: Served, subresource: str) -> Resource:
    """What the body of a write to a subresource is."""
    if subresource == "scale":
        return Resource("autoscaling", "v1", "scales", "Scale")
    return served.resource


def _posted(served: Served, subresource: str) -> Resource:
    """What a POST to a subresource carries."""
    declared = next((sub for sub in served.kind.subresources if sub.name == subresource), None)
    if declared is None:
        return served.resource
    return Resource(declared.group or served.kind.group, declared.version or served.version.name, "", declared.kind)


def _body(request: Request, resource: Resource, options: WriteOptions, *, typed: bool = True) -> Obj:
    """The object in the body; duplicate fields are refused or warned about, as the client wishes."""
    content_type = request.headers.get("content-type", "")
    obj = bodies.decode_object(request.body, content_type, resource, typed=typed)
    if options.field_validation != "Ignore" and bodies.media_type(content_type) in ("", JSON):
        repeated = [f'duplicate field "{path}"' for path in bodies.duplicates(request.body, obj)]
        if repeated and options.field_validation == "Strict":
            raise BadRequest(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"strict decoding error: {', '.join(repeated)}"
            )
        for message in repeated:
            options.warn(message)
    return obj


def _options_body(request: Request) -> Obj | None:
    """DeleteOptions, if the request carries any."""
    if not request.body:
        return None
    resource = Resource("", "v1", "deleteoptions", "DeleteOptions")
    try:
        return bodies.decode_object(request.body, request.headers.get("content-type", ""), resource)
    except BadRequest as error:
        # Options are refused without the words that frame an object's refusal.
        why = error.message.partition("(must be of type DeleteOptions): ")[2].rpartition(" (")[0]
        raise BadRequest(why or error.message) from error


def _patch_body(body: bytes, kind: str) -> Any:
    if kind == "apply":
        try:
            patch = bodies.decode_yaml(body)
        except ValueError as error:
            why = str(error).removeprefix("error converting YAML to JSON: ")
            raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {why}") from error
        if not isinstance(patch, dict):
            why = f"json: cannot unmarshal {type_name(patch)} into Go value of type map[string]interface {{}}"
            raise BadRequest(f"error decoding YAML: {why}")
        return patch
    try:
        patch = bodies.decode_json(body)
    except ValueError as error:
        raise BadRequest(f"error decoding patch: {error}") from error
    expected, name = (list, "[]handlers.jsonPatchOp") if kind == "json" else (dict, "map[string]interface {}")
    if not isinstance(patch, expected):
        why = f"json: cannot unmarshal {type_name(patch)} into Go value of type {name}"
        raise BadRequest(f"error decoding patch: {why}")
    if kind == "json" and len(patch) > MAX_PATCH_OPERATIONS:
        raise errors.TooLarge(
            f"Request entity too large: The allowed maximum operations in a JSON patch is {MAX_PATCH_OPERATIONS}, "
            f"got {len(patch)}"
        )
    return patch
