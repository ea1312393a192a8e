"""What `resourceVersion`, `resourceVersionMatch` and `continue` mean, and how a server refuses them."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import msgspec

from corral.core import errors, validation
from corral.core.errors import ApiError, BadRequest, Cause, Expired, Timeout
from corral.core.meta import Obj
from corral.server.content.go_json_errors import syntax_error

_MAX = (1 << 64) - 1


def parse(text: str) -> int:
    """The revision written in `text`; "" is 0. Raises ValueError with Go's words."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        raise ValueError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    if int(text) > _MAX:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def parse_list(text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise BadRequest(f'invalid resource version: resourceVersion: Invalid value: "{text}": {error}') from None


def parse_watch(text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise ApiError(f'resourceVersion: Invalid value: "{text}": {error}', code=500, reason="") from None


def too_large(wanted: int, current: int) -> Timeout:
    message = "Too large resource version"
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": message}], "retryAfterSeconds": 1}
    return Timeout(f"Timeout: {message}: {wanted}, current: {current}", details=details)


def too_old_list() -> Expired:
    return Expired("The resourceVersion for the provided list is too old.")


def too_old_watch(wanted: int, oldest: int) -> Expired:
    return Expired(f"too old resource version: {wanted} ({oldest})")


def check_match(
    resource_version: str, match: str, *, watch: bool, initial: bool | None, continued: bool = False
) -> None:
    """Refuse combinations that mean nothing."""
    causes: list[Cause] = []
    path = "resourceVersionMatch"
    if watch:
        if match and initial is None:
            causes.append(
                validation.forbidden(
                    path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        if initial is not None and match != "NotOlderThan":
            causes.append(
                validation.forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
            )
        if match and match != "NotOlderThan":
            causes.append(validation.not_supported(path, match, ["NotOlderThan"]))
    elif match:
        if continued:
            causes.append(validation.forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if not resource_version:
            causes.append(
                validation.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if match not in ("Exact", "NotOlderThan"):
            causes.append(validation.not_supported(path, match, ["Exact", "NotOlderThan", ""]))
        if match == "Exact" and resource_version == "0":
            causes.append(
                validation.forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
            )
    if causes:
        raise errors.invalid("ListOptions", "", causes, group="meta.k8s.io")


class Continue(NamedTuple):
    """Where a page starts: behind `after`, at `revision` (-1: whatever is current)."""

    revision: int
    after: tuple[str, str]


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


def encode_continue(revision: int, after: tuple[str, str], namespace: str) -> str:
    """An opaque token; it names the key a list of `namespace` goes on behind."""
    space, name = after
    start = f"/{name}\0" if namespace or not space else f"{space}/{name}\0"
    return _encode(revision, start)


def _encode(revision: int, start: str) -> str:
    raw = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, start))
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_continue(token: str, namespace: str) -> Continue:
    """The place a token stands for; raises BadRequest."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad(f"illegal base64 data at input byte {_first_bad(token)}") from None
    try:
        found = msgspec.json.decode(raw, type=_Token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _bad(syntax_error(raw)) from None
    if found.v != "meta.k8s.io/v1":
        raise BadRequest(
            f'invalid continue token: continue key is not valid: server does not recognize this encoded version "{found.v}"'
        )
    if not found.start:
        raise _bad("encoded start key empty (version meta.k8s.io/v1)")
    key = found.start.rstrip("\0")
    space, _, name = key.rpartition("/")
    if ".." in key.split("/") or not name or "/" in space:
        raise _bad(found.start)
    return Continue(found.rv, (namespace or space, name))


class ContinueExpired(Expired):
    """A token's snapshot is gone; the answer carries a token for an inconsistent continuation."""

    def __init__(self, after: tuple[str, str], namespace: str):
        super().__init__(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
            "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
            "modified, or deleted between the time the first chunk was returned and now may show up in the list."
        )
        start = after[1] if namespace or not after[0] else "/".join(after)
        self._token = _encode(-1, start + "\0")

    @property
    def status(self) -> Obj:
        return {**super().status, "metadata": {"continue": self._token}}


def _bad(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid: {why}")


def _first_bad(token: str) -> int:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return next((position for position, char in enumerate(token) if char not in alphabet), len(token))
