"""The copy of a Workload on a worker: what it carries over and what it leaves behind."""

from __future__ import annotations

from corral.core.meta import Obj, annotations_of, labels_of, name_of, namespace_of, spec_of
from corral.kinds.kueue import names


def remote_workload(workload: Obj, origin: str) -> Obj:
    """The object to create on a worker: same name, labels, annotations and spec, marked with where it came from."""
    labels = {name: value for name, value in labels_of(workload).items() if name != names.JOB_UID}
    metadata: Obj = {
        "name": name_of(workload),
        "namespace": namespace_of(workload),
        "labels": {**labels, names.MULTIKUEUE_ORIGIN: origin},
    }
    annotations = {k: v for k, v in annotations_of(workload).items() if not k.startswith("corral.dev/")}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "metadata": metadata,
        "spec": spec_of(workload),
    }


def has_origin(obj: Obj, origin: str) -> bool:
    """Whether an object on a worker was made by this manager; nothing else on a worker is ever touched."""
    return labels_of(obj).get(names.MULTIKUEUE_ORIGIN) == origin
