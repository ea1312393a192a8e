"""What of a job may still change while it runs on another cluster: which fields of which kind follow the manager's.

Only fields the kind's own API lets anybody change on a running job are here. Counts of a Job follow when it is elastic;
otherwise a change of size makes a new Workload, and with it a new job on a worker.
"""

from __future__ import annotations

from typing import Any

from corral.core.meta import Obj, annotations_of, labels_of
from corral.jobs.framework.paths import Path, get_in, set_in
from corral.kinds.kueue import names

_JOB: tuple[Path, ...] = (("spec", "activeDeadlineSeconds"), ("spec", "backoffLimit"))
_RUN_POLICY: tuple[Path, ...] = (
    ("spec", "runPolicy", "activeDeadlineSeconds"),
    ("spec", "runPolicy", "backoffLimit"),
)
FIELDS: dict[str, tuple[Path, ...]] = {
    "Job": _JOB,
    "TFJob": _RUN_POLICY,
    "PyTorchJob": _RUN_POLICY,
    "XGBoostJob": _RUN_POLICY,
    "PaddleJob": _RUN_POLICY,
    "JAXJob": _RUN_POLICY,
    "MPIJob": _RUN_POLICY,
    "RayJob": (("spec", "activeDeadlineSeconds"),),
    "RayService": (("spec", "serveConfigV2"),),
    "StatefulSet": (("spec", "replicas"), ("spec", "minReadySeconds")),
    "LeaderWorkerSet": (("spec", "replicas"),),
    "Pod": (("spec", "activeDeadlineSeconds"),),
}
ELASTIC_FIELDS: dict[str, tuple[Path, ...]] = {
    "Job": (("spec", "parallelism"), ("spec", "completions")),
}
TEMPLATES: dict[str, tuple[Path, ...]] = {
    "StatefulSet": (("spec", "template"),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
}
"""Pod templates whose images follow; the set rolls them out where it runs."""
LABELS = (names.PRIORITY_CLASS,)


def is_elastic(job: Obj) -> bool:
    return annotations_of(job).get(names.ELASTIC_JOB) == "true"


def changes(local: Obj, remote: Obj, workload: str) -> Obj | None:
    """The merge patch that brings a remote job in line with the manager's; None when it is."""
    kind = str(local.get("kind"))
    patch: Obj = {}
    fields = FIELDS.get(kind, ())
    if is_elastic(local):
        fields = (*fields, *ELASTIC_FIELDS.get(kind, ()))
        if annotations_of(remote).get(names.PREBUILT_WORKLOAD) not in (None, workload):
            patch = set_in(patch, ("metadata", "annotations"), {names.PREBUILT_WORKLOAD: workload})
    for path in fields:
        wanted = get_in(local, path)
        if wanted != get_in(remote, path) and (wanted is not None or path[-1] == "activeDeadlineSeconds"):
            patch = _put(patch, path, wanted)
    for path in TEMPLATES.get(kind, ()):
        containers = _with_images(get_in(local, path) or {}, get_in(remote, path) or {})
        if containers is not None:
            patch = set_in(patch, (*path, "spec", "containers"), containers)
    moved = {label: labels_of(local).get(label) for label in LABELS}
    moved = {label: value for label, value in moved.items() if value != labels_of(remote).get(label)}
    return _put(patch, ("metadata", "labels"), moved) if moved else patch or None


def _with_images(local: Obj, remote: Obj) -> list[Obj] | None:
    """The remote containers with the local images; None when they have them."""
    images = {entry.get("name"): entry.get("image") for entry in (local.get("spec") or {}).get("containers") or ()}
    held = (remote.get("spec") or {}).get("containers") or []
    wanted = [{**entry, "image": images.get(entry.get("name"), entry.get("image"))} for entry in held]
    return wanted if wanted != held else None


def _put(patch: Obj, path: Path, value: Any) -> Obj:
    """Like `set_in`, but None stays: in a merge patch it removes the field."""
    first, *rest = (str(step) for step in path)
    inner = _put(patch.get(first) or {}, tuple(rest), value) if rest else value
    return {**patch, first: inner}
