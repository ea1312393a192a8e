"""apps/v1: Deployment, ReplicaSet, StatefulSet, DaemonSet and ControllerRevision."""

from __future__ import annotations

from corral.core.names import check_label
from corral.kinds.kubernetes.apps import columns as apps_printing
from corral.kinds.kubernetes.apps import defaults, rules
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import ScalePaths

GROUP = "apps"
_SCALE = ScalePaths(selector=".spec.selector")

CONTROLLER_REVISION = kind(
    "apps.v1.ControllerRevision",
    "controllerrevisions",
    group=GROUP,
    columns=apps_printing.CONTROLLER_REVISION,
    validate=rules.check_revision,
    validate_update=rules.check_revision_update,
)
DAEMON_SET = kind(
    "apps.v1.DaemonSet",
    "daemonsets",
    group=GROUP,
    short_names=("ds",),
    categories=("all",),
    columns=apps_printing.DAEMON_SET,
    status=True,
    default=defaults.default_daemon_set,
    validate=rules.check_daemon_set,
    validate_update=rules.check_daemon_set_update,
    validate_status=rules.check_replicas_status,
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
    default=defaults.default_deployment,
    validate=rules.check_deployment,
    validate_update=rules.check_deployment_update,
    validate_status=rules.check_replicas_status,
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
    default=defaults.default_replica_set,
    validate=rules.check_replica_set,
    validate_update=rules.check_replica_set_update,
    validate_status=rules.check_replicas_status,
    scale=_SCALE,
    has_generation=True,
)
STATEFUL_SET = kind(
    "apps.v1.StatefulSet",
    "statefulsets",
    group=GROUP,
    short_names=("sts",),
    check_name=check_label,
    categories=("all",),
    columns=apps_printing.STATEFUL_SET,
    status=True,
    default=defaults.default_stateful_set,
    validate=rules.check_stateful_set,
    validate_update=rules.check_stateful_set_update,
    validate_status=rules.check_replicas_status,
    scale=_SCALE,
    has_generation=True,
)

KINDS = (CONTROLLER_REVISION, DAEMON_SET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET)

CONTROLLER_REVISIONS = CONTROLLER_REVISION.resource()
DAEMON_SETS = DAEMON_SET.resource()
DEPLOYMENTS = DEPLOYMENT.resource()
REPLICA_SETS = REPLICA_SET.resource()
DISPATCHED = "Dispatched"
"""Condition of a set whose pods run on another cluster, from where its status comes."""
STATEFUL_SETS = STATEFUL_SET.resource()
