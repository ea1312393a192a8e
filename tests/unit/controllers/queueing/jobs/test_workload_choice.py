"""Which Workload is a job's: a job and what it has, and the verdict on it."""

from __future__ import annotations

from typing import Any

import pytest

from corral.controllers.queueing.jobs.view import JobView
from corral.controllers.queueing.jobs.workload_choice import (
    MISSING,
    RESTORING,
    UNRESTORABLE,
    Discard,
    OutOfSync,
    Proceed,
    Rewrite,
    StopFirst,
    StoreWorkload,
    WaitForOthers,
    WorkloadVerdict,
    find,
    find_prebuilt,
)
from corral.core.meta import Obj, name_of, uid_of
from corral.jobs.batch_job.adapter import BatchJob
from corral.kinds.kueue import names
from corral.workload import workload as wl

COMPLETE = {"type": "Complete", "status": "True", "message": "done"}


def view(
    *, pods: int = 2, suspend: bool = True, done: bool = False, elastic: bool = False, image: str = "i", **metadata: Any
) -> JobView:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}}
    job: Obj = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default", "uid": "job-uid", **metadata},
        "spec": {"parallelism": pods, "completions": pods, "suspend": suspend, "template": template},
        "status": {"conditions": [COMPLETE]} if done else {},
    }
    return JobView(BatchJob(), job, lambda resource, key: None, elastic=elastic)


def named(**more: Any) -> JobView:
    """Such a job that says which Workload is its own; what is not about the job itself goes into its pods."""
    own = {name: more.pop(name) for name in ("pods", "suspend", "image") if name in more}
    result = view(**own, annotations={"kueue.x-k8s.io/prebuilt-workload-name": "w"})
    result.job["spec"]["template"]["spec"].update(more)
    return result


def made(name: str = "w", *held: str, pods: int = 2, image: str = "i", owned: bool = True, **metadata: Any) -> Obj:
    """The Workload of such a job, as far as the conditions in `held`."""
    job = view(pods=pods, image=image)
    workload = wl.new_workload(job.job, name, job.pod_sets, queue="q", priority=0)
    workload["metadata"].update(metadata)
    if not owned:
        del workload["metadata"]["ownerReferences"]
    conditions = [{"type": kind, "status": "True"} for kind in held]
    return {**workload, "status": {"conditions": conditions}}


def summary(verdict: WorkloadVerdict) -> tuple[Any, ...]:
    """A verdict with names instead of Workloads."""

    def short(part: Any) -> Any:
        if isinstance(part, dict):
            return name_of(part)
        return [name_of(entry) for entry in part] if isinstance(part, list) else part

    return (type(verdict).__name__, *(short(part) for part in verdict))


RUNNING, WAITING, DONE = view(suspend=False), view(), view(suspend=False, done=True)
CASES: dict[str, tuple[JobView, list[Obj], tuple[Any, ...]]] = {
    "none yet": (WAITING, [], summary(Proceed(None))),
    "one that fits": (WAITING, [made()], summary(Proceed(made()))),
    "one that fits and runs": (RUNNING, [made("w", "QuotaReserved", "Admitted")], summary(Proceed(made()))),
    "one too many": (WAITING, [made("w"), made("x", pods=3)], summary(Discard([made("x")]))),
    "the job changed while it waits": (view(pods=5), [made()], summary(Rewrite(made()))),
    "the job changed with quota": (view(pods=5), [made("w", "QuotaReserved")], summary(Discard([made()]))),
    "the job changed while it runs": (
        view(suspend=False, image="other"),
        [made("w", "QuotaReserved")],
        ("StopFirst", "w", RESTORING, ["w"]),
    ),
    "two that do not fit a running job": (
        view(suspend=False, pods=5),
        [made("w"), made("x")],
        ("StopFirst", None, UNRESTORABLE, ["w", "x"]),
    ),
    "running without any": (RUNNING, [], ("StopFirst", None, UNRESTORABLE, [])),
    "a finished one belongs to it": (view(pods=5), [made("w", "Finished")], summary(Proceed(made()))),
    "a leaving one belongs to it": (
        view(pods=5),
        [made(deletionTimestamp="2026-01-01T00:00:00Z")],
        summary(Proceed(made())),
    ),
    "the job is done": (DONE, [made()], summary(Proceed(made()))),
    "done and changed": (view(suspend=False, done=True, pods=5), [made()], summary(Discard([made()]))),
}


@pytest.mark.parametrize("name", CASES)
def test_own_workloads(name: str) -> None:
    job, held, wanted = CASES[name]
    assert summary(find(job, held)) == wanted


OLD, NEW = {"creationTimestamp": "2026-01-01T00:00:00Z"}, {"creationTimestamp": "2026-01-01T00:01:00Z"}
REPLACES = {"annotations": {names.WORKLOAD_SLICE_REPLACEMENT_FOR: "default/old"}}
SLICES: dict[str, tuple[JobView, list[Obj], tuple[Any, ...]]] = {
    "none yet": (view(elastic=True), [], ("Proceed", None, (), None)),
    "same size": (view(elastic=True), [made()], ("Proceed", "w", [], None)),
    "grew": (view(elastic=True, pods=4), [made("w", "QuotaReserved")], ("Proceed", "w", (), "w")),
    "grew before it had quota": (view(elastic=True, pods=4), [made()], ("StoreWorkload", "w")),
    "shrank": (view(elastic=True, pods=1), [made("w", "QuotaReserved")], ("StoreWorkload", "w")),
    "grew, then changed its mind": (
        view(elastic=True),
        [made("old", "QuotaReserved", **OLD), made("new", pods=4, **NEW)],
        ("Discard", ["new"]),
    ),
    "the larger slice waits": (
        view(elastic=True, pods=4),
        [made("old", "QuotaReserved", **OLD), made("new", pods=4, **NEW)],
        ("Proceed", "old", [], None),
    ),
    "the larger slice took over": (
        view(elastic=True, pods=4),
        [made("old", "QuotaReserved", "Finished", **OLD), made("new", "QuotaReserved", pods=4, **NEW)],
        ("Proceed", "new", [], None),
    ),
    "the larger slice has quota, and nobody has ended the other yet": (
        view(elastic=True, pods=4),
        [made("old", "QuotaReserved", **OLD), made("new", "QuotaReserved", pods=4, **REPLACES, **NEW)],
        ("TakenOver", ["old"], "new"),
    ),
    "the larger slice waits, made in the same second and changed less lately": (
        view(elastic=True, pods=4),
        [
            made("new", pods=4, resourceVersion="8", **REPLACES, **OLD),
            made("old", "QuotaReserved", resourceVersion="9", **OLD),
        ],
        ("Proceed", "old", [], None),
    ),
    "grew again within that second": (
        view(elastic=True, pods=9),
        [
            made("new", pods=4, resourceVersion="8", **REPLACES, **OLD),
            made("old", "QuotaReserved", resourceVersion="9", **OLD),
        ],
        ("Discard", ["new"]),
    ),
    "done": (
        view(elastic=True, done=True, pods=9),
        [made("old", **OLD), made("new", **NEW)],
        ("Proceed", "new", (), None),
    ),
}


@pytest.mark.parametrize("name", SLICES)
def test_slices(name: str) -> None:
    job, held, wanted = SLICES[name]
    assert summary(find(job, held)) == wanted


PREBUILT: dict[str, tuple[JobView, Obj | None, tuple[Any, ...]]] = {
    "not there yet": (WAITING, None, summary(WaitForOthers())),
    "not there, and running": (RUNNING, None, ("StopFirst", None, MISSING, ())),
    "not there, and done": (DONE, None, summary(WaitForOthers())),
    "nobody's": (WAITING, made(owned=False), summary(StoreWorkload(made()))),
    "somebody else's": (
        WAITING,
        made(ownerReferences=[{"uid": "other", "controller": True, "kind": "Job", "name": "o"}]),
        summary(WaitForOthers()),
    ),
    "fits": (WAITING, made(), summary(Proceed(made()))),
    "describes another job": (named(pods=5), made(), summary(OutOfSync(made()))),
    "of another image": (named(image="other"), made(), summary(OutOfSync(made()))),
    "differs in what API servers fill in": (
        named(dnsPolicy="ClusterFirst", terminationGracePeriodSeconds=30, schedulerName="s", restartPolicy="OnFailure"),
        made(),
        summary(Proceed(made())),
    ),
    "selects other nodes": (named(nodeSelector={"a": "b"}), made(), summary(Proceed(made()))),
    "tolerates something else": (named(tolerations=[{"operator": "Exists"}]), made(), summary(OutOfSync(made()))),
    "tolerates what admission added": (
        named(suspend=False, tolerations=[{"operator": "Exists"}]),
        made("w", "QuotaReserved", "Admitted"),
        summary(Proceed(made())),
    ),
    "has another container to begin with": (
        named(initContainers=[{"name": "i", "image": "i"}]),
        made(),
        summary(OutOfSync(made())),
    ),
    "an elastic job is resized before or after it": (view(pods=5, elastic=True), made(), summary(Proceed(made()))),
}


@pytest.mark.parametrize("name", PREBUILT)
def test_prebuilt(name: str) -> None:
    job, workload, wanted = PREBUILT[name]
    assert summary(find_prebuilt(job, workload)) == wanted


def test_an_adopted_workload_knows_its_job() -> None:
    verdict = find_prebuilt(WAITING, made(owned=False))
    assert isinstance(verdict, StoreWorkload)
    assert [owner["name"] for owner in verdict.workload["metadata"]["ownerReferences"]] == ["j"]
    assert verdict.workload["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == uid_of(WAITING.job)


def test_a_job_that_is_being_stopped_may_still_differ_where_admission_changed_it() -> None:
    stopping = view(annotations={"kueue.x-k8s.io/stopping": "true"})
    assert stopping.changed_by_admission
    assert not WAITING.changed_by_admission


def test_stop_first_is_for_jobs_that_run() -> None:
    assert isinstance(find(view(suspend=False, pods=5), [made()]), StopFirst)
    assert isinstance(find(view(pods=5), [made()]), Rewrite)
