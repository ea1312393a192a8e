"""Every operator an embedded cluster runs, registered in one place."""

from __future__ import annotations

from corral.operators.cronjob import CronJobController
from corral.operators.daemonset import DaemonSetController
from corral.operators.deployment import DeploymentController
from corral.operators.endpointslices import EndpointsController
from corral.operators.job import JobController
from corral.operators.replicaset import ReplicaSetController
from corral.operators.statefulset import StatefulSetController
from corral.operators.ttl import TtlController
from corral.runtime.controller import Manager

CONTROLLERS = (
    JobController,
    TtlController,
    CronJobController,
    ReplicaSetController,
    DeploymentController,
    StatefulSetController,
    DaemonSetController,
    EndpointsController,
)


def set_up_operators(manager: Manager) -> None:
    """Register all operators with a manager."""
    for controller in CONTROLLERS:
        controller(manager.client, manager.clock).setup(manager)
