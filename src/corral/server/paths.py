"""The URL grammar of the Kubernetes API: from method and path to what is being asked of which resource.

Pure and total: any path gives a `RequestInfo`, the way authorization needs it, before anything is known to exist.
"""

from __future__ import annotations

from typing import NamedTuple

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class RequestInfo(NamedTuple):
    """What a request is about. `is_resource` is False for paths such as /version, where only `path` and `verb` count."""

    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""  # what follows a subresource, as in .../services/web/proxy/index.html
    named: bool = False  # the path itself names an object; otherwise `name` may come from a field selector
    watched: bool = False  # by the old path, /watch/...


def parse(method: str, path: str, *, watch: bool = False, selected_name: str = "") -> RequestInfo:
    """Read `path`; `watch` and `selected_name` (a metadata.name field selector) come from the query."""
    parts = [part for part in path.split("/") if part]
    if parts and parts[0] == "api" and len(parts) > 2:
        return _resource(method, path, "", parts[1], parts[2:], watch, selected_name)
    if parts and parts[0] == "apis" and len(parts) > 3:
        return _resource(method, path, parts[1], parts[2], parts[3:], watch, selected_name)
    return RequestInfo(method.lower(), path)


def _resource(
    method: str, path: str, group: str, version: str, parts: list[str], watch: bool, selected_name: str
) -> RequestInfo:
    watched = parts[0] == "watch" and len(parts) > 1
    if watched:
        watch, parts = True, parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource = parts[0]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    named = bool(name)
    verb = "watch" if watched else _verb(method, name, watch)
    if not named and verb in ("list", "watch", "deletecollection"):
        name = selected_name
    rest = "/".join(parts[3:])
    return RequestInfo(verb, path, True, group, version, namespace, resource, name, subresource, rest, named, watched)


def _verb(method: str, name: str, watch: bool) -> str:
    if method in ("GET", "HEAD"):
        if watch:
            return "watch"
        return "get" if name else "list"
    if method == "DELETE" and not name:
        return "deletecollection"
    return _VERBS.get(method, method.lower())
