"""Reviews: questions about tokens and permissions, answered and not stored; and tokens for service accounts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from corral.core import errors, validation
from corral.core.admission import UserInfo
from corral.core.errors import BadRequest, Cause, Conflict, Invalid
from corral.core.meta import Obj, uid_of
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS, SERVICE_ACCOUNTS
from corral.server.access.authentication import API_AUDIENCES, Authenticator, user_status
from corral.server.access.authorization import Authorizer
from corral.server.access.rbac import Attributes
from corral.server.access.tokens import LONGEST_S, MAX_SECONDS, MIN_SECONDS, InvalidToken, claims_for
from corral.server.verbs.options import Clock, Random, WriteOptions
from corral.store import ObjectKey, Store

Review = Callable[[UserInfo, str, Obj], Awaitable[Obj]]
_AUTHORIZATION = "authorization.k8s.io"


def _invalid(causes: list[Cause]) -> Invalid:
    error = errors.invalid("", "", causes, _AUTHORIZATION)
    error.details = {name: value for name, value in (error.details or {}).items() if value}
    return error


def _attributes(spec: Obj, namespace: str = "") -> Attributes:
    """What an access review asks about; exactly one of its two kinds of attributes must be there."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        if resource is not None:
            detail = "cannot be specified in combination with resourceAttributes"
            shown = {"Path": (path or {}).get("path", ""), "Verb": (path or {}).get("verb", "")}
            raise _invalid([validation.invalid("spec.nonResourceAttributes", shown, detail)])
        raise _invalid([validation.invalid("spec.resourceAttributes", None, detail)])
    if path is not None:
        return Attributes(str(path.get("verb") or ""), path=str(path.get("path") or ""))
    assert isinstance(resource, dict)
    return Attributes(
        str(resource.get("verb") or ""),
        str(resource.get("group") or ""),
        str(resource.get("resource") or ""),
        str(resource.get("subresource") or ""),
        str(resource.get("namespace") or namespace),
        str(resource.get("name") or ""),
    )


def _user_of(spec: Obj) -> UserInfo:
    extra: dict[str, list[str]] = spec.get("extra") or {}
    return UserInfo(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)


class Reviews:
    """Answers reviews and issues tokens."""

    def __init__(
        self, store: Store, authenticator: Authenticator, authorizer: Authorizer, clock: Clock, random: Random
    ) -> None:
        self._store = store
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._clock = clock
        self._random = random
        self.by_resource: dict[str, Review] = {
            "selfsubjectaccessreviews.authorization.k8s.io": self.self_access,
            "subjectaccessreviews.authorization.k8s.io": self.access,
            "localsubjectaccessreviews.authorization.k8s.io": self.local_access,
            "selfsubjectrulesreviews.authorization.k8s.io": self.rules,
            "selfsubjectreviews.authentication.k8s.io": self.self_review,
            "tokenreviews.authentication.k8s.io": self.token,
        }

    def _answer(self, review: Obj, status: Obj, spec: Obj | None = None) -> Obj:
        metadata = {"creationTimestamp": None, **(review.get("metadata") or {})}
        answered = {"kind": review["kind"], "apiVersion": review["apiVersion"], "metadata": metadata}
        if spec is not None:
            answered["spec"] = spec
        return {**answered, "status": status}

    # permissions

    async def self_access(self, user: UserInfo, namespace: str, review: Obj) -> Obj:
        spec = review.get("spec") or {}
        return self._answer(review, self._decide(user, _attributes(spec)), spec)

    async def access(self, user: UserInfo, namespace: str, review: Obj) -> Obj:
        spec = review.get("spec") or {}
        wanted = _attributes(spec)
        if not spec.get("user") and not spec.get("groups"):
            detail = "at least one of user or group must be specified"
            raise _invalid([validation.invalid("spec.user", "", detail)])
        return self._answer(review, self._decide(_user_of(spec), wanted), spec)

    async def local_access(self, user: UserInfo, namespace: str, review: Obj) -> Obj:
        spec = review.get("spec") or {}
        wanted = _attributes(spec, namespace)
        if wanted.namespace != namespace:
            detail = "must match metadata.namespace"
            raise _invalid([validation.invalid("spec.resourceAttributes.namespace", wanted.namespace, detail)])
        return self._answer(review, self._decide(_user_of(spec), wanted), spec)

    def _decide(self, user: UserInfo, wanted: Attributes) -> Obj:
        if self._authorizer.allowed(user, wanted):
            why = self._authorizer.why(user, wanted)
            return {"allowed": True, "reason": why} if why else {"allowed": True}
        return {"allowed": False, "reason": ""} if not wanted.resource else {"allowed": False}

    async def rules(self, user: UserInfo, namespace: str, review: Obj) -> Obj:
        spec = review.get("spec") or {}
        space = spec.get("namespace") or ""
        if not space:
            raise BadRequest("no namespace on request")
        rules = self._authorizer.rules(user, space)
        resource_rules = [_resource_rule(rule) for rule in rules if rule.get("resources")]
        path_rules = [
            {"verbs": list(rule["verbs"]), "nonResourceURLs": list(rule["nonResourceURLs"])}
            for rule in rules
            if rule.get("nonResourceURLs")
        ]
        status = {"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": False}
        return self._answer(review, status, {})

    # identities

    async def self_review(self, user: UserInfo, namespace: str, review: Obj) -> Obj:
        metadata = {"creationTimestamp": self._clock.timestamp(), **(review.get("metadata") or {})}
        return self._answer({**review, "metadata": metadata}, {"userInfo": user_status(user)})

    async def token(self, user: UserInfo, namespace: str, review: Obj) -> Obj:
        spec = review.get("spec") or {}
        token = spec.get("token") or ""
        if not token:
            raise BadRequest("token is required for TokenReview in authentication")
        wanted = tuple(spec.get("audiences") or API_AUDIENCES)
        try:
            found, claims = self._authenticator.review(token, wanted)
        except InvalidToken as error:
            return self._answer(review, {"user": {}, "error": f"[invalid bearer token, {error}]"}, spec)
        meant_for = API_AUDIENCES if claims is None else claims.audiences
        audiences = tuple(name for name in wanted if name in meant_for)
        status: Obj = {"authenticated": True, "user": user_status(found), "audiences": list(audiences)}
        return self._answer(review, status, spec)

    async def request_token(self, user: UserInfo, namespace: str, name: str, body: Obj, options: WriteOptions) -> Obj:
        """The token subresource of a service account."""
        account = self._require(SERVICE_ACCOUNTS, namespace, name)
        spec = body.get("spec") or {}
        seconds = spec.get("expirationSeconds") or 3600
        _check_lifetime(seconds)
        seconds = min(int(seconds), LONGEST_S)
        audiences = spec.get("audiences") or list(API_AUDIENCES)
        bound, node = self._bound(namespace, spec.get("boundObjectRef"))
        now = self._clock.now()
        claims = claims_for(account, audiences, now, seconds, self._random.uid(), bound, node)
        token = self._authenticator.signer.sign(claims)
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": self._clock.timestamp()},
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": token, "expirationTimestamp": format_time(now + seconds)},
        }

    def _require(self, resource: Resource, namespace: str, name: str) -> Obj:
        stored = self._store.get(ObjectKey(resource.group_resource, namespace, name))
        if stored is None:
            raise errors.not_found(resource, name)
        return stored.obj

    def _bound(self, namespace: str, reference: Obj | None) -> tuple[Obj | None, Obj | None]:
        """The object a token is tied to, and the node of that object if it is a pod."""
        if not reference:
            return None, None
        kinds = {"Pod": PODS, "Secret": SECRETS}
        resource = kinds.get(reference.get("kind") or "")
        if resource is None:
            raise BadRequest(
                f"cannot bind token to object of type {reference.get('apiVersion')}, Kind={reference.get('kind')}"
            )
        obj = self._require(resource, namespace, reference.get("name") or "")
        wanted = reference.get("uid")
        if wanted and wanted != uid_of(obj):
            why = f"the UID in the bound object reference ({wanted}) does not match the UID in record. "
            raise Conflict(
                f'Operation cannot be fulfilled on {resource.plural} "{reference.get("name")}": {why}'
                "The object might have been deleted and then recreated",
            )
        node_name = (obj.get("spec") or {}).get("nodeName") if resource is PODS else None
        node = self._store.get(ObjectKey("nodes", "", node_name)) if node_name else None
        return {"kind": resource.kind, **obj}, node.obj if node is not None else None


def _check_lifetime(seconds: Any) -> None:
    cause = None
    if not isinstance(seconds, int) or seconds < MIN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        cause = validation.invalid("spec.expirationSeconds", seconds, detail)
    elif seconds > MAX_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        cause = validation.invalid("spec.expirationSeconds", seconds, detail)
    if cause is not None:
        raise errors.invalid("TokenRequest", "", [cause], "authentication.k8s.io")


def _resource_rule(rule: Obj) -> Obj:
    shown: Obj = {
        "verbs": list(rule["verbs"]),
        "apiGroups": list(rule.get("apiGroups") or ()),
        "resources": list(rule["resources"]),
    }
    if rule.get("resourceNames"):
        shown["resourceNames"] = list(rule["resourceNames"])
    return shown
