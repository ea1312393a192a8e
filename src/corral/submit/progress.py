"""How far a job is, in one word and one sentence, from its Workload and its pods; and how it ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corral.core import conditions
from corral.core.meta import Obj, spec_of, status_of
from corral.inspect.troubles import PROGRAM_FAILED, troubles_of


@dataclass(frozen=True, slots=True)
class Progress:
    """What can be said of a job now."""

    phase: str
    """queued, admitted, running, succeeded or failed"""
    text: str


def progress_of(
    workload: Obj | None, pods: Sequence[Obj], success: bool | None, position: int | None = None
) -> Progress:
    """The furthest a job has come; `position` is how many are before it while it waits."""
    if success is not None:
        return Progress("succeeded", "succeeded") if success else Progress("failed", "failed")
    cluster = str(status_of(workload).get("clusterName") or "") if workload else ""
    where = f" on {cluster}" if cluster else ""
    wrong = next((f" ({trouble.word})" for trouble in troubles_of(pods)), "")
    running = sum(status_of(pod).get("phase") in ("Running", "Succeeded", "Failed") for pod in pods)
    if running:
        return Progress("running", f"running{where}{wrong}")
    if workload is None:
        return Progress("queued", "waiting for its Workload")
    if conditions.is_true(workload, "Admitted"):
        return Progress("admitted", f"admitted{where}, pods are starting{wrong}")
    queue = spec_of(workload).get("queueName") or "its queue"
    reserved = conditions.find(workload, "QuotaReserved")
    why = str(reserved.get("message") or "") if reserved else ""
    if conditions.is_true(workload, "QuotaReserved"):
        return Progress("queued", f"has quota in {queue}, waits for a cluster")
    return Progress("queued", f"queued in {queue}{_place(position)}" + (f": {why}" if why else ""))


def _place(position: int | None) -> str:
    if position is None:
        return ""
    return f", {position} before it" if position else ", the next"


def exit_code(pods: Sequence[Obj], success: bool) -> int:
    """What the program returned: the first code of its containers that is not 0."""
    if success:
        return 0
    for pod in pods:
        for status in status_of(pod).get("containerStatuses") or ():
            code = ((status.get("state") or {}).get("terminated") or {}).get("exitCode")
            if code:
                return int(code)
    return 1


def ending(pods: Sequence[Obj], success: bool) -> str:
    """How a job ended, and what ended it, if that was not its program itself."""
    if success:
        return "succeeded"
    others = [trouble for trouble in troubles_of(pods) if trouble.is_over and trouble.reason != PROGRAM_FAILED]
    why = f" ({others[0].cause})" if others else ""
    return f"failed with exit code {exit_code(pods, success)}{why}"
