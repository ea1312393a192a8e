"""All operators of an embedded cluster, registered with one call."""

from __future__ import annotations

from importlib.util import find_spec
from shutil import which
from typing import Protocol

from corral.core.admission import AdmissionPlugin
from corral.decide.jobs.raycluster import RaySettings
from corral.decide.jobs.training_look import Settings as TrainingSettings
from corral.operators.admission import MayCreate, operator_plugins
from corral.operators.appwrapper import AppWrapperController
from corral.operators.cronjob import CronJobController
from corral.operators.daemonset import DaemonSetController
from corral.operators.deployment import DeploymentController
from corral.operators.endpointslices import EndpointsController
from corral.operators.job import JobController
from corral.operators.jobset import JobSetController
from corral.operators.kubeflow import training_controllers
from corral.operators.lws import LeaderWorkerSetController
from corral.operators.mpi import mpi_controllers
from corral.operators.ray import ray_controllers
from corral.operators.replicaset import ReplicaSetController
from corral.operators.settings import OperatorSettings
from corral.operators.statefulset import StatefulSetController
from corral.operators.trainer import TrainJobController
from corral.operators.ttl import TtlController
from corral.runtime.controller import Manager

BUILT_IN = (
    TtlController,
    CronJobController,
    ReplicaSetController,
    DeploymentController,
    StatefulSetController,
    DaemonSetController,
    EndpointsController,
)
JOB_KINDS = (JobSetController, AppWrapperController, LeaderWorkerSetController)


class Operator(Protocol):
    """A controller that registers itself with a manager."""

    def setup(self, manager: Manager) -> None: ...


def ray_is_installed() -> bool:
    """Whether pods can really start Ray on this machine."""
    return find_spec("ray") is not None or which("ray") is not None


def set_up_operators(
    manager: Manager, settings: OperatorSettings | None = None, may_create: MayCreate | None = None
) -> list[AdmissionPlugin]:
    """Register every operator; returns the admission plug-ins that belong to them, for the API's chain.

    `may_create` answers whether a user may create an object, for kinds that carry other objects inside.
    """
    client, clock = manager.client, manager.clock
    settings = settings or OperatorSettings()
    gang = settings.gang_scheduler
    operators: list[Operator] = [kind(client, clock) for kind in (*BUILT_IN, *JOB_KINDS)]
    operators.append(JobController(client, clock, honours_managers=settings.has("JobManagedBy")))
    operators.append(TrainJobController(client, clock, reports=settings.has("TrainJobStatus")))
    operators += training_controllers(client, clock, TrainingSettings(gang_scheduler=gang))
    operators += mpi_controllers(client, clock, gang)
    real = ray_is_installed() if settings.ray is None else settings.ray
    operators += ray_controllers(client, clock, RaySettings(real=real))
    for operator in operators:
        operator.setup(manager)
    return operator_plugins(client, clock, may_create, in_place_restart=settings.has("InPlaceRestart"))
