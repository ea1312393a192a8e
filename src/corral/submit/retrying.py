"""A job that is to run once more: the same job without what its first life left on it, under another name. Pure."""

from __future__ import annotations

import re
from typing import Final

from corral.core.meta import Obj, annotations_of, labels_of, metadata_of, name_of, namespace_of, spec_of
from corral.core.resource import Resource
from corral.jobs.framework.adapter import SuspendableJob
from corral.jobs.framework.registry import adapter_for
from corral.workload.podset_info import original_infos

RETRY_OF: Final = "corral.dev/retry-of"
LONGEST: Final = 63
MADE_BY_SERVERS: Final = (
    "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name",
)  # fmt: skip
OF_ONE_LIFE: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "batch.kubernetes.io/job-tracking",
    "kueue.x-k8s.io/is-group-workload",
)


def next_name(name: str) -> str:
    """`train-2` after `train`, `train-3` after `train-2`."""
    match = re.fullmatch(r"(.*?)-(\d{1,4})", name)
    base, number = (match[1], int(match[2])) if match else (name, 1)
    suffix = f"-{number + 1}"
    return base[: LONGEST - len(suffix)].rstrip("-.") + suffix


def as_submitted(job: Obj, workload: Obj | None) -> Obj:
    """The job without what its admission wrote into its templates: its Workload knows them as they were."""
    adapter = adapter_for(Resource(str(job["apiVersion"]).rpartition("/")[0], "", "", str(job["kind"])))
    if workload is None or not isinstance(adapter, SuspendableJob):
        return job
    return adapter.suspend(adapter.restore(job, original_infos(workload)))


def again(job: Obj, name: str) -> Obj:
    """The job to create. What servers and controllers wrote into the old one is left to them again."""
    spec = {key: value for key, value in spec_of(job).items() if key not in ("selector", "managedBy")}
    if spec_of(job).get("manualSelector"):
        spec["selector"] = spec_of(job)["selector"]
    if isinstance(template := spec.get("template"), dict):
        metadata = dict(metadata_of(template))
        metadata["labels"] = _without(labels_of(template), MADE_BY_SERVERS)
        spec["template"] = {**template, "metadata": metadata}
    annotations = _without(annotations_of(job), OF_ONE_LIFE)
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {
            "name": name,
            "namespace": namespace_of(job),
            "labels": _without(labels_of(job), MADE_BY_SERVERS),
            "annotations": {**annotations, RETRY_OF: name_of(job)},
        },
        "spec": spec,
    }


def _without(pairs: dict[str, str], keys: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in pairs.items() if key not in keys}
