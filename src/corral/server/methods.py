"""Which methods a path takes, and how the others are refused."""

from __future__ import annotations

from corral.core import errors
from corral.core.errors import MethodNotAllowed, NotFound
from corral.server.paths import RequestInfo
from corral.server.served_resources import Served


def not_served() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def check_method(method: str, info: RequestInfo, served: Served) -> None:
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
        if not served.kind.builtin and method in ("GET", "HEAD", "PUT", "PATCH"):
            raise errors.not_found(served.resource, info.name)
        raise not_served()
    if info.verb not in declared.verbs:
        raise not_allowed()
