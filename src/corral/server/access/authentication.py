"""Who is asking: client certificates, bearer tokens (static ones and those of service accounts), impersonation.

A request without credentials is `system:anonymous`, who may see health and version and nothing else.
"""

from __future__ import annotations

import csv
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from urllib.parse import unquote

from corral.core.admission import ANONYMOUS, UserInfo
from corral.core.errors import BadRequest, Unauthorized
from corral.core.meta import Obj, is_deleting, uid_of
from corral.runtime import secrets
from corral.server.access.authorization import Authorizer
from corral.server.access.certificates import write_private
from corral.server.access.rbac import Attributes
from corral.server.access.tokens import ISSUER, Claims, InvalidToken, Signer, read_claims
from corral.server.http.message import Request
from corral.store import Event, ObjectKey, Store

AUTHENTICATED = "system:authenticated"
API_AUDIENCES = (ISSUER,)
ADMIN = UserInfo("kubernetes-admin", ("system:masters",))
_SERVICE_ACCOUNT = "system:serviceaccount:"
_REMEMBERED = 4096
_RECHECK_S = 10.0
_BOUND = frozenset({"serviceaccounts", "pods", "secrets"})


def authenticated(user: UserInfo) -> UserInfo:
    """`user` with the group everybody known is in."""
    if AUTHENTICATED in user.groups:
        return user
    return UserInfo(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)


def service_account_user(claims: Claims) -> UserInfo:
    """The user a service account token stands for."""
    extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims.token_id}"]}
    if claims.bound_kind == "pod":
        extra["authentication.kubernetes.io/pod-name"] = [claims.bound_name]
        extra["authentication.kubernetes.io/pod-uid"] = [claims.bound_uid]
    if claims.node_name:
        extra["authentication.kubernetes.io/node-name"] = [claims.node_name]
        extra["authentication.kubernetes.io/node-uid"] = [claims.node_uid]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{claims.namespace}", AUTHENTICATED)
    return UserInfo(f"{_SERVICE_ACCOUNT}{claims.namespace}:{claims.name}", groups, claims.uid, extra)


class Authenticator:
    """Turns credentials into users. `now` gives the time in epoch seconds."""

    def __init__(
        self, store: Store, signer: Signer, now: Callable[[], float], static: Mapping[str, UserInfo] | None = None
    ) -> None:
        self._store = store
        self.signer = signer
        self._now = now
        self._static = {token: authenticated(user) for token, user in (static or {}).items()}
        self._known: dict[str, tuple[UserInfo, float]] = {}
        store.observe(self._changed)

    def _changed(self, event: Event) -> None:
        """A token ends with the account or object it is bound to."""
        if event.type == "DELETED" and event.stored.key.resource in _BOUND:
            self._known.clear()

    def add_token(self, token: str, user: UserInfo) -> None:
        """Accept a static token from now on."""
        self._static[token] = authenticated(user)

    def identify(self, request: Request) -> UserInfo:
        """The user behind a request; Unauthorized when its credentials are no good."""
        if request.peer is not None:
            return authenticated(request.peer)
        header = request.headers.get("authorization")
        token = _bearer(header) if header else _websocket_token(request)
        if not token:
            return ANONYMOUS
        user = self._static.get(token)
        return user if user is not None else self._account(token)

    def _account(self, token: str) -> UserInfo:
        now = self._now()
        known = self._known.get(token)
        if known is not None and known[1] > now:
            return known[0]
        try:
            user, claims = self.review(token, API_AUDIENCES)
        except InvalidToken as error:
            self._known.pop(token, None)
            raise Unauthorized("Unauthorized") from error
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[token] = (user, min(now + _RECHECK_S, claims.expires if claims is not None else now + _RECHECK_S))
        return user

    def review(self, token: str, audiences: tuple[str, ...]) -> tuple[UserInfo, Claims | None]:
        """The user of a token meant for one of `audiences`; InvalidToken otherwise."""
        static = self._static.get(token)
        if static is not None:
            if not set(audiences) & set(API_AUDIENCES):
                raise InvalidToken("token is for another audience")
            return static, None
        claims = read_claims(self.signer.verify(token), self._now())
        if not set(audiences) & set(claims.audiences):
            raise InvalidToken("token is for another audience")
        self._check_alive("serviceaccounts", claims.namespace, claims.name, claims.uid)
        if claims.bound_kind:
            self._check_alive(claims.bound_kind + "s", claims.namespace, claims.bound_name, claims.bound_uid)
        return service_account_user(claims), claims

    def _check_alive(self, resource: str, namespace: str, name: str, uid: str) -> None:
        stored = self._store.get(ObjectKey(resource, namespace, name))
        if stored is None or uid_of(stored.obj) != uid:
            raise InvalidToken(f"{resource} {namespace}/{name} is gone")
        if is_deleting(stored.obj) and resource != "pods":
            raise InvalidToken(f"{resource} {namespace}/{name} is being deleted")


def _bearer(header: str) -> str:
    scheme, _, token = header.strip().partition(" ")
    if scheme.lower() != "bearer":
        return ""
    if not token.strip():
        raise Unauthorized("Unauthorized")
    return token.strip()


def _websocket_token(request: Request) -> str:
    """Browsers cannot set headers on WebSockets, so the token may come as a subprotocol."""
    offered = request.headers.get("sec-websocket-protocol")
    if not offered:
        return ""
    prefix = "base64url.bearer.authorization.k8s.io."
    for name in offered.split(","):
        if name.strip().startswith(prefix):
            encoded = name.strip().removeprefix(prefix)
            try:
                return urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
            except ValueError as error:
                raise Unauthorized("Unauthorized") from error
    return ""


def impersonated(request: Request, user: UserInfo, authorizer: Authorizer) -> UserInfo:
    """The user a request acts as: who is asking, unless they may and do impersonate somebody else."""
    name = request.headers.get("impersonate-user", "")
    groups = request.all_headers("impersonate-group")
    uid = request.headers.get("impersonate-uid", "")
    extras = [(key, value) for key, value in request.fields if key.startswith("impersonate-extra-")]
    if not name:
        if groups or uid or extras:
            raise BadRequest("requested impersonation of groups, uid or extras without impersonating a user")
        return user
    _require_user(name, user, authorizer)
    for group in groups:
        authorizer.require(user, Attributes("impersonate", resource="groups", name=group))
    if uid:
        wanted = Attributes("impersonate", "authentication.k8s.io", "uids", name=uid)
        authorizer.require(user, wanted)
    extra: dict[str, list[str]] = {}
    for key, value in extras:
        field = unquote(key.removeprefix("impersonate-extra-"))
        wanted = Attributes("impersonate", "authentication.k8s.io", "userextras", field, name=value)
        authorizer.require(user, wanted)
        extra.setdefault(field, []).append(value)
    return UserInfo(name, _groups_of(name, groups), uid, extra)


def _require_user(name: str, user: UserInfo, authorizer: Authorizer) -> None:
    if name.startswith(_SERVICE_ACCOUNT):
        namespace, _, account = name.removeprefix(_SERVICE_ACCOUNT).partition(":")
        wanted = Attributes("impersonate", resource="serviceaccounts", namespace=namespace, name=account)
    else:
        wanted = Attributes("impersonate", resource="users", name=name)
    authorizer.require(user, wanted)


def _groups_of(name: str, groups: list[str]) -> tuple[str, ...]:
    if not groups and name.startswith(_SERVICE_ACCOUNT):
        namespace = name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if name == ANONYMOUS.name:
        return tuple(dict.fromkeys([*groups, *ANONYMOUS.groups]))
    return tuple(dict.fromkeys([*groups, AUTHENTICATED]))


def user_status(user: UserInfo) -> Obj:
    """A user as reviews show it."""
    shown: Obj = {"username": user.name}
    if user.uid:
        shown["uid"] = user.uid
    if user.groups:
        shown["groups"] = list(user.groups)
    if user.extra:
        shown["extra"] = user.extra
    return shown


def read_token_file(text: str) -> dict[str, UserInfo]:
    """Static tokens in the CSV form Kubernetes uses: token,user,uid,"group1,group2"."""
    tokens = {}
    for row in csv.reader(StringIO(text)):
        if len(row) >= 2 and row[0].strip():
            groups = tuple(name.strip() for name in (row[3].split(",") if len(row) > 3 else ()) if name.strip())
            tokens[row[0].strip()] = UserInfo(row[1].strip(), groups, row[2].strip() if len(row) > 2 else "")
    return tokens


def load_tokens(directory: Path | None) -> dict[str, UserInfo]:
    """The static tokens kept in `directory`; at first use one for the administrator is made."""
    path = directory / "tokens.csv" if directory is not None else None
    if path is not None and path.exists():
        return read_token_file(path.read_text())
    token = secrets.token()
    if path is not None:
        write_private(path, f'{token},{ADMIN.name},,"{",".join(ADMIN.groups)}"\n'.encode())
    return {token: ADMIN}
