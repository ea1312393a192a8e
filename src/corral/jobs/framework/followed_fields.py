"""What of a job may still change while it runs on another cluster: the fields its adapter says follow the manager's."""

from __future__ import annotations

from typing import Any

from corral.core.meta import Obj, annotations_of, labels_of
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.paths import Path, get_in, set_in
from corral.kinds.kueue import names

LABELS = (names.PRIORITY_CLASS,)


def is_elastic(job: Obj) -> bool:
    return annotations_of(job).get(names.ELASTIC_JOB) == "true"


def changes(adapter: JobAdapter, local: Obj, remote: Obj, workload: str) -> Obj | None:
    """The merge patch that brings a remote job in line with the manager's; None when it is."""
    patch: Obj = {}
    fields = adapter.followed_fields
    if is_elastic(local):
        fields = (*fields, *adapter.elastic_fields)
        if annotations_of(remote).get(names.PREBUILT_WORKLOAD) not in (None, workload):
            patch = set_in(patch, ("metadata", "annotations"), {names.PREBUILT_WORKLOAD: workload})
    for path in fields:
        wanted = get_in(local, path)
        if wanted != get_in(remote, path) and (wanted is not None or path[-1] == "activeDeadlineSeconds"):
            patch = _put(patch, path, wanted)
    for path in adapter.followed_templates:
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
