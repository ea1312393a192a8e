"""API errors: what a Kubernetes server answers with when it does not do what was asked.

The class of an error says how to handle it; its status is the exact Status object on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from corral.core.meta import Obj

if TYPE_CHECKING:
    from corral.core.resource import Resource  # which refuses parts of paths with these errors


class Cause(NamedTuple):
    """One thing wrong with one field."""

    reason: str
    message: str
    field: str

    def as_dict(self) -> Obj:
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ApiError(Exception):
    """An answer other than success. Subclasses fix code and reason."""

    code: int = 500
    reason: str = "InternalError"

    def __init__(self, message: str, *, details: Obj | None = None, code: int | None = None, reason: str | None = None):
        super().__init__(message)
        self.message = message
        self.details = details
        if code is not None:
            self.code = code
        if reason is not None:
            self.reason = reason

    @property
    def status(self) -> Obj:
        """The Status object a server sends for this error."""
        body: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body

    @property
    def causes(self) -> list[Obj]:
        return (self.details or {}).get("causes") or []

    @staticmethod
    def from_status(status: Obj, code: int = 0) -> ApiError:
        """The error a Status object stands for, of the matching subclass."""
        reason = str(status.get("reason") or "")
        code = int(status.get("code") or code or 500)
        kind = _BY_REASON.get(reason) or _BY_CODE.get(code) or ApiError
        message = str(status.get("message") or reason or code)
        return kind(message, details=status.get("details"), code=code, reason=reason)


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class Expired(ApiError):
    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"

    @property
    def retry_after_s(self) -> float | None:
        """How long the server asks to be left alone, where it says so."""
        asked = (self.details or {}).get("retryAfterSeconds")
        return max(float(asked), 0.0) if isinstance(asked, int | float) and asked else None


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    code, reason = 504, "Timeout"


class ConnectionFailed(ServiceUnavailable):
    """The server could not be reached or did not answer in time; the request may or may not have been carried out."""


class LimitExceeded(ConnectionFailed):
    """The server answered with more than is taken in from anybody: asking again would bring the same."""


_CLASSES: tuple[type[ApiError], ...] = (
    BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, AlreadyExists, Conflict, Expired,
    TooLarge, UnsupportedMediaType, Invalid, TooManyRequests, InternalError, ServiceUnavailable, Timeout,
)  # fmt: skip
_BY_REASON: dict[str, type[ApiError]] = {kind.reason: kind for kind in _CLASSES} | {"Gone": Expired}
_BY_CODE: dict[int, type[ApiError]] = {kind.code: kind for kind in reversed(_CLASSES)} | {409: Conflict}


def _details(resource: Resource, name: str) -> Obj:
    details: Obj = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.group_resource} "{name}" not found', details=_details(resource, name))


def already_exists(resource: Resource, name: str) -> AlreadyExists:
    return AlreadyExists(f'{resource.group_resource} "{name}" already exists', details=_details(resource, name))


def conflict(resource: Resource, name: str, why: str = "") -> Conflict:
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {resource.group_resource} "{name}": {why}'
    return Conflict(message, details=_details(resource, name))


def forbidden(resource: Resource, name: str, why: str) -> Forbidden:
    message = f'{resource.group_resource} "{name}" is forbidden: {why}'
    return Forbidden(message, details=_details(resource, name))


def invalid(kind: str, name: str, causes: Sequence[Cause], group: str = "") -> Invalid:
    """A 422 that lists every cause, in the words of a real server."""
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    subject = f"{kind}.{group}" if group else kind
    details: Obj = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = kind
    details["causes"] = [cause.as_dict() for cause in causes]
    return Invalid(f'{subject} "{name}" is invalid: {joined}', details=details)
