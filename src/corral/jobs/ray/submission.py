"""A RayJob from a program: a Ray cluster of its own, and the command as its entry point."""

from __future__ import annotations

import shlex

from corral.core.meta import Obj
from corral.jobs.framework.submission import Submission, metadata_of, template_of
from corral.jobs.ray.kind import RAY_JOBS


def ray(wanted: Submission) -> Obj:
    cluster: Obj = {"headGroupSpec": _group(wanted, "ray-head")}
    if wanted.workers > 1:
        count = wanted.workers - 1
        sizes = {"replicas": count, "minReplicas": count, "maxReplicas": count}
        cluster["workerGroupSpecs"] = [{"groupName": "workers", **sizes, **_group(wanted, "ray-worker")}]
    return {
        "apiVersion": RAY_JOBS.api_version,
        "kind": RAY_JOBS.kind,
        "metadata": metadata_of(wanted),
        "spec": {
            "entrypoint": shlex.join(wanted.command),
            "backoffLimit": wanted.retries,
            "shutdownAfterJobFinishes": True,
            "suspend": True,
            "rayClusterSpec": cluster,
        },
    }


def _group(wanted: Submission, container: str) -> Obj:
    return {"rayStartParams": {}, "template": template_of(wanted, container, command=())}
