"""What to do about a reason that waiting does not cure, by the reason's value: no message is read for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from corral.decide.dispatch.reasons import REFUSED, TOO_LARGE, WorkerAnswer
from corral.decide.queueing.explanation import NAMESPACE_NOT_SELECTED, Explanation

TOO_MUCH = (
    "It asks for more than there can ever be: ask for less, or raise the quota. `corral up` shares this machine out among its "
    "clusters: fewer --workers have more each, and --cpu or --memory with --overcommit promise more than there is."
)
OTHER_NAMESPACE = (
    "Use a queue that is open to this namespace, or label the namespace as the ClusterQueue's namespaceSelector asks."
)
NO_QUOTA = (
    "The ClusterQueue has no quota for {what}: add it to a resource group, or do not ask for it. A fleet of `corral up` has what "
    "the machine has, and what `corral up --gpu {first}=COUNT` says."
)
RUNTIME_MISSING = "Create the runtime on every worker that may run the job."
CHECK_INACTIVE = "`corral explain admissioncheck/{what}` shows what it lacks; the queue admits again once it is active."

BY_DETAIL = {"ExceedsMaxQuota": TOO_MUCH, NAMESPACE_NOT_SELECTED: OTHER_NAMESPACE}
RUNTIME_FIELDS = ("spec.runtimeRef",)


def for_waiting(found: Explanation | None, reason: str) -> str:
    """For a Workload that waits for quota; `reason` is that of its condition, which may be granular as well."""
    if found is None:
        return BY_DETAIL.get(reason, "")
    if found.unavailable:
        return NO_QUOTA.format(what=", ".join(found.unavailable), first=found.unavailable[0])
    return TOO_MUCH if is_too_large_for_all(found.workers) else BY_DETAIL.get(found.detail, "")


def for_answers(answers: Sequence[WorkerAnswer]) -> str:
    """For a Workload that no worker takes, once all of them have answered."""
    if is_too_large_for_all(answers):
        return TOO_MUCH
    refused = [answer for answer in answers if answer.detail == REFUSED]
    lacks_runtime = any(set(answer.fields) & set(RUNTIME_FIELDS) for answer in refused)
    return RUNTIME_MISSING if lacks_runtime and len(refused) == len(answers) else ""


def is_too_large_for_all(answers: Sequence[WorkerAnswer]) -> bool:
    """Whether each worker that may run it could never take it."""
    return bool(answers) and all(answer.detail == TOO_LARGE for answer in answers)


def for_inactive_queue(missing: Mapping[str, Collection[str]], inactive_checks: Sequence[str]) -> str:
    """For the Workloads of a ClusterQueue that refers to what is not there (names by kind), or to checks that are not active."""
    for kind, names in missing.items():
        if names:
            return f"Create {kind} {','.join(names)}."
    return CHECK_INACTIVE.format(what=inactive_checks[0]) if inactive_checks else ""
