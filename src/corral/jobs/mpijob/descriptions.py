"""What the kind is for, in the words of `kubectl explain`."""

from __future__ import annotations

from corral.jobs.framework.descriptions import SHARED
from corral.kinds.machinery.describing import Table

DESCRIPTIONS: Table = {
    "*": SHARED,
    "MPIJob": (
        "A program started by mpirun: a launcher and the workers it reaches.",
        {
            "spec.mpiImplementation": "OpenMPI, Intel or MPICH.",
            "spec.mpiReplicaSpecs": "The pods by role.",
            "spec.slotsPerWorker": "Processes on each worker.",
        },
    ),
}
