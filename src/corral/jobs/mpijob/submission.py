"""An MPIJob from a program: a launcher that starts the command on every worker with mpirun."""

from __future__ import annotations

from dataclasses import replace

from corral.core.meta import Obj
from corral.jobs.framework.submission import Submission, metadata_of, template_of
from corral.jobs.mpijob.kind import MPI_JOBS


def mpi(wanted: Submission) -> Obj:
    start = ("mpirun", "--allow-run-as-root", "-n", str(wanted.workers), *wanted.command)
    # The launcher only starts others: it computes nothing, and needs no device.
    launcher = template_of(replace(wanted, gpus=0, cpus="100m"), "launcher", command=start)
    worker = template_of(wanted, "worker", command=())
    return {
        "apiVersion": MPI_JOBS.api_version,
        "kind": MPI_JOBS.kind,
        "metadata": metadata_of(wanted),
        "spec": {
            "slotsPerWorker": 1,
            "runPolicy": {"backoffLimit": wanted.retries, "cleanPodPolicy": "Running", "suspend": True},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
                "Worker": {"replicas": wanted.workers, "template": worker},
            },
        },
    }
