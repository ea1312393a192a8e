"""How many front processes a cluster has: none while one process does, more as there is work, none again when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from corral.core.server_limits import Limits

FEWEST_CORES = 4
"""On fewer, processes beside the owner would take from it what they give."""
BUSY = 0.7
FULL = 0.6
QUIET = 0.15
LONG = 2
"""Looks for which the owner has to be busy before anybody is started."""
PATIENCE = 60
"""Looks for which there has to be little to do before everybody is sent away."""
ATTEMPTS = 3
"""So many front processes in a row may end before they serve; then a start is given up."""
SELDOM = 60
"""Looks from one attempt to the next from then on."""


def most(cores: int) -> int:
    """The most front processes that a machine is good for: as many again are for the owner, its clients and the pods."""
    return cores // 2 if cores >= FEWEST_CORES else 0


def is_worth_trying(stillborn: int, look: int) -> bool:
    """Whether to start one more after so many in a row ended before they served: each of them costs a core for a while."""
    return stillborn < ATTEMPTS or look % SELDOM == 0


def part_of(limits: Limits, fronts: int) -> Limits:
    """What one of so many processes may hold, so that all of them together hold what one may: what counts is the machine's memory."""
    parts = max(fronts, 1)
    return msgspec.structs.replace(
        limits,
        bytes=-(-limits.bytes // parts),
        bytes_each=-(-limits.bytes_each // parts),
        answers=-(-limits.answers // parts),
        answers_each=-(-limits.answers_each // parts),
    )


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen of a cluster once a second."""

    owner: float
    """How busy the owner's loop is."""
    fronts: Sequence[float]
    """How busy each front is."""
    idle_cores: float


class Growth:
    """Remembers for how long something has been so. `fixed` is a number that somebody chose; nobody grows or shrinks then."""

    def __init__(self, cores: int, fixed: int | None = None) -> None:
        self.most = most(cores) if fixed is None else fixed
        self._fixed = fixed
        self._busy = self._quiet = 0

    def wanted(self, look: Look) -> int:
        """How many fronts there should be."""
        if self._fixed is not None:
            return self._fixed
        present = len(look.fronts)
        if not present:
            self._busy = self._busy + 1 if look.owner >= BUSY else 0
            return max(1, self.most // 2) if self.most and self._busy >= LONG and look.idle_cores >= 1 else 0
        self._busy = 0
        quiet = look.owner < BUSY and sum(look.fronts) < QUIET
        self._quiet = self._quiet + 1 if quiet else 0
        if self._quiet >= PATIENCE:
            self._quiet = 0
            return 0
        full = sum(look.fronts) / present >= FULL
        return present + 1 if full and look.idle_cores >= 1 and present < self.most else present
