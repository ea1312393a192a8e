"""What the body of a request carries: the object, the patch or the options, and what they are meant to be."""

from __future__ import annotations

from typing import Any

from corral.core import errors
from corral.core.errors import BadRequest
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.machinery.decoding import DecodeError, decoder_of
from corral.server.content import bodies
from corral.server.content.go_json_errors import type_name
from corral.server.http.message import JSON, Request
from corral.server.served_resources import Served
from corral.server.verbs.options import WriteOptions

PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
MAX_PATCH_OPERATIONS = 10_000


def updated_resource(served: Served, subresource: str) -> Resource:
    """What the body of a write to a subresource is."""
    if subresource == "scale":
        return Resource("autoscaling", "v1", "scales", "Scale")
    return served.resource


def posted_resource(served: Served, subresource: str) -> Resource:
    """What a POST to a subresource carries."""
    declared = next((sub for sub in served.kind.subresources if sub.name == subresource), None)
    if declared is None:
        return served.resource
    return Resource(declared.group or served.kind.group, declared.version or served.version.name, "", declared.kind)


def check_posted(served: Served, posted: Resource, body: Obj) -> None:
    """Refuse a body that is not what the subresource takes: another kind or version, or fields of the wrong types."""
    if served.kind.builtin:
        check_types(posted, body)
    kind, version = body.get("kind") or posted.kind, body.get("apiVersion") or posted.api_version
    if kind == posted.kind and version in (posted.api_version, f"{posted.group}/v1beta1"):
        return
    if served.registry.find(version, kind) is not None:
        package = posted.group.partition(".")[0] or "core"
        name = version.rpartition("/")[2]
        why = f"converting ({name}.{kind}) to ({package}.{posted.kind}): unknown conversion"
    else:
        why = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
    raise BadRequest(f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {posted.kind}: {why}')


def check_types(resource: Resource, obj: Obj) -> None:
    """Refuse an object of Kubernetes' own whose fields do not have the types they should."""
    package = resource.group.partition(".")[0] or "core"
    try:
        decoder_of(f"{package}/{resource.version}.{resource.kind}")(obj, [])
    except DecodeError as error:
        kind = resource.kind
        raise BadRequest(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {error}') from None


def read_object(request: Request, resource: Resource, options: WriteOptions, *, typed: bool = True) -> Obj:
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


def read_options(request: Request) -> Obj | None:
    """DeleteOptions, if the request carries any."""
    if not request.body:
        return None
    resource = Resource("", "v1", "deleteoptions", "DeleteOptions")
    try:
        options = bodies.decode_object(request.body, request.headers.get("content-type", ""), resource)
    except BadRequest as error:
        # Options are refused without the words that frame an object's refusal.
        why = error.message.partition("(must be of type DeleteOptions): ")[2].rpartition(" (")[0]
        raise BadRequest(why or error.message) from error
    kind, version = options.get("kind") or "DeleteOptions", options.get("apiVersion") or "v1"
    if kind != "DeleteOptions":
        # Every group registers the options, none of them another kind.
        raise BadRequest(
            f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )
    return options


def read_patch(body: bytes, kind: str) -> Any:
    """The patch in the body, of the shape its kind has."""
    if kind == "apply":
        try:
            patch = bodies.decode_yaml(body)
        except ValueError as error:
            why = str(error).removeprefix("error converting YAML to JSON: ")
            raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {why}") from error
        patch = {} if patch is None else patch
        if not isinstance(patch, dict):
            why = f"json: cannot unmarshal {type_name(patch)} into Go value of type map[string]interface {{}}"
            raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
        return patch
    said = "" if kind == "strategic" else "error decoding patch: "
    try:
        patch = bodies.decode_json(body)
    except ValueError as error:
        raise BadRequest(f"{said}{error}") from error
    if patch is None:
        if kind == "merge":
            raise BadRequest("Invalid JSON Patch")
        return [] if kind == "json" else {}  # Go reads nothing into either, and changes nothing
    expected, name = (list, "[]handlers.jsonPatchOp") if kind == "json" else (dict, "map[string]interface {}")
    if not isinstance(patch, expected):
        raise BadRequest(f"{said}json: cannot unmarshal {type_name(patch)} into Go value of type {name}")
    for operation in patch if kind == "json" else ():
        if not isinstance(operation, dict | None):
            wrong = type_name(operation)
            raise BadRequest(f"{said}json: cannot unmarshal {wrong} into Go value of type handlers.jsonPatchOp")
    bodies.check_count(patch, len(body))
    if kind == "json" and len(patch) > MAX_PATCH_OPERATIONS:
        raise errors.TooLarge(
            f"Request entity too large: The allowed maximum operations in a JSON patch is {MAX_PATCH_OPERATIONS}, "
            f"got {len(patch)}"
        )
    return patch
