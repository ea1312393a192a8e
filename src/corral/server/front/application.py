"""What a front process answers itself and what it hands on.

A front is an API server over a replica: it authenticates, authorizes, decodes, admits, checks, and writes through to the owner.
It answers nothing until its replica has come as far as anybody has been told, so that it makes no difference to a client which
process he talks to. What lives in the owner's process alone (pods and their streams, virtual kinds, aggregated APIs), what is
rarely asked, and what may not be decided in two processes at once, is handed on as a whole.
"""

from __future__ import annotations

from typing import Any, Protocol

from corral.core.admission import UserInfo
from corral.core.errors import ApiError, ServiceUnavailable
from corral.server.app import App
from corral.server.front.forwarding import ToOwner
from corral.server.http.message import Answer, Request, Response
from corral.server.paths import RequestInfo
from corral.server.served_resources import Served
from corral.server.verbs import revisions
from corral.server.verbs.options import Warnings
from corral.store import Homeless, StoreError
from corral.store.replica import Replica

_READS = ("GET", "HEAD")
_WRITES = ("POST", "PUT", "PATCH")
_OWN_SUBRESOURCES = ("", "status", "scale")
_QUOTAS = "resourcequotas"

OWNERS_KINDS = frozenset(
    {
        "services",  # share pools of addresses and ports
        "serviceaccounts",
        "resourcequotas",
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
    }
)
"""Namespaced kinds that the owner alone writes: what they say holds for the writes of others at once. So it is with what belongs to
no namespace."""


class Followed(Protocol):
    """What else a front has to know before it may answer."""

    @property
    def shown_by_owner(self) -> frozenset[tuple[str, str]]:
        """Kinds, as group and plural, that only the owner can show."""
        ...

    @property
    def writes(self) -> bool:
        """Whether everything that has a say about writes is here."""
        ...


class FrontApp(App):
    """The application of a front. `to_owner` takes what is not answered here."""

    def __init__(self, *, replica: Replica, to_owner: ToOwner, followed: Followed, **parts: Any) -> None:
        super().__init__(store=replica, **{**parts, "virtual": followed.shown_by_owner})
        self._replica = replica
        self._to_owner = to_owner
        self._followed = followed

    def answer_now(self, request: Request) -> Response | None:
        return super().answer_now(request) if self._replica.is_current else None

    def refuse_body(self, request: Request) -> Response | None:
        """A right that was given a moment ago may not be known here yet. The whole request is looked at again when it is."""
        return super().refuse_body(request) if self._replica.is_current else None

    async def answer(self, request: Request) -> Answer:
        if not self._replica.is_current:
            try:
                await self._replica.current()
            except StoreError as error:
                return self._failed(request, ServiceUnavailable(str(error)), Warnings())
        return await super().answer(request)

    async def _dispatch(self, request: Request, info: RequestInfo, user: UserInfo, warnings: Warnings) -> Answer:
        if not self._is_answered_here(request, info):
            return await self._to_owner.answer(request)
        try:
            return await super()._dispatch(request, info, user, warnings)
        except Homeless:  # has changed between our look and the owner's, who sees what it is now
            return await self._to_owner.answer(request)

    def _is_answered_here(self, request: Request, info: RequestInfo) -> bool:
        served = self._served(info)
        if served is None or served.needs_webhook or (info.group, info.resource) in self._followed.shown_by_owner:
            return False
        if info.subresource not in _OWN_SUBRESOURCES or request.upgrade:
            return False
        if request.method in _READS:
            return self._is_remembered(request, info)
        is_write = request.method in _WRITES and not (request.method == "POST" and info.named)
        return is_write and self._is_written_here(served, info)

    def _served(self, info: RequestInfo) -> Served | None:
        if not info.is_resource or not self._discovery.serves(info.group):
            return None
        try:
            return self._resources.find(info)
        except ApiError:
            return None

    def _is_written_here(self, served: Served, info: RequestInfo) -> bool:
        kind = served.kind
        return (
            kind.namespaced
            and served.bucket not in OWNERS_KINDS
            and self._followed.writes
            and not self._replica.count(_QUOTAS, info.namespace)
        )

    def _is_remembered(self, request: Request, info: RequestInfo) -> bool:
        """Whether the replica's history goes back as far as is asked for; the owner's is longer."""
        query = request.query
        try:
            wanted = revisions.parse(query.get("resourceVersion"))
            if query.get("continue"):
                asked = revisions.decode_continue(query.get("continue"), info.namespace).revision
                wanted = max(wanted, asked)
        except (ApiError, ValueError):
            return True  # and is refused
        exact = info.verb == "watch" or bool(query.get("continue")) or query.get("resourceVersionMatch") == "Exact"
        return not exact or wanted <= 0 or wanted >= self._replica.compacted
