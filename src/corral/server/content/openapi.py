"""OpenAPI documents made from the registry: version 3 per group and version, version 2 as one document.

kubectl reads them to explain fields, to know how lists merge and to learn which options a PATCH takes; Go clients read
version 2 as protobuf. Documents are built when first asked for after a change, beside the event loop, and kept as bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from corral.core.meta import Obj
from corral.kinds.machinery import schemas
from corral.kinds.machinery.definition import KindDef, VersionDef
from corral.kinds.machinery.describing import described
from corral.kinds.machinery.registry import Registry
from corral.runtime.aside import Aside
from corral.server.content.discovery import Discovery
from corral.server.content.openapi_protobuf import encode_document
from corral.server.content.representations import encode
from corral.server.http.message import JSON, TEXT, Request, Response
from corral.server.non_resource_paths import VERSION

PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
Kinds = Sequence[tuple[KindDef, VersionDef]]
_V3 = "#/components/schemas/"
_V2 = "#/definitions/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_PATCHES = (
    "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)  # fmt: skip
_TYPES = {
    "Patch": {"description": "Patch is provided to give a concrete name and type to the patch body.", "type": "object"}
}


def component_name(kind: KindDef, version: VersionDef) -> str:
    """The name of a kind's schema: the published one, or the group reversed for custom kinds."""
    if version.definition:
        return version.definition
    reversed_group = ".".join(reversed(kind.group.split("."))) if kind.group else "core"
    return f"{reversed_group}.{version.name}.{kind.kind}"


def _group_version_kind(group: str, version: str, kind: str) -> Obj:
    return {"group": group, "kind": kind, "version": version}


class Components:
    """The schemas one document refers to, collected with everything they refer to in turn."""

    def __init__(self) -> None:
        self.found: dict[str, Obj] = {}

    def add_kind(self, kind: KindDef, version: VersionDef) -> str:
        name = component_name(kind, version)
        if version.definition:
            self.add(name)
        elif name not in self.found:
            self.found[name] = self._custom(kind, version)
        self._add_list(name, kind, version)
        return name

    def add(self, name: str) -> None:
        """A published definition and all it refers to."""
        if name in self.found:
            return
        if name == _META + "Patch":
            self.found[name] = _TYPES["Patch"]
            return
        try:
            schema = schemas.definition(name, described=True)
        except LookupError:
            self.found[name] = {"type": "object"}
            return
        self.found[name] = schema  # before what it refers to, which may be itself
        self.found[name] = self._inner(schema)

    def _inner(self, schema: Any) -> Any:
        """The schema with references beside other words moved into allOf, as version 3 demands."""
        if isinstance(schema, list):
            return [self._inner(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        reference = schema.get("$ref")
        if isinstance(reference, str):
            self.add(reference.rpartition("/")[2])
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            target = {"$ref": _V3 + reference.rpartition("/")[2]}
            return {**rest, "allOf": [target]} if rest else target
        return {key: self._inner(value) for key, value in schema.items()}

    def _custom(self, kind: KindDef, version: VersionDef) -> Obj:
        self.add(_META + "ObjectMeta")
        # What a third party defined is described as they did.
        schema = dict(described(kind, version) if kind.since is None else version.schema)
        properties = {**_type_fields(), **(schema.get("properties") or {})}
        for name, field in _type_fields().items():
            if "description" not in properties[name]:
                properties[name] = field
        properties["metadata"] = {
            "description": "Standard object's metadata.",
            "allOf": [{"$ref": _V3 + _META + "ObjectMeta"}],
        }
        if kind.description:
            schema.setdefault("description", kind.description)
        schema.update(
            type="object",
            properties=properties,
            **{"x-kubernetes-group-version-kind": [_group_version_kind(kind.group, version.name, kind.kind)]},
        )
        schema.pop("x-kubernetes-validations", None)
        return schema

    def _add_list(self, name: str, kind: KindDef, version: VersionDef) -> None:
        if "list" not in kind.verbs:
            return
        published = name.removesuffix(kind.kind) + kind.list_kind
        if published in self.found:
            return
        self.add(_META + "ListMeta")
        self.found[published] = {
            "description": f"{kind.list_kind} is a list of {kind.kind}",
            "type": "object",
            "required": ["items"],
            "properties": {
                **_type_fields(),
                "items": {"type": "array", "items": {"$ref": _V3 + name}},
                "metadata": {"$ref": _V3 + _META + "ListMeta"},
            },
            "x-kubernetes-group-version-kind": [_group_version_kind(kind.group, version.name, kind.list_kind)],
        }


def _type_fields() -> Obj:
    return {
        "apiVersion": {"description": "The versioned schema this object follows.", "type": "string"},
        "kind": {"description": "The kind of object this is.", "type": "string"},
    }


def _parameter(name: str, kind: str = "string", where: str = "query") -> Obj:
    parameter: Obj = {"name": name, "in": where, "schema": {"type": kind, "uniqueItems": True}}
    return {**parameter, "required": True} if where == "path" else parameter


_WRITE = [_parameter("dryRun"), _parameter("fieldManager"), _parameter("fieldValidation")]
_PATCH = [*_WRITE, _parameter("force", "boolean")]
_LIST = [
    _parameter("allowWatchBookmarks", "boolean"), _parameter("continue"), _parameter("fieldSelector"),
    _parameter("labelSelector"), _parameter("limit", "integer"), _parameter("resourceVersion"),
    _parameter("resourceVersionMatch"), _parameter("sendInitialEvents", "boolean"),
    _parameter("timeoutSeconds", "integer"), _parameter("watch", "boolean"),
]  # fmt: skip
_DELETE = [
    _parameter("dryRun"), _parameter("gracePeriodSeconds", "integer"), _parameter("orphanDependents", "boolean"),
    _parameter("propagationPolicy"),
]  # fmt: skip


class _Operations:
    """The operations on one kind in one version."""

    def __init__(self, kind: KindDef, version: VersionDef, name: str) -> None:
        self.kind = kind
        self.version = version
        self.name = name
        self.list_name = name.removesuffix(kind.kind) + kind.list_kind

    def paths(self) -> dict[str, Obj]:
        root = f"/apis/{self.kind.group}" if self.kind.group else "/api"
        base = f"{root}/{self.version.name}"
        spaced = f"{base}/namespaces/{{namespace}}" if self.kind.namespaced else base
        collection, item = f"{spaced}/{self.kind.plural}", f"{spaced}/{self.kind.plural}/{{name}}"
        found: dict[str, Obj] = {}
        if self.kind.namespaced and "list" in self.kind.verbs:
            found[f"{base}/{self.kind.plural}"] = {"get": self._read("list", _LIST, self.list_name)}
        operations = {
            "get": ("list", lambda: self._read("list", _LIST, self.list_name)),
            "post": ("create", lambda: self._write("post", _WRITE)),
            "delete": (
                "deletecollection",
                lambda: self._read("deletecollection", [*_LIST, *_DELETE], _META + "Status"),
            ),
        }
        found[collection] = self._item(operations, named=False)
        named = {
            "get": ("get", lambda: self._read("get", [], self.name)),
            "put": ("update", lambda: self._write("put", _WRITE)),
            "patch": ("patch", self._patch),
            "delete": ("delete", lambda: self._read("delete", _DELETE, _META + "Status")),
        }
        found[item] = self._item(named, named=True)
        if self.version.status:
            found[f"{item}/status"] = self._item({key: named[key] for key in ("get", "put", "patch")}, named=True)
        return {path: operations for path, operations in found.items() if len(operations) > 1 or "get" in operations}

    def _item(self, operations: dict[str, tuple[str, Callable[[], Obj]]], *, named: bool) -> Obj:
        item = {method: make() for method, (verb, make) in operations.items() if verb in self.kind.verbs}
        parameters = [_parameter("name", where="path")] if named else []
        if self.kind.namespaced:
            parameters.append(_parameter("namespace", where="path"))
        return {**item, "parameters": [*parameters, _parameter("pretty")]}

    def _operation(self, action: str, parameters: list[Obj], answer: str) -> Obj:
        gvk = _group_version_kind(self.kind.group, self.version.name, self.kind.kind)
        schema = {"schema": {"$ref": _V3 + answer}}
        return {
            "tags": [f"{self.kind.group.partition('.')[0] or 'core'}_{self.version.name}"],
            "operationId": f"{action}{self.kind.kind}",
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": {JSON: schema}}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
        }

    def _read(self, action: str, parameters: list[Obj], answer: str) -> Obj:
        return self._operation(action, parameters, answer)

    def _write(self, action: str, parameters: list[Obj]) -> Obj:
        body = {"content": {"*/*": {"schema": {"$ref": _V3 + self.name}}}, "required": True}
        return {**self._operation(action, parameters, self.name), "requestBody": body}

    def _patch(self) -> Obj:
        medias = _PATCHES if self.kind.builtin else _PATCHES[:3]
        content = {media: {"schema": {"$ref": _V3 + _META + "Patch"}} for media in medias}
        return {**self._operation("patch", _PATCH, self.name), "requestBody": {"content": content, "required": True}}


class OpenApi:
    """Serves /openapi/v2 and /openapi/v3."""

    def __init__(self, registry: Registry, discovery: Discovery, aside: Aside | None = None) -> None:
        self._aside = aside
        self._making = asyncio.Lock()
        self._registry = registry
        self._discovery = discovery
        self._revision = -1
        self._kept: dict[str, tuple[bytes, str]] = {}

    async def answer(self, request: Request) -> Response | None:
        if self._revision != self._registry.revision:
            self._revision = self._registry.revision
            self._kept.clear()
        path = request.path.strip("/").removeprefix("openapi/")
        if path == "v2":
            return await self._version_2(request)
        if path == "v3":
            body = encode({"paths": {name: {"serverRelativeURL": self._url(name)} for name in self._documents()}})
            return Response(200, body, TEXT)
        name = path.removeprefix("v3/")
        if not path.startswith("v3/") or name not in self._documents():
            return None
        body, digest = await self._keep(name, [name], _version_3)
        etag = f'"{digest}"'
        if request.header("if-none-match") == etag:
            return Response(304, b"", "", (("Etag", etag),))
        hashed = bool(request.query.get("hash"))
        return Response(
            200,
            body,
            JSON,
            (("Etag", etag), ("Vary", "Accept")),
            "public, immutable" if hashed else "no-cache, private",
        )

    def _documents(self) -> list[str]:
        return [f"apis/{name}" if "/" in name else f"api/{name}" for name in self._discovery.group_versions()]

    def _url(self, name: str) -> str:
        """The address of a document, which changes when the document does."""
        group, version = _split(name)
        kinds = self._discovery.kinds(group, version)
        text = (
            repr([(kind.plural, id(kind)) for kind, _ in kinds]) if any(not kind.builtin for kind, _ in kinds) else name
        )
        digest = hashlib.sha512(f"{VERSION[2]}:{text}".encode()).hexdigest().upper()
        return f"/openapi/v3/{name}?hash={digest}"

    async def _keep(self, name: str, documents: Sequence[str], make: Callable[[Kinds], bytes]) -> tuple[bytes, str]:
        """A document and its digest, made once however many ask for it at the same time."""
        async with self._making:
            kept = self._kept.get(name)
            if kept is None:
                revision = self._registry.revision
                kinds = [found for each in documents for found in self._discovery.kinds(*_split(each))]
                kept = await self._made(make, kinds)
                if revision == self._registry.revision:
                    self._kept[name] = kept
        return kept

    async def _made(self, make: Callable[[Kinds], bytes], kinds: Kinds) -> tuple[bytes, str]:
        if self._aside is None:
            return _with_digest(make, kinds)
        return await self._aside.run("openapi", _with_digest, make, kinds)

    async def _version_2(self, request: Request) -> Response:
        if "protobuf" in request.header("accept"):
            body, digest = await self._keep(
                "v2.pb", self._documents(), lambda kinds: encode_document(document_2(kinds))
            )
            content_type = PROTOBUF_V2
        else:
            body, digest = await self._keep("v2", self._documents(), lambda kinds: encode(document_2(kinds)))
            content_type = JSON
        etag = f'"{digest}"'
        if request.header("if-none-match") == etag:
            return Response(304, b"", "", (("Etag", etag),))
        return Response(200, body, content_type, (("Etag", etag), ("Vary", "Accept")))


def _with_digest(make: Callable[[Kinds], bytes], kinds: Kinds) -> tuple[bytes, str]:
    body = make(kinds)
    return body, hashlib.sha512(body).hexdigest().upper()


def _version_3(kinds: Kinds) -> bytes:
    """The version 3 document of the kinds of one group and version."""
    components, paths = _collect(kinds)
    return encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": ".".join(VERSION[:2])},
            "paths": dict(sorted(paths.items())),
            "components": {"schemas": dict(sorted(components.found.items()))},
        }
    )


def _collect(kinds: Kinds) -> tuple[Components, dict[str, Obj]]:
    """The schemas and paths of some kinds."""
    components = Components()
    paths: dict[str, Obj] = {}
    for kind, version in kinds:
        component = components.add_kind(kind, version)
        paths.update(_Operations(kind, version, component).paths())
    for extra in ("Status", "Patch", "DeleteOptions"):
        components.add(_META + extra)
    return components, paths


def document_2(kinds: Kinds) -> Obj:
    """The version 2 document of these kinds."""
    components, paths = _collect(kinds)
    convert = _Version2().schema
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": VERSION[2]},
        "paths": {path: _path_2(item) for path, item in sorted(paths.items())},
        "definitions": {name: convert(schema) for name, schema in sorted(components.found.items())},
    }


def _split(name: str) -> tuple[str, str]:
    parts = name.split("/")
    return ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])


class _Version2:
    """Schemas in the words of version 2. What is shared in version 3, such as pod templates, stays shared."""

    def __init__(self) -> None:
        self._known: dict[int, Obj] = {}

    def schema(self, schema: Obj) -> Obj:
        found = self._known.get(id(schema))
        if found is None:
            found = self._known[id(schema)] = {}
            for key, value in schema.items():
                self._add(found, key, value)
        return found

    def _add(self, found: Obj, key: str, value: Any) -> None:
        if key == "$ref":
            found["$ref"] = _V2 + str(value).rpartition("/")[2]
        elif key == "allOf" and len(value) == 1 and "$ref" in value[0]:
            found["$ref"] = _V2 + value[0]["$ref"].rpartition("/")[2]
        elif key in ("oneOf", "anyOf", "not", "nullable", "x-kubernetes-validations"):
            return  # version 2 has no words for these
        elif key == "properties":
            found[key] = {name: self.schema(item) for name, item in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            found[key] = self.schema(value)
        elif key == "allOf":
            found[key] = [self.schema(item) for item in value]
        else:
            found[key] = value


def _reference_2(schema: Obj) -> Obj:
    return {"$ref": _V2 + str(schema["$ref"]).rpartition("/")[2]}


def _path_2(item: Obj) -> Obj:
    return {
        method: [_parameter_2(each) for each in operation] if method == "parameters" else _operation_2(operation)
        for method, operation in item.items()
    }


def _operation_2(operation: Obj) -> Obj:
    found = {key: value for key, value in operation.items() if key not in ("parameters", "requestBody", "responses")}
    parameters = [_parameter_2(each) for each in operation["parameters"]]
    body = operation.get("requestBody")
    if body is not None:
        schema = next(iter(body["content"].values()))["schema"]
        parameters.insert(0, {"name": "body", "in": "body", "required": True, "schema": _reference_2(schema)})
        found["consumes"] = list(body["content"])
    found["produces"] = [JSON]
    found["parameters"] = parameters
    answer = operation["responses"]["200"]["content"][JSON]["schema"]
    found["responses"] = {"200": {"description": "OK", "schema": _reference_2(answer)}}
    return found


def _parameter_2(parameter: Obj) -> Obj:
    schema = parameter["schema"]
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **schema}
