"""All operators of an embedded cluster, registered with one call: Kubernetes' own, and those of every job kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from corral.clusters import identities
from corral.controllers.apps.daemonset import DaemonSetController
from corral.controllers.apps.deployment import DeploymentController
from corral.controllers.apps.endpoints import EndpointsController
from corral.controllers.apps.replicaset import ReplicaSetController
from corral.core.admission import AdmissionPlugin
from corral.core.identity import Identity
from corral.jobs.framework.job_kind import JobKind
from corral.jobs.framework.operators import MayCreate, OperatorContext, OperatorSettings
from corral.jobs.framework.registry import job_kinds, made_by
from corral.runtime.controller import Manager
from corral.server.api import SubresourceHandler

BUILT_IN: Sequence[tuple[Callable[[Manager], object], Identity]] = (
    (ReplicaSetController, identities.REPLICA_SET_CONTROLLER),
    (DeploymentController, identities.DEPLOYMENT_CONTROLLER),
    (DaemonSetController, identities.DAEMON_SET_CONTROLLER),
    (EndpointsController, identities.ENDPOINTS_CONTROLLER),
)


def set_up_operators(
    manager: Manager,
    settings: OperatorSettings | None = None,
    may_create: MayCreate | None = None,
    starts_jobs: str = "",
) -> list[AdmissionPlugin]:
    """Register every operator; returns the admission plug-ins that belong to them, for the API's chain.

    `may_create` answers whether a user may create an object, for kinds that carry other objects inside; `starts_jobs` is the user
    that may start them all the same.
    """
    act_as = manager.identities.act_as if manager.identities is not None else None
    context = OperatorContext(manager, settings or OperatorSettings(), may_create, act_as, starts_jobs)
    for controller, identity in BUILT_IN:
        controller(manager.of(identity))
    for kind in job_kinds():
        made_by(kind, kind.operators, _under_identity(context, kind))
    return operator_plugins(context)


def operator_plugins(context: OperatorContext) -> list[AdmissionPlugin]:
    """What the webhooks of all operators check and fill in, as plug-ins."""
    return [
        plugin for kind in job_kinds() for plugin in made_by(kind, kind.admission, _under_identity(context, kind)) or ()
    ]


def operator_posts(context: OperatorContext) -> dict[tuple[str, str], SubresourceHandler]:
    """Handlers of POST requests to subresources, by resource and subresource, for the API's table of those."""
    found: dict[tuple[str, str], SubresourceHandler] = {}
    for kind in job_kinds():
        found |= made_by(kind, kind.posts, _under_identity(context, kind)) or {}
    return found


def _under_identity(context: OperatorContext, kind: JobKind) -> OperatorContext:
    """The cluster as the operators of one kind see it. A kind that names no identity acts with all rights."""
    if not kind.identity:
        return context
    identity: Identity = kind.part(kind.identity)
    return replace(context, manager=context.manager.of(identity))
