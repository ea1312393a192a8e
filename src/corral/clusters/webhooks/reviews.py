"""Reviews: what an API server asks a webhook, answered by the plug-ins an embedded cluster runs in its own process.

A refusal says only what the plug-in says about the object; which webhook refused it the API server puts before that.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from corral.core.admission import AdmissionRequest, UserInfo
from corral.core.errors import ApiError, BadRequest
from corral.core.meta import Obj
from corral.core.patch.difference import json_patch_between
from corral.core.resource import Resource
from corral.kinds.machinery.definition import KindDef
from corral.server.admission.chain import Chain

ADMISSION = ("AdmissionReview", "admission.k8s.io/v1")
CONVERSION = ("ConversionReview", "apiextensions.k8s.io/v1")
SOMEWHERE = "somewhere"
"""A namespace that is special to no plug-in; `default` is, to some."""


class AdmissionReviews:
    """Answers about writes. `chain` gives the plug-ins in force."""

    def __init__(self, chain: Callable[[], Chain]) -> None:
        self._chain = chain

    async def mutate(self, review: Obj) -> Obj:
        """The patch that the plug-ins make of the object."""
        asked = _asked(review, ADMISSION)
        warnings: list[str] = []
        request = admission_request(asked, warnings.append)
        try:
            changed, _ = await self._chain().mutate(request)
        except ApiError as error:
            return _refused(asked, error, warnings)
        operations = json_patch_between(request.obj, changed) if changed is not request.obj else []
        answer: Obj = {"allowed": True}
        if operations:
            answer["patchType"] = "JSONPatch"
            answer["patch"] = base64.b64encode(msgspec.json.encode(operations)).decode()
        return _answered(asked, answer, warnings)

    async def validate(self, review: Obj) -> Obj:
        """Whether the plug-ins let the object pass."""
        asked = _asked(review, ADMISSION)
        warnings: list[str] = []
        try:
            await self._chain().validate(admission_request(asked, warnings.append))
        except ApiError as error:
            return _refused(asked, error, warnings)
        return _answered(asked, {"allowed": True}, warnings)


def admission_request(asked: Obj, warn: Callable[[str], None]) -> AdmissionRequest:
    """The request of a review as plug-ins see it."""
    kind, resource, user = asked["kind"], asked["resource"], asked.get("userInfo") or {}
    namespace = asked.get("namespace") or ""
    return AdmissionRequest(
        operation=asked["operation"],
        resource=Resource(
            resource.get("group") or "", resource["version"], resource["resource"], kind["kind"], bool(namespace)
        ),
        subresource=asked.get("subResource") or "",
        namespace=namespace,
        name=asked.get("name") or "",
        user=UserInfo(
            user.get("username") or "",
            tuple(user.get("groups") or ()),
            user.get("uid") or "",
            user.get("extra") or {},
        ),
        obj=asked.get("object"),
        old=asked.get("oldObject"),
        dry_run=bool(asked.get("dryRun")),
        warn=warn,
    )


def _asked(review: Obj, expected: tuple[str, str]) -> Obj:
    kind, api_version = expected
    asked = review.get("request")
    if review.get("kind") != kind or review.get("apiVersion") != api_version or not isinstance(asked, dict):
        raise BadRequest(f"expected a {kind} of {api_version} with a request in it")
    return asked


def _answered(asked: Obj, answer: Obj, warnings: list[str]) -> Obj:
    kind, api_version = ADMISSION
    warned: Obj = {"warnings": warnings} if warnings else {}
    return {"kind": kind, "apiVersion": api_version, "response": {"uid": asked["uid"], **answer, **warned}}


def _refused(asked: Obj, error: ApiError, warnings: list[str]) -> Obj:
    said = {**error.status, "message": _without_introduction(error.message)}
    return _answered(asked, {"allowed": False, "status": said}, warnings)


def _without_introduction(message: str) -> str:
    """What is wrong, without the words by which a server introduces it."""
    introduction, found, said = message.partition(" denied the request: ")
    return said if found and introduction.startswith('admission webhook "') else message


class ConversionReviews:
    """Answers in which version an object looks how. `kinds` are found by (group, kind)."""

    def __init__(self, kinds: Mapping[tuple[str, str], KindDef]) -> None:
        self._kinds = kinds

    def convert(self, review: Obj) -> Obj:
        """The objects of a review in the version that is asked for, all or none."""
        asked = _asked(review, CONVERSION)
        try:
            converted = [self._converted(obj, str(asked["desiredAPIVersion"])) for obj in asked.get("objects") or ()]
            answer: Obj = {"convertedObjects": converted, "result": {"status": "Success"}}
        except ApiError as error:
            answer = {"result": {"status": "Failure", "message": error.message}}
        kind, api_version = CONVERSION
        return {"kind": kind, "apiVersion": api_version, "response": {"uid": asked["uid"], **answer}}

    def _converted(self, obj: Any, wanted: str) -> Obj:
        group, _, version = wanted.rpartition("/")
        kind = self._kinds.get((group, str(obj.get("kind"))))
        if kind is None or kind.version(version) is None:
            raise BadRequest(f"there is no conversion of {obj.get('apiVersion')} {obj.get('kind')} to {wanted}")
        return kind.at_version(obj, version)


def probe(resource: Resource, operation: str, subresource: str = "") -> AdmissionRequest:
    """A write nobody makes, to ask a plug-in whether it looks at writes of this kind."""
    namespace = SOMEWHERE if resource.namespaced else ""
    return AdmissionRequest(operation, resource, subresource, namespace, "", UserInfo(""), None, None)
