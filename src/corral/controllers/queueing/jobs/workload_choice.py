"""Which Workload is a job's, and what has to happen first when the ones it has do not fit.

Pure: a job and the Workloads it has go in, a verdict comes out, and `jobs.controller` acts on it. Usually a job has one
Workload that describes it. A job that was changed while it waits gets its Workload rewritten; one that was changed while it
runs is stopped first. An elastic job has slices, one for each size, and a prebuilt Workload is adopted as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from corral.controllers.queueing.jobs import elastic
from corral.controllers.queueing.jobs.view import JobView
from corral.core.meta import (
    Obj,
    annotations_of,
    controller_of,
    is_deleting,
    is_owned_by,
    key_of,
    metadata_of,
    owner_ref,
    owner_references_of,
    spec_of,
    uid_of,
    with_labels,
    with_metadata,
    with_spec,
)
from corral.kinds.kueue import names
from corral.workload import workload as wl
from corral.workload.podsets import same_claim, same_shape

MISSING = "missing workload"
UNRESTORABLE = "Missing Workload; unable to restore pod templates"
RESTORING = "No matching Workload; restoring pod templates according to existent Workload"

Fits = Callable[[JobView, Obj], bool]


class Proceed(NamedTuple):
    """Go on with this Workload, or without one when it is None."""

    workload: Obj | None
    stale: Sequence[Obj] = ()
    """Slices that are not needed any more."""
    outgrown: Obj | None = None
    """The slice that a larger one has to take over from."""


class Rewrite(NamedTuple):
    """The job was changed while it waits: describe it anew."""

    workload: Obj


class StoreWorkload(NamedTuple):
    """Store the Workload like this: adopted, or with other counts."""

    workload: Obj


class Discard(NamedTuple):
    """These describe something else."""

    workloads: Sequence[Obj]


class StopFirst(NamedTuple):
    """Nothing allows the job to run: stop it, restored from `workload` if there is one, then delete `doomed`."""

    workload: Obj | None
    message: str
    doomed: Sequence[Obj] = ()


class TakenOver(NamedTuple):
    """These slices have ended: a larger one has their place. Whoever admitted that one ends them too, a moment later or never."""

    slices: Sequence[Obj]
    successor: Obj


class OutOfSync(NamedTuple):
    """A prebuilt Workload describes another job."""

    workload: Obj


class WaitForOthers(NamedTuple):
    """Nothing to do here until somebody else acts, such as the owner of the Workload."""


WorkloadVerdict = Proceed | Rewrite | StoreWorkload | Discard | StopFirst | TakenOver | OutOfSync | WaitForOthers


def describes(view: JobView, workload: Obj) -> bool:
    """Whether the pod sets of `workload` are those of the job as it is."""
    expected = wl.pod_sets_of(workload)
    try:
        actual = view.pod_sets
    except ValueError:
        return True
    if len(expected) != len(actual):
        return False
    started = view.changed_by_admission
    partial = started and any(entry.get("minCount") is not None for entry in expected)
    running = started or wl.is_admitted(workload)
    if view.prebuilt:
        return all(same_claim(*pair, running=running) for pair in zip(expected, actual, strict=True))
    return all(
        same_shape(entry, pod_set, compare_counts=not partial, running=running)
        for entry, pod_set in zip(expected, actual, strict=True)
    )


def find(view: JobView, held: Sequence[Obj], fits: Fits = describes) -> WorkloadVerdict:
    """The verdict on the Workloads a job owns."""
    if view.elastic:
        return _slice(view, held)
    match = next((found for found in held if _belongs(view, found, fits)), None)
    others = [found for found in held if found is not match]
    if match is None and len(others) == 1 and _may_rewrite(view, others[0]):
        return Rewrite(others[0])
    if match is None and view.runs:
        only = others[0] if len(others) == 1 else None
        return StopFirst(only, UNRESTORABLE if only is None else RESTORING, others)
    return Discard(others) if others else Proceed(match)


def find_prebuilt(view: JobView, workload: Obj | None, fits: Fits = describes) -> WorkloadVerdict:
    """The verdict on the Workload a job names."""
    if workload is None:
        return StopFirst(None, MISSING) if view.runs else WaitForOthers()
    if not is_owned_by(workload, uid_of(view.job)):
        return StoreWorkload(_adopted(workload, view.job)) if controller_of(workload) is None else WaitForOthers()
    # An elastic job and its slice are resized one after the other.
    if view.finish is None and not view.elastic and not _belongs(view, workload, fits):
        return OutOfSync(workload)
    return Proceed(workload)


def _belongs(view: JobView, workload: Obj, fits: Fits) -> bool:
    """A Workload that has ended or leaves belongs to its job in any case."""
    return wl.is_finished(workload) or is_deleting(workload) or fits(view, workload)


def _may_rewrite(view: JobView, workload: Obj) -> bool:
    return view.suspended and not wl.has_quota(workload) and not wl.is_finished(workload)


def _adopted(workload: Obj, job: Obj) -> Obj:
    owned = with_metadata(workload, ownerReferences=[*owner_references_of(workload), owner_ref(job)])
    return with_labels(owned, {names.JOB_UID: uid_of(job)})


def _slice(view: JobView, held: Sequence[Obj]) -> WorkloadVerdict:
    """A job that grew gets a new slice beside the one it has; a job that shrank shrinks the one it has."""
    live = _by_age([found for found in held if not wl.is_finished(found)])
    if not live or view.finish is not None:
        last = live or _by_age(held)
        return Proceed(last[-1] if last else None)
    newest = live[-1]
    current = next((found for found in reversed(live) if wl.has_quota(found)), newest)
    change = elastic.change_of(wl.pod_sets_of(newest), view.pod_sets)
    if change == elastic.SAME:
        others = [found for found in live[:-1] if found is not current]
        replaced = {_replaced(found) for found in live if wl.has_quota(found)}
        taken_over = [found for found in others if str(key_of(found)) in replaced]
        return TakenOver(taken_over, current) if taken_over else Proceed(current, stale=others)
    if change == elastic.GREW and wl.has_quota(newest):
        return Proceed(current, outgrown=newest)
    if newest is not current:
        return Discard([newest])
    return StoreWorkload(with_spec(newest, {**spec_of(newest), "podSets": elastic.resized(newest, view.pod_sets)}))


def _by_age(slices: Sequence[Obj]) -> list[Obj]:
    """Slices from the oldest to the newest. Of those made in one second, the one that replaces another came after it."""
    by_key = {str(key_of(found)): found for found in slices}

    def age(found: Obj) -> tuple[str, int]:
        since, depth = str(metadata_of(found).get("creationTimestamp", "")), 0
        before = by_key.get(_replaced(found))
        while before is not None and depth < len(slices):
            before, depth = by_key.get(_replaced(before)), depth + 1
        return since, depth

    return sorted(slices, key=age)


def _replaced(workload: Obj) -> str:
    return str(annotations_of(workload).get(names.WORKLOAD_SLICE_REPLACEMENT_FOR) or "")
