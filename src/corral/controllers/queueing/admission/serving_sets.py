"""Templates of queued Deployments and StatefulSets: their pods are queued, so the templates say so."""

from __future__ import annotations

from corral.core.meta import Obj, labels_of, spec_of, with_annotations, with_labels, with_spec
from corral.kinds.kueue import names

LEADER_WORKER_SET = "leaderworkerset.x-k8s.io/leaderworkerset"
PARENTS = {
    ("apps", "Deployment"): "deployment",
    ("apps", "StatefulSet"): "statefulset",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): LEADER_WORKER_SET,
}
"""Kinds whose pods are queued, and the framework that has to be enabled for it."""


def with_queued_template(workload: Obj, parent: str) -> Obj:
    """The object with a template whose pods are held by queueing; unchanged when it names no queue."""
    queue = labels_of(workload).get(names.QUEUE_NAME)
    if not queue:
        return workload
    spec = spec_of(workload)
    if parent == LEADER_WORKER_SET:
        return with_spec(workload, {**spec, "leaderWorkerTemplate": _held(spec.get("leaderWorkerTemplate") or {})})
    template = with_annotations(spec.get("template") or {}, {names.POD_SUSPENDING_PARENT: parent})
    if parent == "deployment":
        # Each pod of a Deployment is a job of its own.
        template = with_labels(template, {names.QUEUE_NAME: queue, names.MANAGED: "true"})
    return with_spec(workload, {**spec, "template": template})


def _held(group: Obj) -> Obj:
    """The templates of a group whose pods wait for their LeaderWorkerSet."""
    held = {
        name: with_annotations(group[name], {names.POD_SUSPENDING_PARENT: LEADER_WORKER_SET})
        for name in ("leaderTemplate", "workerTemplate")
        if group.get(name)
    }
    return {**group, **held}
