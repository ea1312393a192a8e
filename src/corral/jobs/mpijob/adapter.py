"""MPIJob: a launcher and its workers, suspended and managed through `runPolicy` like Kubeflow's other jobs."""

from __future__ import annotations

from typing import ClassVar

from corral.core.meta import Obj, annotations_of, spec_of, with_annotations
from corral.core.resource import Resource
from corral.jobs.framework.paths import get_in, set_in
from corral.jobs.kubeflow import kind as kubeflow
from corral.jobs.kubeflow.adapter import TrainingJob
from corral.jobs.kubeflow.kind import Framework
from corral.jobs.mpijob import kind as mpi
from corral.kinds.kueue import names


class MpiJob(TrainingJob):
    framework: ClassVar[str] = "kubeflow.org/mpijob"
    resource: ClassVar[Resource] = mpi.MPI_JOBS
    kind_of_job: ClassVar[Framework] = kubeflow.MPI
    own_managers: ClassVar[tuple[str, ...]] = (mpi.CONTROLLER,)

    def prepared(self, job: Obj) -> Obj:
        """Where the launcher works too it has the first index, and placed by themselves the workers begin with the second."""
        specs = spec_of(job).get("mpiReplicaSpecs") or {}
        if not spec_of(job).get("runLauncherAsWorker") or not (specs.get("Launcher") and specs.get("Worker")):
            return job
        if names.PODSET_GROUP_NAME in annotations_of(specs["Launcher"].get("template") or {}):
            return job
        path = ("spec", "mpiReplicaSpecs", "Worker", "template")
        return set_in(job, path, with_annotations(get_in(job, path, {}), {names.POD_INDEX_OFFSET: "1"}))
