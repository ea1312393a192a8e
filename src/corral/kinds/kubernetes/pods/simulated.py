"""Which pods only pretend: how that is chosen, and how everybody who looks at a pod can tell.

The id of a container says what runs it. One that only pretends has an id of its own scheme, which travels with the pod's
status to every list, every mirror and every explanation. A pod whose programs are real but stand in for others says for
which in an annotation.
"""

from __future__ import annotations

from corral.core.meta import Obj, annotations_of, status_of

SIMULATE_ANNOTATION = "corral.dev/simulate"
"""On a pod: "true" has its containers pretend, on any runtime."""
STAND_IN_ANNOTATION = "corral.dev/stands-in-for"
"""On a pod: its programs hold the place of what this names, which is not there."""
SCHEME = "simulated://"


def wants_simulation(pod: Obj) -> bool:
    return annotations_of(pod).get(SIMULATE_ANNOTATION) == "true"


def is_simulated(pod: Obj) -> bool:
    """Whether a container of the pod pretends or pretended, or the pod stands in for something else."""
    if STAND_IN_ANNOTATION in annotations_of(pod):
        return True
    status = status_of(pod)
    return any(
        str(entry.get("containerID") or "").startswith(SCHEME)
        for field in ("initContainerStatuses", "containerStatuses")
        for entry in status.get(field) or ()
    )
