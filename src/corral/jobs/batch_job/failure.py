"""How a failed pod counts: pod failure policies, and the pause before the next attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from corral.core.backoff import doubled
from corral.core.meta import Obj, name_of, namespace_of, spec_of, status_of
from corral.decide.pods.facts import container_statuses, finished_at

FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 600.0


class Judgement(NamedTuple):
    """What a pod failure policy says about one failed pod."""

    counts: bool = True
    action: str = ""
    message: str = ""
    """Why the job fails; only for FailJob."""


def judge(job: Obj, pod: Obj) -> Judgement:
    """The first rule of the job's pod failure policy that matches `pod`; without a match the failure counts."""
    policy = spec_of(job).get("podFailurePolicy") or {}
    for index, rule in enumerate(policy.get("rules") or ()):
        found = _match(rule, pod)
        if found:
            action = str(rule.get("action"))
            message = f"{found} matching FailJob rule at index {index}" if action == "FailJob" else ""
            return Judgement(action != "Ignore", action, message)
    return Judgement()


def _match(rule: Obj, pod: Obj) -> str:
    where = f"{namespace_of(pod)}/{name_of(pod)}"
    if rule.get("onExitCodes") is not None:
        hit = _exit_code(rule["onExitCodes"], pod)
        return f"Container {hit[0]} for pod {where} failed with exit code {hit[1]}" if hit else ""
    for pattern in rule.get("onPodConditions") or ():
        for entry in status_of(pod).get("conditions") or ():
            if entry.get("type") == pattern.get("type") and entry.get("status") == pattern.get("status", "True"):
                return f"Pod {where} has condition {entry['type']}"
    return ""


def _exit_code(requirement: Obj, pod: Obj) -> tuple[str, int] | None:
    wanted = requirement.get("containerName")
    values = requirement.get("values") or []
    for entry in container_statuses(pod):
        code = ((entry.get("state") or {}).get("terminated") or {}).get("exitCode")
        if not code or (wanted and entry.get("name") != wanted):
            continue
        if (code in values) == (requirement.get("operator") == "In"):
            return str(entry.get("name")), int(code)
    return None


class Backoff(NamedTuple):
    """Failures since the last success, and when the latest of them was."""

    failures: int = 0
    last_failure: float | None = None

    def after(self, succeeded: Sequence[Obj], failed: Sequence[Obj], now: float) -> Backoff:
        """The record once these newly finished pods are taken in."""
        failures = sorted(finished_at(pod, now) for pod in failed)
        if not succeeded:
            return Backoff(self.failures + len(failures), failures[-1]) if failures else self
        last_success = max(finished_at(pod, now) for pod in succeeded)
        later = [time for time in failures if time > last_success]
        return Backoff(len(later), later[-1]) if later else Backoff()

    def remaining(self, now: float) -> float:
        """Seconds until the next pod may be made; 0 when it may be made now."""
        return pause_left(self.failures, self.last_failure, now)


NO_BACKOFF = Backoff()


def pause_left(failures: int, last_failure: float | None, now: float) -> float:
    """Seconds left of the pause after `failures` failures in a row: 10 s, doubling, at most 10 minutes."""
    if failures <= 0 or last_failure is None:
        return 0.0
    pause = doubled(FIRST_PAUSE_S, failures - 1, LONGEST_PAUSE_S)
    return max(0.0, last_failure + pause - now)
