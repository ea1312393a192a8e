"""The copy of a job on another cluster: what every kind's copy has in common, and how it names its Workload."""

from __future__ import annotations

from corral.core.meta import Obj, annotations_of, labels_of, name_of, namespace_of, with_metadata
from corral.kinds.kueue import names

MAX_LABEL = 63


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


def labelled(copy: Obj) -> Obj:
    """The copy with its Workload named in a label; a name too long for one stays where it is."""
    annotations = dict(annotations_of(copy))
    name = annotations.pop(names.PREBUILT_WORKLOAD, "")
    if not 0 < len(name) <= MAX_LABEL:
        return copy
    return with_metadata(copy, annotations=annotations, labels={**labels_of(copy), names.PREBUILT_WORKLOAD: name})
