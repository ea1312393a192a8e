"""All operators of an embedded cluster, registered with one call: Kubernetes' own, and those of every job kind."""

from __future__ import annotations

from corral.controllers.apps.daemonset import DaemonSetController
from corral.controllers.apps.deployment import DeploymentController
from corral.controllers.apps.endpoints import EndpointsController
from corral.controllers.apps.replicaset import ReplicaSetController
from corral.core.admission import AdmissionPlugin
from corral.jobs.framework.operators import ActAs, MayCreate, OperatorContext, OperatorSettings
from corral.jobs.framework.registry import job_kinds, made_by
from corral.runtime.controller import Manager
from corral.server.api import SubresourceHandler

BUILT_IN = (ReplicaSetController, DeploymentController, DaemonSetController, EndpointsController)


def set_up_operators(
    manager: Manager,
    settings: OperatorSettings | None = None,
    may_create: MayCreate | None = None,
    act_as: ActAs | None = None,
) -> list[AdmissionPlugin]:
    """Register every operator; returns the admission plug-ins that belong to them, for the API's chain.

    `may_create` answers whether a user may create an object, for kinds that carry other objects inside; `act_as` is the
    API such objects are created with.
    """
    context = OperatorContext(manager, settings or OperatorSettings(), may_create, act_as)
    for controller in BUILT_IN:
        controller(manager)
    for kind in job_kinds():
        made_by(kind, kind.operators, context)
    return operator_plugins(context)


def operator_plugins(context: OperatorContext) -> list[AdmissionPlugin]:
    """What the webhooks of all operators check and fill in, as plug-ins."""
    return [plugin for kind in job_kinds() for plugin in made_by(kind, kind.admission, context) or ()]


def operator_posts(context: OperatorContext) -> dict[tuple[str, str], SubresourceHandler]:
    """Handlers of POST requests to subresources, by resource and subresource, for the API's table of those."""
    found: dict[tuple[str, str], SubresourceHandler] = {}
    for kind in job_kinds():
        found |= made_by(kind, kind.posts, context) or {}
    return found
