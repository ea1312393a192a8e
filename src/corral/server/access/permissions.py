"""What one identity may do, for a caller in this process that asks at every call: most answers are one look-up.

A right that holds everywhere is remembered by verb and kind until a role or binding changes; what only a namespace or a name
allows is asked of the authorizer each time.
"""

from __future__ import annotations

from corral.core.admission import UserInfo
from corral.core.resource import Resource
from corral.server.access.authorization import Authorizer, refusal
from corral.server.access.rbac import Attributes


class Permissions:
    """Answers for one user."""

    def __init__(self, authorizer: Authorizer, user: UserInfo) -> None:
        self._authorizer = authorizer
        self._user = user
        self._generation = -1
        self._everywhere: dict[tuple[str, Resource, str], bool] = {}

    def require(
        self, verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = ""
    ) -> None:
        """Forbidden, in the words of a real server, unless the user may."""
        if not self.allow(verb, resource, namespace, name, subresource):
            raise refusal(self._user, _attributes(verb, resource, namespace, name, subresource))

    def allow(self, verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> bool:
        authorizer = self._authorizer
        if self._generation != authorizer.generation:
            self._generation = authorizer.generation
            self._everywhere.clear()
        key = (verb, resource, subresource)
        everywhere = self._everywhere.get(key)
        if everywhere is None:
            everywhere = authorizer.allowed(self._user, _attributes(verb, resource, "", "", subresource))
            self._everywhere[key] = everywhere
        if everywhere:
            return True
        return authorizer.allowed(self._user, _attributes(verb, resource, namespace, name, subresource))


def _attributes(verb: str, resource: Resource, namespace: str, name: str, subresource: str) -> Attributes:
    return Attributes(verb, resource.group, resource.plural, subresource, namespace, name, version=resource.version)
