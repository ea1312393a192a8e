"""Who a hub's controllers and a member's agent act as, and what they may do.

What may be placed is anything, unless somebody says what: then both have rights on those kinds only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.controllers.member.connection import NAMESPACE as FLEET_NAMESPACE
from corral.controllers.placement.members import RULES as GRANTED_TO_MEMBERS
from corral.core.identity import FOLLOW, Identity, rights, service_account, statuses, with_events
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import APPLIED_WORKS, CLUSTER_PROFILES
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import NAMESPACES, NODES, PODS, SECRETS
from corral.kinds.kubernetes.rbac import CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS

PLACED: Sequence[Resource] = (Resource("*", "", "*", ""),)
"""What a hub may place where nobody says what: anything."""


_READ_BY_A_HUB = (CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, ROLES, ROLE_BINDINGS, JOBS, CLUSTER_PROFILES)


def hub(placed: Sequence[Resource] = PLACED) -> Identity:
    """The controllers of a hub. They read whatever may be placed, report the statuses of its copies, and grant members their part."""
    return Identity(
        "hub",
        service_account("hub-agent-sa", FLEET_NAMESPACE),
        with_events(
            tuple(GRANTED_TO_MEMBERS),
            rights("get list watch", *placed, *_READ_BY_A_HUB),
            rights("update", *statuses(*placed)),
            rights("create delete update", NAMESPACES, CLUSTER_PROFILES),
            rights("create update", ROLES, ROLE_BINDINGS),
            rights("update", *statuses(CLUSTER_PROFILES)),
        ),
    )


def member(placed: Sequence[Resource] = PLACED) -> Identity:
    """The agent of a member, on the member: it applies what the hub places, and that may be roles, which nobody grants who does
    not hold them or may not escalate."""
    return Identity(
        "member",
        service_account("member-agent-sa", FLEET_NAMESPACE),
        with_events(
            rights("create delete get list patch update watch", *placed, APPLIED_WORKS),
            rights("bind escalate", ROLES, CLUSTER_ROLES),
            rights("update", *statuses(APPLIED_WORKS)),
            rights(FOLLOW, NODES, PODS, NAMESPACES, CLUSTER_QUEUES, WORKLOADS),
            rights("create", NAMESPACES),
        ),
        {FLEET_NAMESPACE: (*rights(FOLLOW, SECRETS), *rights("create get update", LEASES))},
    )
