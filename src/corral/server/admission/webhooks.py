"""Admission webhooks as one plug-in: asks the servers that registered for a write, applies their patches, heeds their refusals.

Mutating webhooks are asked one after the other, in the order of their configurations' names; validating ones all at
once. Configurations take effect with the next write.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Container
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from corral.core.admission import AdmissionRequest
from corral.core.errors import ApiError, BadRequest, InternalError
from corral.core.meta import Obj
from corral.core.patch import json as patches
from corral.core.timestamps import format_duration
from corral.server.access.authentication import user_status
from corral.server.admission.match_conditions import Conditions
from corral.server.admission.webhook_rules import is_exempt, match_rules, namespace_matches, objects_match
from corral.server.extension.outcalls import Caller, CallFailed, check_status, resolve
from corral.server.served_resources import ServedResources
from corral.server.verbs.options import Random
from corral.store import Event, ObjectKey, Store

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Hook(NamedTuple):
    """One webhook of one configuration."""

    spec: Obj

    @property
    def name(self) -> str:
        return str(self.spec["name"])


class WebhookAnswer(NamedTuple):
    """What a webhook answered: the patch it wants, or why it refuses."""

    patch: list[Obj]
    refusal: ApiError | None


class Webhooks:
    """The plug-in. `serving` converts objects to the version a rule asks for."""

    name = "Webhooks"

    def __init__(
        self,
        store: Store,
        serving: ServedResources,
        random: Random,
        conditions: Conditions,
        caller: Caller,
        answered_here: Container[str] = (),
    ) -> None:
        """`answered_here` are the names of Services whose webhooks check what plug-ins of this server check themselves."""
        self._store = store
        self._serving = serving
        self._random = random
        self._conditions = conditions
        self._caller = caller
        self._answered_here = answered_here
        self._kept: dict[str, list[Hook]] = {}
        store.observe(self._changed)

    def _changed(self, event: Event) -> None:
        self._kept.pop(event.stored.key.resource, None)

    def _hooks(self, bucket: str) -> list[Hook]:
        hooks = self._kept.get(bucket)
        if hooks is None:
            hooks = self._kept[bucket] = [
                Hook(spec) for stored in self._store.scan(bucket) for spec in stored.obj.get("webhooks") or ()
            ]
        return hooks

    # the plug-in

    def handles(self, request: AdmissionRequest) -> bool:
        return bool(self._hooks(MUTATING) or self._hooks(VALIDATING)) and not is_exempt(request)

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        again: list[tuple[Hook, Obj | None]] = []
        for hook in self._hooks(MUTATING):
            request = await self._apply(hook, request)
            if hook.spec.get("reinvocationPolicy") == "IfNeeded":
                again.append((hook, request.obj))
        for hook, seen in again:
            if request.obj is not seen and request.obj != seen:
                request = await self._apply(hook, request)
        return request.obj

    async def _apply(self, hook: Hook, request: AdmissionRequest) -> AdmissionRequest:
        version = self._wanted_version(hook, request)
        if version is None:
            return request
        verdict = await self._ask(hook, request, version)
        if verdict.refusal is not None:
            raise verdict.refusal
        if not verdict.patch or request.obj is None:
            return request
        try:
            changed = patches.json_patch(await self._converted(request.obj, request, version), verdict.patch)
        except (ApiError, ValueError) as error:
            raise _failed(hook, f"failed to apply patch: {error}") from error
        return replace(request, obj=await self._converted(changed, request, request.resource.version))

    async def validate(self, request: AdmissionRequest) -> None:
        wanted = [(hook, self._wanted_version(hook, request)) for hook in self._hooks(VALIDATING)]
        asked = [self._ask(hook, request, version) for hook, version in wanted if version is not None]
        for verdict in await asyncio.gather(*asked):
            if verdict.refusal is not None:
                raise verdict.refusal

    # asking

    def _namespace(self, name: str) -> Obj | None:
        stored = self._store.get(ObjectKey("namespaces", "", name))
        return stored.obj if stored is not None else None

    def _wanted_version(self, hook: Hook, request: AdmissionRequest) -> str | None:
        """The version this webhook wants to see the object in; None when it does not want to see it."""
        spec = hook.spec
        found = match_rules(
            spec.get("rules") or [],
            request,
            lambda: self._versions(request),
            exact=spec.get("matchPolicy") == "Exact",
        )
        if found is None:
            return None
        if self._is_answered_here(spec.get("clientConfig") or {}):
            return None
        if not namespace_matches(spec.get("namespaceSelector"), request, self._namespace):
            return None
        if not objects_match(spec.get("objectSelector"), request):
            return None
        conditions = spec.get("matchConditions") or []
        if conditions and not self._conditions.all_true(conditions, request, self._fails(hook), hook.name):
            return None
        return found.version

    def _is_answered_here(self, config: Obj) -> bool:
        """Whatever its namespace: whoever installs such a project chooses that."""
        return (config.get("service") or {}).get("name") in self._answered_here

    def _versions(self, request: AdmissionRequest) -> list[str]:
        kind = self._serving.registry.get(request.resource.group, request.resource.plural)
        return [version.name for version in kind.served_versions] if kind is not None else []

    async def _converted(self, obj: Obj, request: AdmissionRequest, version: str) -> Obj:
        kind = self._serving.registry.get(request.resource.group, request.resource.plural)
        if kind is None or request.subresource:
            return obj
        return await self._serving.convert(kind, obj, version)

    @staticmethod
    def _fails(hook: Hook) -> bool:
        return str(hook.spec.get("failurePolicy") or "Fail") != "Ignore"

    async def _ask(self, hook: Hook, request: AdmissionRequest, version: str) -> WebhookAnswer:
        if request.dry_run and hook.spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
            return WebhookAnswer([], BadRequest(f'admission webhook "{hook.name}" does not support dry run'))
        uid = self._random.uid()
        try:
            response = await self._call(hook, await self._review(request, version, uid), uid)
        except CallFailed as error:
            if self._fails(hook):
                return WebhookAnswer([], _failed(hook, f"failed to call webhook: {error}"))
            return WebhookAnswer([], None)
        for warning in response.get("warnings") or ():
            request.warn(str(warning))
        if not response.get("allowed"):
            return WebhookAnswer([], _denied(hook, response.get("status") or {}))
        return WebhookAnswer(_patch_of(hook, response), None)

    async def _call(self, hook: Hook, review: Obj, uid: str) -> Obj:
        config = hook.spec.get("clientConfig") or {}
        seconds = int(hook.spec.get("timeoutSeconds") or 10)
        address = resolve(self._store, config, query=f"timeout={format_duration(seconds)}")
        mark = "&" if "?" in address.url else "?"
        reply = await self._caller.call(
            "POST",
            address,
            body=msgspec.json.encode(review),
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json",
                "User-Agent": "kube-apiserver-admission",
            },
            bundle=config.get("caBundle") or "",
            timeout_s=seconds,
            suffix=f"{mark}timeout={format_duration(seconds)}",
        )
        check_status(reply)
        try:
            answer = msgspec.json.decode(reply.body)
            response = answer["response"]
        except (msgspec.MsgspecError, ValueError, TypeError, KeyError) as error:
            raise CallFailed("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview") from error
        if not isinstance(response, dict) or response.get("uid") != uid:
            raise CallFailed(f'expected response.uid="{uid}"')
        return response

    async def _review(self, request: AdmissionRequest, version: str, uid: str) -> Obj:
        resource = request.resource
        kind = {"group": resource.group, "version": version, "kind": resource.kind}
        named = {"group": resource.group, "version": version, "resource": resource.plural}
        shown = request.obj or request.old or {}
        if request.subresource and shown.get("kind") and shown.get("kind") != resource.kind:
            group, _, shown_version = str(shown.get("apiVersion", "")).rpartition("/")
            kind = {"group": group, "version": shown_version, "kind": shown["kind"]}
        body: Obj = {
            "uid": uid,
            "kind": kind,
            "resource": named,
            "requestKind": {**kind, "version": resource.version if kind["kind"] == resource.kind else kind["version"]},
            "requestResource": {**named, "version": resource.version},
            "name": request.name,
            "namespace": request.namespace,
            "operation": request.operation,
            "userInfo": user_status(request.user),
            "object": await self._converted(request.obj, request, version) if request.obj is not None else None,
            "oldObject": await self._converted(request.old, request, version) if request.old is not None else None,
            "dryRun": request.dry_run,
            "options": {"kind": _OPTIONS.get(request.operation, "CreateOptions"), "apiVersion": "meta.k8s.io/v1"},
        }
        if request.subresource:
            body["subResource"] = body["requestSubResource"] = request.subresource
        if not request.namespace:
            del body["namespace"]
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": body}


def _patch_of(hook: Hook, response: Obj) -> list[Obj]:
    encoded = response.get("patch")
    if not encoded:
        return []
    try:
        operations: list[Obj] = msgspec.json.decode(base64.b64decode(encoded), type=list[dict[str, Any]])
    except (ValueError, msgspec.MsgspecError) as error:
        raise _failed(hook, f"invalid patch: {error}") from error
    return operations


def _failed(hook: Hook, why: str) -> InternalError:
    message = f'failed calling webhook "{hook.name}": {why}'
    return InternalError(f"Internal error occurred: {message}", details={"causes": [{"message": message}]})


def _denied(hook: Hook, status: Obj) -> ApiError:
    """The refusal of a webhook, with the code and reason it chose."""
    intro = f'admission webhook "{hook.name}" denied the request'
    message = status.get("message") or status.get("reason")
    text = f"{intro}: {message}" if message else f"{intro} without explanation"
    code = int(status.get("code") or 0)
    if not code:
        code = 403 if status.get("reason") in (None, "", "Forbidden") else 400
    details = status.get("details")
    reason = status.get("reason") or ("Forbidden" if code == 403 else "")
    return ApiError(text, code=max(code, 400), reason=str(reason), details=details)
