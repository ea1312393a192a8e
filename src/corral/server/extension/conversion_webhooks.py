"""Asking a conversion webhook: the review that is sent, and everything that can be wrong with the answer.

The words are those of a real server, because operators search for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from corral.core.errors import ApiError
from corral.core.meta import Obj
from corral.core.validation import check_annotations, check_labels, go_quote
from corral.kinds.machinery.definition import KindDef
from corral.server.content.go_json_errors import type_name
from corral.server.extension.outcalls import Caller, CallFailed, check_status, resolve
from corral.server.verbs.options import Random
from corral.store import Store

TIMEOUT_S = 30
_GROUP = "apiextensions.k8s.io"
_KNOWN = ("v1", "v1beta1")
_GO_TYPE = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_GO_NAMES = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}", type(None): "<nil>"}


class ConversionCalls:
    """Calls the webhooks that definitions name in `spec.conversion`."""

    def __init__(self, store: Store, random: Random, caller: Caller) -> None:
        self._store = store
        self._random = random
        self._caller = caller

    async def ask(self, kind: KindDef, objects: Sequence[Obj], api_version: str) -> list[Obj]:
        """`objects`, all of one version, in another one."""
        assert kind.conversion is not None
        webhook = kind.conversion["webhook"]
        version = next((each for each in webhook["conversionReviewVersions"] if each in _KNOWN), None)
        if version is None:
            raise _error("no supported conversion review versions")
        uid = self._random.uid()
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/{version}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": list(objects)},
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        subject = f"conversion webhook for {objects[0]['apiVersion']}, Kind={kind.kind}"
        try:
            answer = await self._call(webhook["clientConfig"], review)
            found = _converted(answer, uid, version)
        except (CallFailed, _Wrong) as error:
            raise _error(f"{subject} failed: {error}") from error
        if len(found) != len(objects):
            raise _error(f"{subject} returned {len(found)} objects, expected {len(objects)}")
        if len(objects) == 1:
            return [_checked(objects[0], found[0], api_version, subject, ("object at index 0", "object", "metadata"))]
        return [
            _checked(old, new, api_version, subject, _at_index(number))
            for number, (old, new) in enumerate(zip(objects, found, strict=True))
        ]

    async def _call(self, config: Obj, review: Obj) -> Obj:
        address = resolve(self._store, config, query=f"timeout={TIMEOUT_S}s")
        mark = "&" if "?" in address.url else "?"
        reply = await self._caller.call(
            "POST",
            address,
            body=msgspec.json.encode(review),
            headers={"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "kube-apiserver"},
            bundle=config.get("caBundle") or "",
            timeout_s=TIMEOUT_S,
            suffix=f"{mark}timeout={TIMEOUT_S}s",
        )
        check_status(reply)
        try:
            answer = msgspec.json.decode(reply.body)
        except msgspec.MsgspecError as error:
            raise _Wrong(f"couldn't get version/kind; json parse error: {error}") from error
        if not isinstance(answer, dict):
            why = f"json: cannot unmarshal {type_name(answer)} into Go value of type {_GO_TYPE}"
            raise _Wrong(f"couldn't get version/kind; json parse error: {why}")
        return answer


class _Wrong(Exception):
    """Something about an answer is not as it should be."""


def _error(message: str) -> ApiError:
    return ApiError(message, code=500, reason="")


def _at_index(number: int) -> tuple[str, str, str]:
    return (
        f"converted object at index {number}",
        f"converted object at index {number}",
        f"metadata in object at index {number}",
    )


def _converted(answer: Obj, uid: str, version: str) -> list[Any]:
    """The objects in a review that came back."""
    api_version, kind = answer.get("apiVersion") or "", answer.get("kind") or ""
    if kind != "ConversionReview" or api_version not in [f"{_GROUP}/{each}" for each in _KNOWN]:
        raise _Wrong(
            f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
        )
    if version == "v1" and api_version != f"{_GROUP}/v1":
        wanted, got = f"{_GROUP}/v1, Kind=ConversionReview", f"{api_version}, Kind={kind}"
        raise _Wrong(f"expected webhook response of {wanted}, got {got}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _Wrong("no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise _Wrong(f"expected response.uid={go_quote(uid)}, got {go_quote(str(response.get('uid') or ''))}")
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        status = result.get("status") or ""
        raise _Wrong(result.get("message") or f"response.result.status was '{status}', not 'Success'")
    found = response.get("convertedObjects")
    return found if isinstance(found, list) else []


def _checked(old: Obj, new: Any, api_version: str, subject: str, places: tuple[str, str, str]) -> Obj:
    """A converted object whose metadata, but for labels and annotations, is that of the original."""
    at, whole, meta = (f"{subject} returned invalid {place}" for place in places)
    new = new if isinstance(new, dict) else {}
    got, kind = new.get("apiVersion") or "", new.get("kind") or ""
    if got != api_version:
        raise _error(f"{at}: invalid groupVersion (expected {api_version}, received {got})")
    if kind != old["kind"]:
        raise _error(f"{at}: invalid kind (expected {old['kind']}, received {kind})")
    before, after = old["metadata"], new.get("metadata")
    shown = after if isinstance(after, dict) else {}
    for field, title in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        was, now = before.get(field) or "", shown.get(field) or ""
        if was != now:
            raise _error(f"{whole}: must have the same {title}: {was} != {now}")
    if not isinstance(after, dict):
        raise _error(f"{meta}: missing metadata in converted object")
    metadata = {key: value for key, value in before.items() if key not in ("labels", "annotations")}
    for field in ("labels", "annotations"):
        if after.get(field) is not None:
            try:
                metadata[field] = _strings(field, after[field], before.get(field))
            except _Wrong as error:
                raise _error(f"{meta}: {error}") from error
    return {**new, "metadata": metadata}


def _strings(field: str, value: Any, before: Any) -> dict[str, str]:
    """Labels or annotations that a webhook may have changed."""
    if not isinstance(value, dict):
        raise _Wrong(f"invalid metadata.{field} of type {_go_name(value)} in converted object")
    for key, text in value.items():
        if not isinstance(text, str):
            raise _Wrong(f"metadata.{field}[{key}] must be a string, but is {_go_name(text)} in converted object")
    if value == before:
        return value
    if field == "labels":
        causes = check_labels("metadata.labels", value)
    else:
        causes = check_annotations("metadata.annotation", value)
    if causes:
        said = [str(cause) for cause in causes]
        raise _Wrong(said[0] if len(said) == 1 else f"[{', '.join(said)}]")
    return value


def _go_name(value: Any) -> str:
    return _GO_NAMES.get(type(value), "map[string]interface {}")
