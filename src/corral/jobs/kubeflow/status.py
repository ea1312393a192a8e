"""The status of a kubeflow.org/v1 training job: conditions, whose last entry is the state, and replica counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corral.core import conditions
from corral.core.meta import Obj, is_deleting, labels_of, name_of, namespace_of, spec_of
from corral.core.timestamps import format_time
from corral.core.whole_numbers import whole_number
from corral.decide.pods.facts import phase_of
from corral.jobs.kubeflow.environment import replicas_of
from corral.jobs.kubeflow.kind import MPI, PADDLE, PYTORCH, TENSORFLOW, XGBOOST, Framework

PREFIX = "training.kubeflow.org"
OPERATOR = f"{PREFIX}/operator-name"
JOB_NAME = f"{PREFIX}/job-name"
REPLICA_TYPE = f"{PREFIX}/replica-type"
REPLICA_INDEX = f"{PREFIX}/replica-index"
JOB_ROLE = f"{PREFIX}/job-role"


def put(entries: Sequence[Obj], kind: str, value: bool, reason: str, message: str, now: float) -> list[Obj]:
    """The conditions with one set as upstream does: appended last, running and restarting exclusive, failure final."""
    if conditions.is_true(entries, "Failed"):
        return list(entries)
    status = "True" if value else "False"
    old = conditions.find(entries, kind)
    if old is not None and old["status"] == status and old.get("reason") == reason:
        return list(entries)
    stamp = format_time(now)
    since = old["lastTransitionTime"] if old is not None and old["status"] == status else stamp
    fresh = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": stamp,
        "lastTransitionTime": since,
    }
    rival = {"Running": "Restarting", "Restarting": "Running"}.get(kind)
    kept = []
    for entry in entries:
        if entry["type"] in (kind, rival):
            continue
        if kind in ("Succeeded", "Failed") and entry["type"] == "Running":
            entry = {**entry, "status": "False", "lastUpdateTime": stamp, "lastTransitionTime": stamp}
        kept.append(entry)
    return [*kept, fresh]


def is_finished(status: Obj) -> bool:
    entries = status.get("conditions") or []
    return conditions.is_true(entries, "Succeeded") or conditions.is_true(entries, "Failed")


def count_replicas(framework: Framework, job: Obj, kind: str, pods: Sequence[Obj]) -> Obj:
    """How many pods of one type run, ended well or failed; a running pod on its way out counts as failed."""
    counts = {"active": 0, "succeeded": 0, "failed": 0}
    for pod in pods:
        phase = phase_of(pod)
        if phase == "Running":
            counts["failed" if is_deleting(pod) else "active"] += 1
        elif phase in ("Succeeded", "Failed"):
            counts[phase.lower()] += 1
    result: Obj = {name: number for name, number in counts.items() if number}
    if framework.scalable:
        result["selector"] = ",".join(
            f"{name}={value}" for name, value in sorted(type_labels(framework, job, kind).items())
        )
    return result


def type_labels(framework: Framework, job: Obj, kind: str) -> dict[str, str]:
    return {
        OPERATOR: f"{framework.lower}-controller",
        JOB_NAME: name_of(job),
        REPLICA_TYPE: kind.lower(),
    }


def index_of(pod: Obj) -> int | None:
    return whole_number(labels_of(pod).get(REPLICA_INDEX, ""))


def exit_code(framework: Framework, pod: Obj) -> int | None:
    """The exit code of the main container; None while it has not ended."""
    for entry in (pod.get("status") or {}).get("containerStatuses") or ():
        terminated = (entry.get("state") or {}).get("terminated")
        if entry.get("name") == framework.container and terminated:
            return int(terminated.get("exitCode") or 0)
    return None


def is_retryable(code: int | None) -> bool:
    """Codes from 128 up come from signals; without a code nothing speaks against another try."""
    return code is None or code >= 128


class Judge:
    """Decides running, succeeded, restarting and failed from the replica counts, per framework."""

    def __init__(self, framework: Framework, job: Obj, specs: Mapping[str, Obj], now: float) -> None:
        self._framework = framework
        self._job = job
        self._specs = specs
        self._now = now
        self._kind = framework.kind
        self._short = f"{framework.kind} {name_of(job)}"
        self._long = f"{framework.kind} {namespace_of(job)}/{name_of(job)}"

    def conclude(self, status: Obj, pods: Mapping[str, Sequence[Obj]]) -> Obj:
        """The status with what the counts mean for the job as a whole."""
        for kind, replica in self._specs.items():
            counts = (status.get("replicaStatuses") or {}).get(kind) or {}
            total = replicas_of(self._framework, kind, replica)
            status = self._success(status, kind, total, counts, pods)
            status = self._failure(status, kind, total, counts, replica)
        return status

    def _leader(self) -> str:
        """The type whose success is the job's; empty when all workers decide."""
        if self._framework is MPI:
            return "Launcher"
        if self._framework is TENSORFLOW:
            return next((kind for kind in ("Chief", "Master") if kind in self._specs), "")
        if self._framework in (PYTORCH, PADDLE, XGBOOST):
            return "Master" if "Master" in self._specs else ""
        return ""

    def _success(self, status: Obj, kind: str, total: int, counts: Obj, pods: Mapping[str, Sequence[Obj]]) -> Obj:
        leader = self._leader()
        if kind != (leader or "Worker"):
            return status
        short = bool(leader) and self._framework is not TENSORFLOW
        done = total - int(counts.get("succeeded") or 0) <= 0 or (not leader and self._enough(counts, pods))
        if done:
            text = f"{self._short} is successfully completed." if short else f"{self._long} successfully completed."
            status = self._put(status, "Succeeded", True, "Succeeded", text)
            return {**status, "completionTime": status.get("completionTime") or format_time(self._now)}
        if int(counts.get("active") or 0) > 0:
            text = f"{self._short if short else self._long} is running."
            status = self._put(status, "Running", True, "Running", text)
        return status

    def _enough(self, counts: Obj, pods: Mapping[str, Sequence[Obj]]) -> bool:
        """Without a leader one worker may be enough: any of an elastic job, the first of a TFJob."""
        if self._framework is PYTORCH:
            return spec_of(self._job).get("elasticPolicy") is not None and int(counts.get("succeeded") or 0) > 0
        if self._framework is TENSORFLOW and spec_of(self._job).get("successPolicy") != "AllWorkers":
            first = [pod for pod in pods.get("Worker", ()) if index_of(pod) == 0]
            return any(phase_of(pod) == "Succeeded" for pod in first)
        return False

    def _failure(self, status: Obj, kind: str, total: int, counts: Obj, replica: Obj) -> Obj:
        failed = int(counts.get("failed") or 0)
        if failed == 0 or is_finished(status):
            return status
        policy = replica.get("restartPolicy") or self._framework.restart_policy
        ended = int(counts.get("succeeded") or 0) + int(counts.get("active") or 0)
        if self._framework is TENSORFLOW:
            dynamic = spec_of(self._job).get("enableDynamicWorker") and kind == "Worker"
            if dynamic or conditions.is_true(status.get("conditions") or [], "Restarting"):
                return status
            return self._fail(status, f"{self._long} has failed because {failed} {kind} replica(s) failed.")
        if self._framework in (XGBOOST, MPI):
            again = policy == "ExitCode" or conditions.is_true(status.get("conditions") or [], "Restarting")
        elif total <= ended:
            return status
        else:
            again = policy != "Never"
        if again:
            text = f"{self._short} is restarting because {failed} {kind} replica(s) failed."
            return self._put(status, "Restarting", True, "Restarting", text)
        return self._fail(status, f"{self._short} is failed because {failed} {kind} replica(s) failed.")

    def _fail(self, status: Obj, text: str) -> Obj:
        status = {**status, "completionTime": status.get("completionTime") or format_time(self._now)}
        return self._put(status, "Failed", True, "Failed", text)

    def _put(self, status: Obj, kind: str, value: bool, reason: str, text: str) -> Obj:
        entries = put(status.get("conditions") or [], kind, value, f"{self._kind}{reason}", text, self._now)
        return {**status, "conditions": entries}
