"""Who is asking and what they may do, as the API server of a real cluster says: TokenReviews and SubjectAccessReviews."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from corral.client.protocol import Client
from corral.core.admission import UserInfo
from corral.core.errors import Unauthorized
from corral.core.meta import Obj, status_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.authentication import TOKEN_REVIEWS
from corral.kinds.kubernetes.authorization import SUBJECT_ACCESS_REVIEWS
from corral.server.access import rbac
from corral.server.access.authentication import user_status
from corral.server.access.authorization import refusal
from corral.server.access.rbac import Attributes


async def owner_of(client: Client, token: str) -> UserInfo:
    """The user a bearer token stands for. Unauthorized when the API server does not know it."""
    if not token:
        raise Unauthorized("Unauthorized")
    status = status_of(await client.create(TOKEN_REVIEWS, {"spec": {"token": token}}))
    if not status.get("authenticated"):
        raise Unauthorized("Unauthorized")
    user = status.get("user") or {}
    return UserInfo(
        str(user.get("username") or ""),
        tuple(user.get("groups") or ()),
        str(user.get("uid") or ""),
        user.get("extra") or {},
    )


async def require(client: Client, user: UserInfo, wanted: Attributes) -> None:
    """Forbidden, in the words of a real server, unless the API server says that `user` may."""
    if not await is_allowed(client, user, wanted):
        raise refusal(user, wanted)


async def is_allowed(client: Client, user: UserInfo, wanted: Attributes) -> bool:
    """Whether the API server says that `user` may."""
    subject = user_status(user)
    spec: Obj = {"user": subject.pop("username"), **subject}
    if wanted.resource:
        spec["resourceAttributes"] = {
            "verb": wanted.verb,
            "group": wanted.group,
            "version": wanted.version,
            "resource": wanted.resource,
            "subresource": wanted.subresource,
            "namespace": wanted.namespace,
            "name": wanted.name,
        }
    else:
        spec["nonResourceAttributes"] = {"verb": wanted.verb, "path": wanted.path}
    answer = await client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
    return bool(status_of(answer).get("allowed"))


FindKind = Callable[[str, str, str], Awaitable[Resource | None]]
"""How a kind is served, by group, version and kind."""
_ANY = "*"


class ReviewedRights:
    """What users may have done by others (`controllers.placement.placed_rights`), where only the API server knows. Of roles it does not
    say whether somebody holds what they would grant, so who may make one by a deputy is who may grant anything."""

    def __init__(self, client: Client, find: FindKind) -> None:
        self._client = client
        self._find = find

    async def may_create(self, user: UserInfo, obj: Obj, namespace: str) -> bool:
        resource = await self._resource(str(obj.get("apiVersion")), str(obj.get("kind")))
        where = namespace if resource.namespaced else ""
        if resource.group == rbac.GROUP and not await self.may_grant(user, where):
            return False
        return await self._may(user, "create", resource.group, resource.plural, where)

    async def may_change(self, user: UserInfo, api_version: str, kind: str, namespace: str, name: str) -> bool:
        resource = await self._resource(api_version, kind)
        where = namespace if resource.namespaced else ""
        return await self._may(user, "update", resource.group, resource.plural, where, name)

    async def may_grant(self, user: UserInfo, namespace: str) -> bool:
        return await self._may(user, "escalate", rbac.GROUP, "roles", namespace) and await self._may(
            user, "bind", rbac.GROUP, "clusterroles", namespace
        )

    async def _may(
        self, user: UserInfo, verb: str, group: str, plural: str, namespace: str = "", name: str = ""
    ) -> bool:
        return await is_allowed(self._client, user, Attributes(verb, group, plural, namespace=namespace, name=name))

    async def _resource(self, api_version: str, kind: str) -> Resource:
        """How a kind is named to the API. With one that is not served here may do something who may do it with all kinds of the group."""
        group, _, version = api_version.rpartition("/")
        return await self._find(group, version, kind) or Resource(group, version, _ANY, kind)
