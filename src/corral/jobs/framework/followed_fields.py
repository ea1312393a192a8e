"""What of a job may still change while it runs on another cluster: the fields its adapter says follow the manager's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corral.core.meta import Obj, annotations_of, labels_of, name_of
from corral.jobs.framework.adapter import JobAdapter, SizedGroups
from corral.jobs.framework.paths import Path, get_in, set_in
from corral.kinds.kueue import names
from corral.workload.workload import pod_sets_of

LABELS = (names.PRIORITY_CLASS,)


def is_elastic(job: Obj) -> bool:
    return annotations_of(job).get(names.ELASTIC_JOB) == "true"


def changes(adapter: JobAdapter, local: Obj, remote: Obj) -> Obj:
    """The merge patch that brings a remote job in line with the manager's, its size aside; empty when it is."""
    patch: Obj = {}
    for path in adapter.followed_fields:
        wanted = get_in(local, path)
        if wanted != get_in(remote, path) and (wanted is not None or path[-1] == "activeDeadlineSeconds"):
            patch = _put(patch, path, wanted)
    for path in adapter.followed_templates:
        containers = _with_images(get_in(local, path) or {}, get_in(remote, path) or {})
        if containers is not None:
            patch = set_in(patch, (*path, "spec", "containers"), containers)
    moved = {label: labels_of(local).get(label) for label in LABELS}
    moved = {label: value for label, value in moved.items() if value != labels_of(remote).get(label)}
    return _put(patch, ("metadata", "labels"), moved) if moved else patch


def with_size(patch: Obj, adapter: JobAdapter, local: Obj, remote: Obj, workload: Obj) -> Obj:
    """A merge patch that also gives a remote elastic job the size of the manager's, and the slice it has that size by.

    While `workload` is the slice of a smaller size there is nothing to add: a job that has grown waits for its larger slice.
    """
    if not is_elastic(local) or not (adapter.elastic_fields or adapter.elastic_groups):
        return patch
    size = _size(adapter, local)
    if size > _size(adapter, remote) and size > sum(pods["count"] for pods in pod_sets_of(workload)):
        return patch
    for place, held in (("annotations", annotations_of(remote)), ("labels", labels_of(remote))):
        if held.get(names.PREBUILT_WORKLOAD) not in (None, name_of(workload)):
            patch = set_in(patch, ("metadata", place), {names.PREBUILT_WORKLOAD: name_of(workload)})
    for path in adapter.elastic_fields:
        wanted = get_in(local, path)
        if wanted != get_in(remote, path) and wanted is not None:
            patch = _put(patch, path, wanted)
    if adapter.elastic_groups is not None:
        path = adapter.elastic_groups.path
        groups = _with_sizes(get_in(local, path) or [], get_in(remote, path) or [], adapter.elastic_groups)
        patch = patch if groups is None else set_in(patch, path, groups)
    return patch


def _size(adapter: JobAdapter, job: Obj) -> int:
    return sum(pod_set.count for pod_set in adapter.pod_sets(job, lambda resource, key: None))


def _with_sizes(local: Sequence[Obj], remote: Sequence[Obj], sized: SizedGroups) -> list[Obj] | None:
    """The remote groups with the sizes of the local ones of the same name; None when they have them."""
    wanted = {group.get(sized.name): group for group in local}
    resized = []
    for group in remote:
        like = wanted.get(group.get(sized.name), group)
        sizes = {field: like[field] for field in sized.fields if like.get(field) is not None}
        resized.append({**{key: value for key, value in group.items() if key not in sized.fields}, **sizes})
    return resized if resized != list(remote) else None


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
