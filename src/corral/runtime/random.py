"""Randomness, injected: uids, name suffixes and jitter come from one source per process, which simulations seed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

# Kubernetes leaves out vowels and look-alikes so that no suffix spells a word.
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class Random:
    """A source of randomness for names and the spreading of retries; `runtime.secrets` makes secrets.

    The same seed gives the same sequence. Without a seed, as in a cluster that is served, everything comes from the
    operating system: who sees uids and names cannot compute those that follow."""

    def __init__(self, seed: int | str | None = None) -> None:
        self._is_seeded = seed is not None
        self._source = random.Random(seed) if self._is_seeded else random.SystemRandom()
        self._last = 0

    def uid(self) -> str:
        return str(uuid.UUID(int=self._source.getrandbits(128), version=4))

    def uid_at(self, now: float) -> str:
        """A uid that sorts after all made here before (UUID version 7): what is born within a second keeps its order, also for those
        who learn of it after a restart."""
        self._last = max(self._last + 1, int(now * 1000) << 12)
        time, number = self._last >> 12, self._last & 0xFFF
        random_part = self._source.getrandbits(128) & (1 << 62) - 1
        return str(uuid.UUID(int=time << 80 | 7 << 76 | number << 64 | 2 << 62 | random_part))

    def suffix(self, length: int = 5) -> str:
        return "".join(self._source.choices(SUFFIX_ALPHABET, k=length))

    def uniform(self, low: float, high: float) -> float:
        return self._source.uniform(low, high)

    def integer(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return self._source.randint(low, high)

    def choice(self, items: Sequence[T]) -> T:
        return self._source.choice(items)

    def fork(self, name: str) -> Random:
        """An independent source; where this one is seeded, its sequence depends only on this one's state and `name`."""
        if not self._is_seeded:
            return Random()
        return Random(f"{self._source.getrandbits(64)}/{name}")
