"""The webhooks of MPIJob."""

from __future__ import annotations

from corral.core.admission import AdmissionPlugin
from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.kubeflow import kind as kubeflow
from corral.jobs.kubeflow.admission import TrainingJobRules
from corral.jobs.mpijob import kind as mpi


class MpiJobRules(TrainingJobRules):
    """Rules for a launcher and its workers."""

    name = "MpiJobRules"
    kinds = ((kubeflow.GROUP, kubeflow.MPI.kind),)

    def causes(self, framework: kubeflow.Framework, job: Obj, old: Obj | None) -> list[Cause]:
        return mpi.validate_mpi_job(job, old)


def plugins(context: OperatorContext) -> list[AdmissionPlugin]:
    return [MpiJobRules(context.settings)]
