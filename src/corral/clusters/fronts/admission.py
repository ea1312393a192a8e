"""The admission rules of an embedded cluster in one of its front processes: those that need nothing but what is stored."""

from __future__ import annotations

from collections.abc import Sequence

from corral.client.protocol import Client
from corral.clusters import identities
from corral.clusters.current_plugins import CurrentPlugins
from corral.clusters.operator_installations import InstalledAgain
from corral.clusters.operators import operator_plugins
from corral.configuration.fleet import HUB, MANAGER, WORKER, FleetSpec, configuration_of
from corral.configuration.queueing import load_config
from corral.controllers.queueing.admission.lookups import ClusterReader
from corral.controllers.queueing.setup import queueing_plugins
from corral.core.admission import AdmissionPlugin, UserInfo
from corral.core.meta import Obj
from corral.jobs.framework.operators import OperatorContext, OperatorSettings
from corral.runtime.clock import Clock
from corral.runtime.controller import Manager
from corral.runtime.random import Random
from corral.server.access.authorization import Authorizer
from corral.server.access.deputies import UserRights
from corral.server.access.permissions import Permissions
from corral.server.api import Api
from corral.server.local import LocalClient


class FrontAdmission:
    """The same rules as in the owner's process, in the same order, under the configuration that is in force there."""

    def __init__(self, fleet: FleetSpec, cluster: str, api: Api, authorizer: Authorizer, clock: Clock) -> None:
        spec = fleet.cluster(cluster)
        self._api, self._authorizer = api, authorizer
        self._queueing: Sequence[AdmissionPlugin] = ()
        self._queues = not (HUB in spec.roles and not {MANAGER, WORKER} & set(spec.roles))
        self.writes = HUB not in spec.roles
        """Whether these are all the rules there are: what guards a hub's placements knows more than is stored."""
        self.configure(configuration_of(fleet, spec))
        chosen = spec.operators
        has_programs = bool(spec.nodes) and not spec.is_simulated
        settings = OperatorSettings(chosen.gang_scheduler, chosen.features, chosen.switches(), has_programs)
        rights = UserRights(api.registry, authorizer)
        starts_jobs = self._identity.name if self._queues else ""
        manager = Manager(LocalClient(api), clock, Random())
        self.plugins: list[AdmissionPlugin] = [
            *([CurrentPlugins("Queueing", lambda: self._queueing)] if self._queues else []),
            *operator_plugins(OperatorContext(manager, settings, rights.may_create, None, starts_jobs)),
            InstalledAgain(spec.roles),
        ]

    def configure(self, document: Obj) -> None:
        """Admit by another configuration from now on."""
        config = load_config(document)
        self._identity = identities.queueing(config).user
        reader = ClusterReader()
        reader.attach(self._as(self._identity))
        self._queueing = queueing_plugins(config, reader)

    def _as(self, user: UserInfo) -> Client:
        return LocalClient(self._api, user, permissions=Permissions(self._authorizer, user))
