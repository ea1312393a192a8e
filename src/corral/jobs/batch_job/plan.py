"""The state of one batch/v1 Job: what its pods have done so far and whether that already settles the Job's fate.

`assess` turns a Job, its pods and the time into facts. `job_pods` decides on pods from them, `job_status` writes the
status. A finished pod keeps a finalizer until the status has counted it, so nothing is lost or counted twice when any
step is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.core import conditions
from corral.core.meta import Obj, annotations_of, finalizers_of, is_deleting, spec_of, status_of, uid_of
from corral.core.timestamps import format_time, parse_time
from corral.core.whole_numbers import whole_number
from corral.decide.pods.facts import finished_at, is_active, is_terminating, phase_of, restarts
from corral.jobs.batch_job.failure import NO_BACKOFF, Backoff, judge
from corral.jobs.batch_job.indexes import Indexes

CONTROLLER = "kubernetes.io/job-controller"
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"

BACKOFF_LIMIT = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")
FAILED_INDEXES = ("FailedIndexes", "Job has failed indexes")
MAX_FAILED_INDEXES = (
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
COMPLETIONS_REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")


def is_managed_here(job: Obj) -> bool:
    """Whether the built-in controller runs this Job; any other manager's Job is not touched at all."""
    return spec_of(job).get("managedBy") in (None, CONTROLLER)


def is_indexed(job: Obj) -> bool:
    return spec_of(job).get("completionMode") == "Indexed"


def is_suspended(job: Obj) -> bool:
    return bool(spec_of(job).get("suspend"))


def parallelism_of(job: Obj) -> int:
    value = spec_of(job).get("parallelism")
    return 1 if value is None else int(value)


def completions_of(job: Obj) -> int | None:
    value = spec_of(job).get("completions")
    return None if value is None else int(value)


def replaces_only_failed(job: Obj) -> bool:
    """A terminating pod is replaced only once it has really ended."""
    spec = spec_of(job)
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def has_limit_per_index(job: Obj) -> bool:
    return is_indexed(job) and spec_of(job).get("backoffLimitPerIndex") is not None


def finish_of(job: Obj) -> Obj | None:
    """The terminal condition, Complete or Failed, or None while the Job is not finished."""
    for kind in ("Complete", "Failed"):
        if conditions.is_true(job, kind):
            return conditions.find(job, kind)
    return None


def job_condition(kind: str, status: bool, reason: str, message: str, now: float) -> Obj:
    """A Job condition; unlike other conditions it has a probe time."""
    stamp = format_time(now)
    return {
        "type": kind,
        "status": "True" if status else "False",
        "lastProbeTime": stamp,
        "lastTransitionTime": stamp,
        "reason": reason,
        "message": message,
    }


def index_of(pod: Obj) -> int | None:
    """The completion index a pod was made for."""
    return whole_number(annotations_of(pod).get(INDEX, ""))


def is_tracked(pod: Obj) -> bool:
    """The pod has not been counted yet."""
    return TRACKING in finalizers_of(pod)


def is_failed(job: Obj, pod: Obj) -> bool:
    """The pod counts as a failure: it failed, or it was deleted before it could end."""
    if phase_of(pod) == "Failed":
        return True
    return is_deleting(pod) and phase_of(pod) != "Succeeded" and not replaces_only_failed(job)


@dataclass(frozen=True, slots=True)
class SyncView:
    """What a sync looks at."""

    job: Obj
    pods: Sequence[Obj]
    now: float
    current: bool = True
    """The pods include everything this controller made and nothing it deleted."""
    released: frozenset[str] = frozenset()
    """Uids of pods whose finalizer is already removed although the view does not show it yet."""
    backoff: Backoff = NO_BACKOFF

    def is_uncounted(self, pod: Obj) -> bool:
        return is_tracked(pod) and uid_of(pod) not in self.released


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the pods have done so far, and the verdict if that settles the Job."""

    active: tuple[Obj, ...]
    terminating: int
    succeeded: int
    backoff: Backoff
    verdict: Obj | None = None
    """SuccessCriteriaMet, FailureTarget or (for a target set earlier) Failed."""
    recorded: Indexes = field(default_factory=Indexes)
    """Indexes the status already counts as succeeded."""
    succeeded_indexes: Indexes = field(default_factory=Indexes)
    failed_indexes: Indexes | None = None
    held: Mapping[int, Obj] = field(default_factory=dict)
    """Per index, the failed pod that stays until its replacement carries its failure count on."""
    deadline_in: float | None = None


def assess(view: SyncView) -> PodFacts:
    """Count the pods and find out whether the Job's fate is settled."""
    job = view.job
    status, uncounted = status_of(job), status_of(job).get("uncountedTerminatedPods") or {}
    new_succeeded = _newly(view, set(uncounted.get("succeeded") or ()), lambda pod: phase_of(pod) == "Succeeded")
    new_failed = _newly(view, set(uncounted.get("failed") or ()), lambda pod: is_failed(job, pod))
    succeeded = int(status.get("succeeded") or 0) + len(new_succeeded) + len(uncounted.get("succeeded") or ())
    failed = int(status.get("failed") or 0) + len(uncounted.get("failed") or ())
    failed += sum(judge(job, pod).counts for pod in new_failed)
    active = tuple(pod for pod in view.pods if is_active(pod))
    terminating = sum(is_terminating(pod) for pod in view.pods)
    backoff = view.backoff.after(new_succeeded, new_failed, view.now)
    verdict, deadline_in = _verdict(view, failed)
    facts = PodFacts(active, terminating, succeeded, backoff, verdict, deadline_in=deadline_in)
    return _with_indexes(view, facts) if is_indexed(job) else facts


def _newly(view: SyncView, known: set[str], test: Callable[[Obj], bool]) -> list[Obj]:
    """Uncounted pods that pass `test` and are not in the status yet."""
    completions = completions_of(view.job) or 0
    result = []
    for pod in view.pods:
        if not view.is_uncounted(pod) or uid_of(pod) in known:
            continue
        if is_indexed(view.job):
            index = index_of(pod)
            if index is None or index >= completions:
                continue
        if test(pod):
            result.append(pod)
    return result


def _verdict(view: SyncView, failed: int) -> tuple[Obj | None, float | None]:
    """The verdict that does not depend on indexes, and otherwise how long until the deadline."""
    job, now = view.job, view.now
    if conditions.is_true(job, "SuccessCriteriaMet"):
        return conditions.find(job, "SuccessCriteriaMet"), None
    target = conditions.find(job, "FailureTarget")
    if target is not None and target.get("status") == "True":
        return job_condition("Failed", True, target["reason"], target.get("message", ""), now), None
    message = next((text for pod in view.pods if is_failed(job, pod) and (text := judge(job, pod).message)), "")
    if message:
        return job_condition("FailureTarget", True, "PodFailurePolicy", message, now), None
    if failed > _backoff_limit(job) or _restarted_too_often(view):
        return job_condition("FailureTarget", True, *BACKOFF_LIMIT, now), None
    left = deadline_left(job, now)
    if left is not None and left <= 0:
        return job_condition("FailureTarget", True, *DEADLINE, now), None
    return None, left


def _backoff_limit(job: Obj) -> int:
    limit = spec_of(job).get("backoffLimit")
    return 6 if limit is None else int(limit)


def _restarted_too_often(view: SyncView) -> bool:
    """Containers restarted in place count towards the limit too."""
    template = spec_of(view.job).get("template") or {}
    if (template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    total = sum(restarts(pod) for pod in view.pods if phase_of(pod) in ("Running", "Pending"))
    return total >= max(1, _backoff_limit(view.job))


def deadline_left(job: Obj, now: float) -> float | None:
    """Seconds until the Job's active deadline; None when there is none or it does not run."""
    limit = spec_of(job).get("activeDeadlineSeconds")
    if limit is None or is_suspended(job):
        return None
    started = status_of(job).get("startTime")
    return float(limit) - (now - parse_time(started) if started else 0.0)


def _with_indexes(view: SyncView, facts: PodFacts) -> PodFacts:
    job, completions = view.job, completions_of(view.job) or 0
    recorded = Indexes.parse(status_of(job).get("completedIndexes") or "", completions)
    done = recorded | Indexes.of(
        index
        for pod in view.pods
        if phase_of(pod) == "Succeeded"
        and is_tracked(pod)
        and (index := index_of(pod)) is not None
        and index < completions
    )
    failed, verdict, held = None, facts.verdict, {}
    if has_limit_per_index(job):
        failed = _failed_indexes(view, completions)
        verdict = verdict or _index_verdict(view, failed, len(done), completions)
        held = _held(view, facts.active, done, failed)
    if verdict is None:
        rule = matching_success_rule(job, done)
        if rule is not None:
            message = f"Matched rules at index {rule}"
            verdict = job_condition("SuccessCriteriaMet", True, "SuccessPolicy", message, view.now)
    return replace(
        facts,
        succeeded=len(done),
        verdict=verdict,
        recorded=recorded,
        succeeded_indexes=done,
        failed_indexes=failed,
        held=held,
    )


def _failed_indexes(view: SyncView, completions: int) -> Indexes:
    job = view.job
    recorded = Indexes.parse(status_of(job).get("failedIndexes") or "", completions)
    return recorded | Indexes.of(
        index
        for pod in view.pods
        if is_tracked(pod)
        and (index := index_of(pod)) is not None
        and index < completions
        and is_failed(job, pod)
        and _ends_index(job, pod)
    )


def _ends_index(job: Obj, pod: Obj) -> bool:
    judgement = judge(job, pod)
    if judgement.action == "FailIndex":
        return True
    return judgement.counts and index_failures(pod) >= int(spec_of(job)["backoffLimitPerIndex"])


def _index_verdict(view: SyncView, failed: Indexes, succeeded: int, completions: int) -> Obj | None:
    limit = spec_of(view.job).get("maxFailedIndexes")
    if limit is not None and len(failed) > int(limit):
        return job_condition("FailureTarget", True, *MAX_FAILED_INDEXES, view.now)
    if len(failed) > 0 and len(failed) + succeeded >= completions:
        return job_condition("FailureTarget", True, *FAILED_INDEXES, view.now)
    return None


def index_failures(pod: Obj) -> int:
    """Failures of this index before this pod."""
    return whole_number(annotations_of(pod).get(INDEX_FAILURES, "")) or 0


def ignored_index_failures(pod: Obj) -> int:
    return whole_number(annotations_of(pod).get(INDEX_IGNORED, "")) or 0


def _held(view: SyncView, active: Sequence[Obj], done: Indexes, failed: Indexes) -> dict[int, Obj]:
    settled = done | failed | Indexes.of(index for pod in active if (index := index_of(pod)) is not None)
    held: dict[int, Obj] = {}

    def rank(pod: Obj) -> tuple[int, float]:
        return index_failures(pod) + ignored_index_failures(pod), finished_at(pod, view.now)

    for pod in _newly(view, set(), lambda pod: is_failed(view.job, pod)):
        index = index_of(pod)
        if index is None or index in settled:
            continue
        if index not in held or rank(pod) >= rank(held[index]):
            held[index] = pod
    return held


def matching_success_rule(job: Obj, done: Indexes) -> int | None:
    """The position of the first success policy rule that `done` satisfies."""
    policy = spec_of(job).get("successPolicy") or {}
    completions = completions_of(job) or 0
    for position, rule in enumerate(policy.get("rules") or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            wanted = Indexes.parse(rule["succeededIndexes"], completions)
            if len(done) and wanted.common(done) >= (len(wanted) if count is None else int(count)):
                return position
        elif count is not None and len(done) >= int(count):
            return position
    return None
