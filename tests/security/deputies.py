"""A cluster on virtual time with every guard of a served one, and users with few rights who give orders to its controllers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from corral.clusters.embedded_api import INITIAL_NAMESPACES, EmbeddedApi
from corral.clusters.operators import set_up_operators
from corral.core.admission import UserInfo
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kubernetes.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from corral.runtime.clock import VirtualClock
from corral.runtime.random import Random
from corral.runtime.virtual import settle
from corral.server.local import LocalClient
from corral.testing import run_virtual

TENANT = "tenant"

STARTS_JOBS = "starter"
"""The user that queueing acts as in these clusters."""


class Court:
    """The cluster, and who asks it."""

    def __init__(self) -> None:
        self.base = EmbeddedApi(None, clock=VirtualClock(), random=Random("court"))
        self.admin = self.base.client

    async def start(self) -> None:
        await self.base.identities.grant()
        await self.base.manager.start()
        for name in (*INITIAL_NAMESPACES, TENANT):
            await self.admin.create(NAMESPACES, {"metadata": {"name": name}})

    def client(self, name: str) -> LocalClient:
        return LocalClient(self.base.api, UserInfo(name, ("system:authenticated",)))

    async def user(self, name: str, *rules: Obj, namespace: str = TENANT) -> LocalClient:
        """A user with these rules in the tenant's namespace, or everywhere."""
        metadata = {"name": f"rights-of-{name}", **({"namespace": namespace} if namespace else {})}
        kind = "Role" if namespace else "ClusterRole"
        await self.admin.create(ROLES if namespace else CLUSTER_ROLES, {"metadata": metadata, "rules": list(rules)})
        binding = {
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]},
            "subjects": [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        await self.admin.create(ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, binding)
        return self.client(name)

    async def settle(self) -> None:
        await settle([self.base.manager])

    async def names(self, resource: Resource) -> list[str]:
        return [obj["metadata"]["name"] for obj in (await self.admin.list(resource)).items]


def hold_court(script: Callable[[Court], Awaitable[None]], *, set_up: Callable[[Court], Any] | None = None) -> None:
    """Run `script` on a cluster with the operators of every job kind."""

    async def main() -> None:
        court = Court()
        base = court.base
        base.api.chain.plugins.extend(set_up_operators(base.manager, None, base.rights.may_create, STARTS_JOBS))
        if set_up is not None:
            set_up(court)
        await court.start()
        try:
            await script(court)
        finally:
            await base.manager.stop()
            await base.store.close()

    run_virtual(main)
