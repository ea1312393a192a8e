"""The copy of a job on another cluster: what every kind's copy has in common."""

from __future__ import annotations

from corral.core.meta import Obj, annotations_of, labels_of, name_of, namespace_of
from corral.kinds.kueue import names


def bare_copy(job: Obj, workload_name: str, origin: str) -> Obj:
    """Type, name, labels, annotations and content of `job`, marked with its origin and bound to `workload_name`.

    Everything a cluster gives an object (uid, versions, owners, finalizers, status) stays behind.
    """
    content = {name: value for name, value in job.items() if name not in ("metadata", "status")}
    annotations = {**annotations_of(job), names.PREBUILT_WORKLOAD: workload_name}
    labels = {**labels_of(job), names.MULTIKUEUE_ORIGIN: origin}
    labels.pop(names.PREBUILT_WORKLOAD, None)
    metadata = {
        "name": name_of(job),
        "namespace": namespace_of(job),
        "labels": labels,
        "annotations": annotations,
    }
    return {**content, "metadata": metadata}
