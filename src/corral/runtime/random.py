"""Randomness, injected: uids, name suffixes and jitter come from one seeded source per process."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

# Kubernetes leaves out vowels and look-alikes so that no suffix spells a word.
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class Random:
    """A source of randomness; the same seed gives the same sequence. Without a seed it starts from the system's
    randomness, once: it names things and spreads retries, it makes no secrets."""

    def __init__(self, seed: int | str | None = None) -> None:
        self._source = random.Random(seed)

    def uid(self) -> str:
        return str(uuid.UUID(int=self._source.getrandbits(128), version=4))

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
        """An independent source whose sequence depends only on this one's state and `name`."""
        return Random(f"{self._source.getrandbits(64)}/{name}")
