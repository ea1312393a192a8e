"""The result of trying to give a workload flavors: per pod set the flavors found, how good they are, and why not better.

Two scales of goodness exist. `Mode` is what is published: no fit, needs preemption, fits. While flavors are compared
a finer scale tells preemption without candidates, preemption in the own queue and reclaim from others apart.
"""

from __future__ import annotations

from enum import IntEnum

from corral.decide.queueing.cycle.plan import PodSetAssignment
from corral.decide.queueing.model.values import Amounts, FlavorResource, TopologyAssignment, Usage


class Mode(IntEnum):
    """How an assignment stands, worst first."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3

    @property
    def label(self) -> str:
        return {0: "NoFit", 1: "Preempt", 2: "DeferredFit", 3: "Fit"}[self]


class Fit(IntEnum):
    """How one flavor would serve one request, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4

    @property
    def mode(self) -> Mode:
        return Mode.FIT if self is Fit.FIT else Mode.NO_FIT if self is Fit.NO_FIT else Mode.PREEMPT


class FlavorChoice:
    """The flavor chosen for one resource of one pod set."""

    __slots__ = ("borrow", "flavor", "mode", "tried")

    def __init__(self, flavor: str, mode: Mode, borrow: int = 0, tried: int = -1) -> None:
        self.flavor = flavor
        self.mode = mode
        self.borrow = borrow
        self.tried = tried
        """Index of the last flavor looked at, -1 when the next search starts over."""


class Attempt:
    """One flavor that was looked at, for events and granular reasons."""

    __slots__ = ("borrow", "fit", "flavor", "reason", "reasons")

    def __init__(self, flavor: str, fit: Fit, borrow: int, reasons: list[str], reason: str) -> None:
        self.flavor = flavor
        self.fit = fit
        self.borrow = borrow
        self.reasons = reasons
        self.reason = reason


class PodSetChoice:
    """What was found for one pod set. No flavors and no reasons means it asked for nothing."""

    __slots__ = (
        "attempts",
        "count",
        "delayed_topology",
        "error",
        "flavors",
        "name",
        "reasons",
        "requests",
        "topology",
    )

    def __init__(self, name: str, count: int, requests: Amounts) -> None:
        self.name = name
        self.count = count
        self.requests = requests
        self.flavors: dict[str, FlavorChoice] = {}
        self.reasons: list[str] = []
        self.error = ""
        self.attempts: list[Attempt] = []
        self.topology: TopologyAssignment | None = None
        self.delayed_topology = ""

    @property
    def mode(self) -> Mode:
        if self.error:
            return Mode.NO_FIT
        if not self.reasons:
            return Mode.FIT
        if not self.flavors:
            return Mode.NO_FIT
        return min(choice.mode for choice in self.flavors.values())

    def set_mode(self, mode: Mode) -> None:
        for choice in self.flavors.values():
            choice.mode = mode

    def refuse(self, flavor: str, reason: str) -> None:
        """A flavor that quota would allow turned out not to do; `reason` is the granular one."""
        self.attempts = [
            Attempt(flavor, Fit.NO_FIT, attempt.borrow, attempt.reasons, reason)
            if attempt.flavor == flavor
            else attempt
            for attempt in self.attempts
        ]

    def publish(self) -> PodSetAssignment:
        return PodSetAssignment(
            name=self.name,
            count=self.count,
            flavors={resource: choice.flavor for resource, choice in self.flavors.items()},
            requests=self.requests,
            topology=self.topology,
            delayed_topology=self.delayed_topology,
        )


class Cursor:
    """Where the flavor search of a workload stopped, so that its next attempt goes on from there."""

    __slots__ = ("cycle", "generation", "shape", "tried")

    def __init__(self, generation: int, cycle: int, shape: object) -> None:
        self.generation = generation
        self.cycle = cycle
        self.shape = shape
        self.tried: list[dict[str, int]] = []

    @property
    def is_pending(self) -> bool:
        """Are there flavors left that were not tried?"""
        return any(index != -1 for tried in self.tried for index in tried.values())

    def next_index(self, pod_set: int, resource: str) -> int:
        if pod_set >= len(self.tried):
            return 0
        return self.tried[pod_set].get(resource, -1) + 1


class Assignment:
    """Flavors for a whole workload."""

    __slots__ = ("_mode", "borrows", "cursor", "no_fit_reason", "pod_sets", "topology_usage", "usage")

    def __init__(self, cursor: Cursor) -> None:
        self.pod_sets: list[PodSetChoice] = []
        self.borrows = 0
        """Height of the subtree the quota comes from; 0 when it is the queue's own."""
        self.usage: Usage = {}
        """What admission would add; the difference only when a slice is replaced."""
        self.topology_usage: TopologyUsage = {}
        self.cursor = cursor
        self.no_fit_reason = ""
        self._mode: Mode | None = None

    @property
    def mode(self) -> Mode:
        if not self.pod_sets:
            return Mode.NO_FIT
        if self._mode is None:
            first, *others = self.pod_sets
            mode = first.mode
            for pod_set in others:
                mode = min(mode, pod_set.mode)
            self._mode = mode
        return self._mode

    def set_mode(self, mode: Mode, *names: str) -> None:
        """Overrule the mode of the whole assignment, and of the choices of the named pod sets (default: all)."""
        self._mode = mode
        for pod_set in self.pod_sets:
            if not names or pod_set.name in names:
                pod_set.set_mode(mode)

    def fail(self, pod_set: PodSetChoice, error: str) -> None:
        pod_set.error = error
        self._mode = None

    def pod_set(self, name: str) -> PodSetChoice:
        return next(pod_set for pod_set in self.pod_sets if pod_set.name == name)

    @property
    def message(self) -> str:
        """Why this is not (yet) an admission; empty when everything fits."""
        parts: list[str] = []
        for pod_set in self.pod_sets:
            if pod_set.error:
                return f"failed to assign flavors to pod set {pod_set.name}: {pod_set.error}"
            if pod_set.reasons:
                reasons = ", ".join(sorted(pod_set.reasons))
                parts.append(f"couldn't assign flavors to pod set {pod_set.name}: {reasons}")
        return "; ".join(parts)

    @property
    def considered(self) -> str:
        """The flavors that were passed over, in the words of the QuotaReserved event."""
        return " | ".join([text for text in map(_considered, self.pod_sets) if text])

    def columns_needing_preemption(self) -> frozenset[FlavorResource]:
        return frozenset(
            FlavorResource(choice.flavor, resource)
            for pod_set in self.pod_sets
            for resource, choice in pod_set.flavors.items()
            if choice.mode is Mode.PREEMPT
        )


TopologyUsage = dict[str, list[tuple[tuple[str, ...], Amounts, int]]]
"""Per flavor: domain values, requests of one pod, number of pods."""

_POSSIBILITY = {Fit.NO_CANDIDATES: "NoCandidates", Fit.PREEMPT: "Preempt", Fit.RECLAIM: "Reclaim"}


def _considered(pod_set: PodSetChoice) -> str:
    if len(pod_set.attempts) == 1 and pod_set.attempts[0].fit is Fit.FIT and not pod_set.attempts[0].borrow:
        return ""
    texts: list[str] = []
    for attempt in sorted(pod_set.attempts, key=lambda attempt: attempt.flavor):
        if attempt.fit is Fit.FIT and not attempt.borrow:
            continue
        possibility = _POSSIBILITY.get(attempt.fit)
        parts = [f"preemptionMode={possibility}" if possibility else attempt.fit.mode.label]
        if attempt.borrow:
            parts.append(f"borrow={attempt.borrow}")
        parts.extend(sorted(set(attempt.reasons)))
        texts.append(f"{attempt.flavor}({';'.join(parts)})")
    return f"{pod_set.name}: {', '.join(texts)}" if texts else ""
