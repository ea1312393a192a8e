"""Controllers of one embedded or simulated cluster under identities of their own: clients that are refused what no role allows."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.core.admission import UserInfo
from corral.core.identity import FOLLOW, Identity, role_objects
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.runtime.controller import Manager
from corral.server.access import rbac_defaults
from corral.server.access.authorization import Authorizer
from corral.server.access.bootstrap import ensure_role
from corral.server.access.permissions import Permissions
from corral.server.api import Api
from corral.server.local import LocalClient


class EnforcedIdentities:
    """Who acts in a cluster. `grant` before the manager is started: until then nobody but the server may do anything."""

    def __init__(self, api: Api, authorizer: Authorizer, manager: Manager) -> None:
        self._api = api
        self._authorizer = authorizer
        self._manager = manager
        self._managers: dict[str, Manager] = {}
        self._roles: list[Obj] = []

    def manager_of(self, identity: Identity) -> Manager:
        """The manager for controllers that act as `identity`; the same for the same name."""
        found = self._managers.get(identity.name)
        if found is None:
            self._roles += role_objects(identity)
            found = self._managers[identity.name] = self._acting(self._manager, identity)
        return found

    async def acting_for(self, identity: Identity, manager: Manager) -> Manager:
        """`manager` for controllers that act as `identity`, whose roles are there when this returns."""
        for role in role_objects(identity):
            await ensure_role(self._api, role, completed=True)
        return self._acting(manager, identity)

    def _acting(self, manager: Manager, identity: Identity) -> Manager:
        permissions = Permissions(self._authorizer, identity.user)

        def may_read(resource: Resource, namespace: str) -> bool:
            return all(permissions.allow(verb, resource, namespace) for verb in FOLLOW.split())

        return manager.acting_as(LocalClient(self._api, identity.user, permissions=permissions), may_read)

    def act_as(self, user: UserInfo) -> Client:
        """The API as somebody: what that user may not do is refused."""
        return LocalClient(self._api, user, permissions=Permissions(self._authorizer, user))

    async def grant(self) -> None:
        """Bring the roles of all identities up to date, and those every cluster has."""
        for role in (*rbac_defaults.cluster_roles(), *rbac_defaults.cluster_role_bindings()):
            await ensure_role(self._api, role)
        for role in self._roles:
            await ensure_role(self._api, role, completed=True)
