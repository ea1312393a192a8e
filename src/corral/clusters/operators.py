"""All operators of an embedded cluster, registered with one call."""

from __future__ import annotations

from importlib.util import find_spec
from shutil import which

from corral.configuration.operators import OperatorSettings
from corral.controllers.apps.daemonset import DaemonSetController
from corral.controllers.apps.deployment import DeploymentController
from corral.controllers.apps.endpoints import EndpointsController
from corral.controllers.apps.replicaset import ReplicaSetController
from corral.core.admission import AdmissionPlugin
from corral.jobs.appwrapper.operator import AppWrapperController
from corral.jobs.batch_job.cron_operator import CronJobController
from corral.jobs.batch_job.operator import JobController
from corral.jobs.batch_job.ttl import TtlController
from corral.jobs.framework.admission import MayCreate, operator_plugins
from corral.jobs.jobset.operator import JobSetController
from corral.jobs.kubeflow.operator import training_controllers
from corral.jobs.kubeflow.view import Settings as TrainingSettings
from corral.jobs.leader_worker_set.operator import LeaderWorkerSetController
from corral.jobs.mpijob.operator import mpi_controllers
from corral.jobs.ray.cluster_plan import RaySettings
from corral.jobs.ray.operator import ray_controllers
from corral.jobs.stateful_set.operator import StatefulSetController
from corral.jobs.trainjob.operator import TrainJobController
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


def ray_is_installed() -> bool:
    """Whether pods can really start Ray on this machine."""
    return find_spec("ray") is not None or which("ray") is not None


def set_up_operators(
    manager: Manager, settings: OperatorSettings | None = None, may_create: MayCreate | None = None
) -> list[AdmissionPlugin]:
    """Register every operator; returns the admission plug-ins that belong to them, for the API's chain.

    `may_create` answers whether a user may create an object, for kinds that carry other objects inside.
    """
    settings = settings or OperatorSettings()
    gang = settings.gang_scheduler
    for controller in (*BUILT_IN, *JOB_KINDS):
        controller(manager)
    JobController(manager, honours_managers=settings.has("JobManagedBy"))
    TrainJobController(manager, reports=settings.has("TrainJobStatus"))
    training_controllers(manager, TrainingSettings(gang_scheduler=gang))
    mpi_controllers(manager, gang)
    real = ray_is_installed() if settings.ray is None else settings.ray
    ray_controllers(manager, RaySettings(real=real))
    return operator_plugins(manager.client, manager.clock, may_create, in_place_restart=settings.has("InPlaceRestart"))
