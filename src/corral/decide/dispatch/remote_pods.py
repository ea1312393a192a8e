"""Pods of dispatched jobs: where to look for them on a worker, how the manager shows them, and the logs it keeps of them."""

from __future__ import annotations

import re

from corral.core.meta import Obj, labels_of, metadata_of, name_of, owner_ref, uid_of
from corral.core.remote_pods import CLUSTER_LABEL
from corral.core.resource import Resource
from corral.core.streams import LogOptions
from corral.core.timestamps import format_micro

_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d) ")
_KUBEFLOW = ("TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")


def pod_selector(resource: Resource, job: Obj) -> str:
    """Labels that all pods of a job have; empty where they have none in common. Pods of others may have them too."""
    if resource.kind == "Job":
        return f"batch.kubernetes.io/controller-uid={uid_of(job)}"
    if resource.kind in ("JobSet", "TrainJob"):
        return f"jobset.sigs.k8s.io/jobset-name={name_of(job)}"
    return f"training.kubeflow.org/job-name={name_of(job)}" if resource.kind in _KUBEFLOW else ""


def shown_pod(pod: Obj, remote_job: Obj, local_job: Obj, cluster: str) -> Obj:
    """`pod` of `remote_job` as if it belonged to `local_job`: selectors that name the job's uid find it."""
    remote_uid, local_uid = uid_of(remote_job), uid_of(local_job)
    labels = {name: local_uid if value == remote_uid else value for name, value in labels_of(pod).items()}
    metadata = {
        **{name: value for name, value in metadata_of(pod).items() if name not in ("managedFields", "ownerReferences")},
        "labels": {**labels, CLUSTER_LABEL: cluster},
    }
    if uid_of(pod) != remote_uid:
        metadata["ownerReferences"] = [owner_ref(local_job)]
    return {**pod, "metadata": metadata}


def tail(log: bytes, limit: int) -> bytes:
    """The last whole lines of a log that fit."""
    if len(log) <= limit:
        return log
    cut = log[-limit:]
    return cut[cut.find(b"\n") + 1 :]


def part_of(log: bytes, options: LogOptions) -> bytes:
    """What a reader wants of a log whose lines begin with their time."""
    lines = log.splitlines(keepends=True)
    if options.since is not None:
        since = format_micro(options.since)[:-1].encode()
        lines = [line for line in lines if not _TIME.match(line) or line >= since]
    if options.tail_lines is not None:
        lines = lines[-options.tail_lines :] if options.tail_lines > 0 else []
    if not options.timestamps:
        lines = [_TIME.sub(b"", line, count=1) if _TIME.match(line) else line for line in lines]
    return b"".join(lines)[: options.limit_bytes]
