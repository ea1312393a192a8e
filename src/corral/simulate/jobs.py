"""The kinds of jobs a simulation submits, as they say themselves, and whose pod is whose."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Obj, labels_of
from corral.jobs.framework.registry import job_kinds
from corral.jobs.framework.simulated import SimulatedKind


def simulated_kinds() -> tuple[SimulatedKind, ...]:
    """Every kind that says how to submit one, Kubernetes' own Job first."""
    return tuple(found for kind in job_kinds() for found in kind.part(kind.simulated) or ())


def job_of(pod: Obj) -> str:
    """The name of the job a pod belongs to, whatever its kind."""
    # A kind that is made of others has their labels on its pods too: the last that applies is the outermost.
    owners = [kind.name_label for kind in reversed(simulated_kinds())]
    labels = labels_of(pod)
    return next((labels[label] for label in owners if label in labels), "")


def has_ended(kind: SimulatedKind, job: Obj) -> bool:
    return conditions.is_true(job, kind.done)
