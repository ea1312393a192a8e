"""MPIJob: a launcher and its workers, suspended and managed through `runPolicy` like Kubeflow's other jobs."""

from __future__ import annotations

from typing import ClassVar

from corral.core.resource import Resource
from corral.jobs.kubeflow import kind as kubeflow
from corral.jobs.kubeflow.adapter import TrainingJob
from corral.jobs.kubeflow.kind import Framework
from corral.jobs.mpijob import kind as mpi


class MpiJob(TrainingJob):
    framework: ClassVar[str] = "kubeflow.org/mpijob"
    resource: ClassVar[Resource] = mpi.MPI_JOBS
    kind_of_job: ClassVar[Framework] = kubeflow.MPI
    own_managers: ClassVar[tuple[str, ...]] = (mpi.CONTROLLER,)
