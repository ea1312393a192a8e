"""batch/v1 Job: one pod set, optional partial admission, freed pods near the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from corral.core import conditions
from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of, metadata_of, spec_of, status_of, uid_of, with_annotations, with_status
from corral.core.resource import Resource
from corral.core.validation import forbidden, invalid, keyed
from corral.core.whole_numbers import whole_number
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.adapter import JobOutcome, Slot, StopWrite, SuspendableJob
from corral.jobs.framework.paths import Path, get_in, set_in
from corral.jobs.framework.remote_copy import bare_copy
from corral.kinds.kueue import names
from corral.workload.podsets import DEFAULT_NAME, PodSetInfo

TEMPLATE = ("spec", "template")
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
CONTROLLER_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")


class BatchJob(SuspendableJob):
    """Kubernetes' own Job."""

    framework: ClassVar[str] = "batch/job"
    resource: ClassVar[Resource] = JOBS
    own_managers: ClassVar[tuple[str, ...]] = ("kubernetes.io/job-controller",)
    kept_template_labels: ClassVar[tuple[str, ...]] = (*CONTROLLER_LABELS, *NAME_LABELS)
    is_numerous: ClassVar[bool] = True
    elastic: ClassVar[bool] = True
    elastic_template: ClassVar[Path | None] = TEMPLATE
    followed_fields: ClassVar[tuple[Path, ...]] = (("spec", "activeDeadlineSeconds"), ("spec", "backoffLimit"))
    elastic_fields: ClassVar[tuple[Path, ...]] = (("spec", "parallelism"), ("spec", "completions"))

    def pod_selector(self, job: Obj) -> str:
        return f"{CONTROLLER_LABELS[0]}={uid_of(job)}"

    def slots(self, job: Obj) -> list[Slot]:
        count = pods_at_once(job)
        return [Slot(DEFAULT_NAME, TEMPLATE, count, _min_count(job, count), index_label=INDEX_LABEL)]

    def run(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        started = super().run(job, infos)
        count = infos[0].count
        if _min_count(job, pods_at_once(job)) is None or not count or count == pods_at_once(job):
            return started
        started = set_in(started, ("spec", "parallelism"), count)
        if _completions_follow(job):
            started = set_in(started, ("spec", "completions"), count)
        return started

    def stop(self, job: Obj, infos: Sequence[PodSetInfo]) -> StopWrite | None:
        """Suspend first, then forget the start time, then put the template back: Kubernetes allows no other order."""
        if not self.is_suspended(job):
            return StopWrite(with_annotations(self.suspend(job), {names.STOPPING: "true"}))
        if status_of(job).get("startTime"):
            return StopWrite(set_in(job, ("status", "startTime"), None), "status")
        original = with_annotations(self.restore(job, infos), {names.STOPPING: None})
        changed = names.STOPPING in annotations_of(job) or original["spec"] is not job["spec"]
        return StopWrite(original) if changed else None

    def restore(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        restored = super().restore(job, infos)
        count = infos[0].count if infos else 0
        if names.JOB_MIN_PARALLELISM not in annotations_of(job) or not count or count == parallelism(job):
            return restored
        restored = set_in(restored, ("spec", "parallelism"), count)
        return set_in(restored, ("spec", "completions"), count) if _completions_follow(job) else restored

    def finished(self, job: Obj) -> JobOutcome | None:
        for entry in conditions.conditions_of(job):
            if entry.get("type") in ("Complete", "Failed") and entry.get("status") == "True":
                return JobOutcome(entry.get("message") or "", entry["type"] == "Complete")
        return None

    def pods_ready(self, job: Obj) -> bool:
        status = status_of(job)
        uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
        done = int(status.get("succeeded") or 0) + len(uncounted)
        return done + int(status.get("ready") or 0) >= pods_at_once(job)

    def reclaimable_pods(self, job: Obj) -> dict[str, int]:
        at_once, done = parallelism(job), _done(job)
        if at_once == 1 or not done:
            return {}
        remaining = max(completions(job) - done, 0)
        return {DEFAULT_NAME: at_once - remaining} if remaining < at_once else {}

    def validate(self, job: Obj, old: Obj | None) -> list[Cause]:
        if old is None:
            return _partial_admission(job)
        # A job that runs with fewer pods, or is being stopped, is judged by what the user wrote, not by its present size.
        causes = _partial_admission(job) if _annotated(job) != _annotated(old) else []
        return [*causes, *_partial_admission_update(job, old, self.is_suspended(job))]

    def remote_object(self, job: Obj, workload_name: str, origin: str) -> Obj:
        copy = set_in(bare_copy(job, workload_name, origin), ("spec", "managedBy"), None)
        copy = set_in(copy, ("spec", "selector"), None)
        labels = get_in(job, (*TEMPLATE, "metadata", "labels"), {})
        kept = {label: value for label, value in labels.items() if label not in _GENERATED_LABELS}
        return set_in(copy, (*TEMPLATE, "metadata", "labels"), kept or None) if labels else copy

    def sync_status(self, local: Obj, remote: Obj) -> Obj | None:
        """A suspended Job may not have a start time, so status waits until both sides agree about suspension.

        Meanwhile the local Job says that it is suspended: without that the API refuses to start it.
        """
        if self.is_suspended(local) and not self.is_suspended(remote) and self.finished(remote) is None:
            return None if conditions.find(local, "Suspended") else _suspended_here(local, remote)
        return super().sync_status(local, _counted(local, remote))

    def stopped_status(self, job: Obj, now: str) -> Obj:
        """What is counted stays; nothing runs any more."""
        gone = ("active", "ready", "startTime", "terminating")
        status = {name: value for name, value in status_of(job).items() if name not in gone}
        entry = conditions.condition("Suspended", True, "MultiKueueAdapter", "The worker that ran the Job is gone")
        held = conditions.conditions_of(job)
        return {**status, "conditions": conditions.set_condition(held, {**entry, "lastProbeTime": now}, now)}


def _counted(local: Obj, remote: Obj) -> Obj:
    """The remote Job with what earlier runs elsewhere counted: the API does not let these numbers go down."""
    raised = {
        name: before
        for name in ("failed", "succeeded")
        if (before := int(status_of(local).get(name) or 0)) > int(status_of(remote).get(name) or 0)
    }
    return with_status(remote, {**status_of(remote), **raised}) if raised else remote


def _suspended_here(local: Obj, remote: Obj) -> Obj:
    since = metadata_of(remote).get("creationTimestamp")
    entry = conditions.condition("Suspended", True, "MultiKueueAdapter", "Set by MultiKueue adapter")
    entry |= {"lastProbeTime": since, "lastTransitionTime": since}
    return with_status(local, {**status_of(local), "conditions": [*conditions.conditions_of(local), entry]})


_GENERATED_LABELS = frozenset({*CONTROLLER_LABELS, *NAME_LABELS})


def parallelism(job: Obj) -> int:
    value = spec_of(job).get("parallelism")
    return 1 if value is None else int(value)


def completions(job: Obj) -> int:
    value = spec_of(job).get("completions")
    return parallelism(job) if value is None else int(value)


def pods_at_once(job: Obj) -> int:
    """Pods that need resources at the same time."""
    value = spec_of(job).get("completions")
    return parallelism(job) if value is None else min(parallelism(job), int(value))


def _min_count(job: Obj, count: int) -> int | None:
    return whole_number(annotations_of(job).get(names.JOB_MIN_PARALLELISM, ""))


def _annotated(job: Obj) -> list[str | None]:
    held = annotations_of(job)
    return [held.get(names.JOB_MIN_PARALLELISM), held.get(names.JOB_COMPLETIONS_EQUAL_PARALLELISM)]


def _completions_follow(job: Obj) -> bool:
    return annotations_of(job).get(names.JOB_COMPLETIONS_EQUAL_PARALLELISM) == "true"


def _done(job: Obj) -> int:
    """How many pods will not run again: those that succeeded or, with indexes, all that completed or failed for good."""
    status = status_of(job)
    if spec_of(job).get("completionMode") != "Indexed":
        return int(status.get("succeeded") or 0)
    # A job that was made smaller may still report indexes it does not have any more, and one index may be in both lists.
    intervals = sorted([*_intervals(status.get("completedIndexes")), *_intervals(status.get("failedIndexes"))])
    count, counted = 0, -1
    for first, last in intervals:
        end = min(last, completions(job) - 1)
        count += max(0, end - max(first - 1, counted))
        counted = max(counted, end)
    return count


def _intervals(text: str | None) -> list[tuple[int, int]]:
    """First and last index of each part of a list such as `0,2-4`."""
    bounds = [part.split("-") for part in text.split(",")] if text else []
    return [(int(bound[0]), int(bound[-1])) for bound in bounds]


MIN_PATH = keyed("metadata.annotations", names.JOB_MIN_PARALLELISM)
FOLLOW_PATH = keyed("metadata.annotations", names.JOB_COMPLETIONS_EQUAL_PARALLELISM)


def _partial_admission(job: Obj) -> list[Cause]:
    text = annotations_of(job).get(names.JOB_MIN_PARALLELISM)
    causes: list[Cause] = []
    if text is not None:
        least = whole_number(text.removeprefix("-"))
        if least is None:
            causes.append(invalid(MIN_PATH, text, f'strconv.Atoi: parsing "{text}": invalid syntax'))
        elif text.startswith("-") or not 0 < least < pods_at_once(job):
            causes.append(invalid(MIN_PATH, int(text), f"should be between 0 and {pods_at_once(job) - 1}"))
        if annotations_of(job).get(names.ELASTIC_JOB) == "true":
            causes.append(invalid(MIN_PATH, text, "partial admission and elastic job cannot be used together"))
    return [*causes, *_following_completions(job)]


def _following_completions(job: Obj) -> list[Cause]:
    text = annotations_of(job).get(names.JOB_COMPLETIONS_EQUAL_PARALLELISM)
    if text is None:
        return []
    if text not in ("true", "false"):
        return [invalid(FOLLOW_PATH, text, f'strconv.ParseBool: parsing "{text}": invalid syntax')]
    if text == "false":
        return []
    if spec_of(job).get("completionMode") != "Indexed":
        return [invalid(FOLLOW_PATH, text, "should not be enabled for NonIndexed jobs")]
    if completions(job) != parallelism(job):
        detail = f"should be equal to parallelism when {names.JOB_COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        return [invalid("spec.completions", completions(job), detail)]
    return []


def _partial_admission_update(new: Obj, old: Obj, suspended: bool) -> list[Cause]:
    causes: list[Cause] = []
    partial = names.JOB_MIN_PARALLELISM in annotations_of(new)
    if not suspended and partial and parallelism(new) != parallelism(old) and not get_in(old, ("spec", "suspend")):
        text = "cannot change when partial admission is enabled and the job is not suspended"
        causes.append(forbidden("spec.parallelism", text))
    if not suspended and _completions_follow(new) != _completions_follow(old):
        causes.append(forbidden(FOLLOW_PATH, "field is immutable while the job is not suspended"))
    return causes
