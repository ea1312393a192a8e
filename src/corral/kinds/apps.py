"""apps/v1: Deployment, ReplicaSet, StatefulSet, DaemonSet and ControllerRevision."""

from __future__ import annotations

from corral.core.meta import status_of
from corral.kinds import apps_printing
from corral.kinds.builtin import kind
from corral.kinds.definition import ScalePaths

GROUP = "apps"
_SCALE = ScalePaths(selector=".spec.selector")

CONTROLLER_REVISION = kind(
    "apps.v1.ControllerRevision", "controllerrevisions", group=GROUP, columns=apps_printing.CONTROLLER_REVISION
)
DAEMON_SET = kind(
    "apps.v1.DaemonSet",
    "daemonsets",
    group=GROUP,
    short_names=("ds",),
    categories=("all",),
    columns=apps_printing.DAEMON_SET,
    status=True,
    has_generation=True,
)
DEPLOYMENT = kind(
    "apps.v1.Deployment",
    "deployments",
    group=GROUP,
    short_names=("deploy",),
    categories=("all",),
    columns=apps_printing.DEPLOYMENT,
    status=True,
    scale=_SCALE,
    has_generation=True,
)
REPLICA_SET = kind(
    "apps.v1.ReplicaSet",
    "replicasets",
    group=GROUP,
    short_names=("rs",),
    categories=("all",),
    columns=apps_printing.REPLICA_SET,
    status=True,
    scale=_SCALE,
    has_generation=True,
    fields={"status.replicas": lambda obj: str(status_of(obj).get("replicas") or 0)},
)
STATEFUL_SET = kind(
    "apps.v1.StatefulSet",
    "statefulsets",
    group=GROUP,
    short_names=("sts",),
    categories=("all",),
    columns=apps_printing.STATEFUL_SET,
    status=True,
    scale=_SCALE,
    has_generation=True,
)

KINDS = (CONTROLLER_REVISION, DAEMON_SET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET)

CONTROLLER_REVISIONS = CONTROLLER_REVISION.resource()
DAEMON_SETS = DAEMON_SET.resource()
DEPLOYMENTS = DEPLOYMENT.resource()
REPLICA_SETS = REPLICA_SET.resource()
STATEFUL_SETS = STATEFUL_SET.resource()
