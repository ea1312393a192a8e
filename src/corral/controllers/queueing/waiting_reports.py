"""Which reasons for waiting are written at once, and which a moment later, joined with what follows.

While others come and go, whoever waits at the head of a queue is looked at again and again, and each time the same reason has other
words ("3 more needed", "2 more needed"). A first reason, or another one, is written at once, and so are some dozens of repetitions a second.
What goes beyond that is put off until the second is over: then the last words count, of those who still wait.
"""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Key, Obj, generation_of
from corral.decide.queueing.cycle.plan import Wait
from corral.kinds.kueue import names
from corral.workload import lifecycle

SECOND = 1.0
AT_ONCE = 24
"""Repetitions of a second that are written."""
SHARE = 4
"""Where very many are put off, such a part of them is written in the next second, so that none waits for long."""


class WaitingReports:
    """What is put off, the latest for each Workload. Times only grow."""

    def __init__(self) -> None:
        self._later: dict[Key, Wait] = {}
        self._left = AT_ONCE
        self._until = 0.0

    @property
    def due_at(self) -> float | None:
        """When something that was put off is to be written."""
        return self._until if self._later else None

    def puts_off(self, decision: Wait, workload: Obj | None, now: float) -> bool:
        """Whether to write this one later; `workload` is as it is known now."""
        self.forget(decision.key)
        if workload is None or not _is_repetition(decision, workload):
            return False
        if now >= self._until:
            self._begin(now)
        if self._left > 0:
            self._left -= 1
            return False
        self._later[decision.key] = decision
        return True

    def forget(self, key: Key) -> None:
        """Something else has become of a Workload."""
        self._later.pop(key, None)

    def due(self, now: float) -> list[Wait]:
        """What is to be written now."""
        if not self._later or now < self._until:
            return []
        self._begin(now)
        keys = list(self._later)[: self._left]
        self._left -= len(keys)
        return [self._later.pop(key) for key in keys]

    def _begin(self, now: float) -> None:
        self._left, self._until = max(AT_ONCE, len(self._later) // SHARE), now + SECOND


def _is_repetition(decision: Wait, workload: Obj) -> bool:
    """Does the Workload say the same already, in other words?"""
    held = conditions.find(workload, names.QUOTA_RESERVED)
    return (
        held is not None
        and held.get("status") == "False"
        and held.get("reason") == decision.reason
        and held.get("observedGeneration") == generation_of(workload)
        and decision.preempting == lifecycle.is_preempting(workload)
        and not (decision.second_pass or decision.blocked_on_gate)
    )
