"""A pod on a worker as the manager shows it: with the labels and the owner it would have if the job ran here."""

from __future__ import annotations

from corral.core.meta import Obj, labels_of, metadata_of, owner_ref, uid_of
from corral.core.remote_pods import CLUSTER_LABEL


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
