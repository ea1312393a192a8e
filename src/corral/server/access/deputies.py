"""What a user may have done by others: a deputy that creates what somebody describes asks here before it takes the order.

The answer is that of the guards the user would meet with the same object in their own hands: authorization, and the rule
that nobody grants what they do not hold.
"""

from __future__ import annotations

from corral.core.admission import AdmissionRequest, UserInfo
from corral.core.errors import ApiError
from corral.core.meta import Obj, name_of
from corral.core.resource import Resource
from corral.kinds.machinery.registry import Registry
from corral.server.access import rbac
from corral.server.access.authorization import Authorizer
from corral.server.access.escalation import RbacGuard
from corral.server.access.rbac import Attributes

_ANY = "*"


class UserRights:
    """Answers for one cluster."""

    def __init__(self, registry: Registry, authorizer: Authorizer) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._guard = RbacGuard(authorizer)

    async def may_create(self, user: UserInfo, obj: Obj, namespace: str) -> bool:
        """Whether a user may create an object; one of a namespaced kind in `namespace`, whatever it says itself."""
        resource = self._resource(str(obj.get("apiVersion")), str(obj.get("kind")))
        where = namespace if resource.namespaced else ""
        if not self._authorizer.allowed(user, Attributes("create", resource.group, resource.plural, namespace=where)):
            return False
        request = AdmissionRequest("CREATE", resource, "", where, name_of(obj), user, obj, None)
        if not self._guard.handles(request):
            return True
        try:
            self._guard.check(request)
        except ApiError:
            return False
        return True

    async def may_change(self, user: UserInfo, api_version: str, kind: str, namespace: str, name: str) -> bool:
        """Whether a user may replace an object by whatever they like."""
        resource = self._resource(api_version, kind)
        where = namespace if resource.namespaced else ""
        wanted = Attributes("update", resource.group, resource.plural, namespace=where, name=name)
        return self._authorizer.allowed(user, wanted)

    async def may_grant(self, user: UserInfo, namespace: str) -> bool:
        """Whether a user may give away rights that they do not hold, in a namespace or everywhere."""
        needed = (("escalate", "roles"), ("bind", "clusterroles"))
        return all(
            self._authorizer.allowed(user, Attributes(verb, rbac.GROUP, plural, namespace=namespace))
            for verb, plural in needed
        )

    def _resource(self, api_version: str, kind: str) -> Resource:
        """How a kind is named to the API. With one that is not served here may do something who may do it with all
        kinds of the group."""
        found = self._registry.find(api_version, kind)
        if found is not None:
            return found[0].resource()
        group, _, version = api_version.rpartition("/")
        return Resource(group, version, _ANY, kind)
