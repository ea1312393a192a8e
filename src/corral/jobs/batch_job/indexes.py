"""Sets of completion indexes, written the way a Job's status writes them: `0,2-5,9`.

Two neighbours are written as two numbers, three or more as a range. Parsing ignores what lies beyond the number of
completions, so that an elastic Job that shrank forgets the indexes it no longer has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from corral.core.whole_numbers import whole_number


class Indexes:
    """An immutable set of indexes, kept as ordered, disjoint, non-touching closed ranges."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        merged: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        self._ranges = tuple(merged)

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Indexes:
        return cls((number, number) for number in numbers)

    @classmethod
    def parse(cls, text: str, completions: int) -> Indexes:
        """The indexes below `completions` that `text` names; parts that are no range are skipped."""
        ranges = []
        for part in text.split(",") if text else ():
            first, _, last = part.partition("-")
            low, high = whole_number(first), whole_number(last or first)
            if low is not None and high is not None and low < completions:
                ranges.append((low, min(high, completions - 1)))
        return cls(ranges)

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes((*self._ranges, *other._ranges))

    def __contains__(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self._ranges)

    def __iter__(self) -> Iterator[int]:
        for first, last in self._ranges:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Indexes) and self._ranges == other._ranges

    def __hash__(self) -> int:
        return hash(self._ranges)

    def __str__(self) -> str:
        parts = []
        for first, last in self._ranges:
            if last == first:
                parts.append(str(first))
            else:
                parts.append(f"{first}{',' if last == first + 1 else '-'}{last}")
        return ",".join(parts)

    def __repr__(self) -> str:
        return f"Indexes({str(self)!r})"

    def common(self, other: Indexes) -> int:
        """How many indexes both sets have."""
        total, mine, theirs = 0, 0, 0
        while mine < len(self._ranges) and theirs < len(other._ranges):
            first, last = self._ranges[mine]
            low, high = other._ranges[theirs]
            total += max(0, min(last, high) - max(first, low) + 1)
            if last < high:
                mine += 1
            else:
                theirs += 1
        return total

    def missing(self, completions: int, limit: int) -> list[int]:
        """The lowest indexes below `completions` that are not in the set, at most `limit` of them."""
        result: list[int] = []
        candidate = 0
        for first, last in (*self._ranges, (completions, completions)):
            stop = min(first, completions)
            while candidate < stop and len(result) < limit:
                result.append(candidate)
                candidate += 1
            if len(result) >= limit:
                break
            candidate = max(candidate, last + 1)
        return result
