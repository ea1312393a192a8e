"""Where a regular expression matches, found without backtracking.

The pattern becomes a program whose threads run side by side over the text, once from left to right (Thompson, Pike): the work
is at most the length of the text times that of the program, whatever the pattern. As in Go the leftmost match is found, and of
those that begin there the one that comes first by the order of alternatives and the greed of repeats.
"""

from __future__ import annotations

import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator
from typing import Any, Final

MAX_PROGRAM: Final = 10_000
MAX_STEPS: Final = 2_000_000
WORD: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_CATEGORIES: Final = {"DIGIT": frozenset("0123456789"), "SPACE": frozenset("\t\n\f\r "), "WORD": WORD}

Test = Callable[[str], bool]
Place = Callable[[str, int], bool]
Instruction = tuple[str, Any]


class TooLarge(ValueError):
    """The pattern, or the pattern on this text, is more work than is allowed."""


class Machine:
    """A compiled pattern. Raises ValueError for what it does not know, TooLarge for what is too much."""

    def __init__(self, pattern: str) -> None:
        tree = parser.parse(pattern)
        self._program: list[Instruction] = []
        self._emit_all(tree, tree.state.flags)
        self._add("match", None)

    def matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Where it matches, from left to right; no empty match directly behind another one."""
        steps, position, previous = [MAX_STEPS], 0, -1
        while position <= len(text) and (found := self._run(text, position, steps)):
            begin, end = found
            if not begin == end == previous:
                yield found
            previous = end
            position = end if end > begin else end + 1

    def _run(self, text: str, start: int, steps: list[int]) -> tuple[int, int] | None:
        threads: list[tuple[int, int]] = []
        seen: set[int] = set()
        best = None
        for position in range(start, len(text) + 1):
            if best is None:
                self._follow(0, position, text, position, threads, seen)
            elif not threads:
                break
            steps[0] -= 1 + len(seen)
            if steps[0] < 0:
                raise TooLarge
            following: list[tuple[int, int]] = []
            reached: set[int] = set()
            for at, begin in threads:
                kind, what = self._program[at]
                if kind == "match":
                    best = (begin, position)
                    break  # what follows was less wanted
                if position < len(text) and what(text[position]):
                    self._follow(at + 1, begin, text, position + 1, following, reached)
            threads, seen = following, reached
        return best

    def _follow(
        self, at: int, begin: int, text: str, position: int, threads: list[tuple[int, int]], seen: set[int]
    ) -> None:
        """Put the threads that can be reached without a letter at the end of `threads`, the most wanted first."""
        stack = [at]
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            kind, what = self._program[at]
            if kind == "fork":
                stack += reversed(what)
            elif kind == "place":
                if what(text, position):
                    stack.append(at + 1)
            else:
                threads.append((at, begin))

    # From the parsed pattern to the program

    def _add(self, kind: str, what: Any) -> int:
        if len(self._program) >= MAX_PROGRAM:
            raise TooLarge
        self._program.append((kind, what))
        return len(self._program) - 1

    def _emit_all(self, tree: Any, flags: int) -> None:
        for kind, what in tree:
            self._emit(kind, what, flags)

    def _emit(self, kind: Any, what: Any, flags: int) -> None:
        if kind is op.SUBPATTERN:
            _, added, removed, inner = what
            self._emit_all(inner, (flags | added) & ~removed)
        elif kind is op.BRANCH:
            self._emit_branches(what[1], flags)
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            least, most, inner = what
            self._emit_repeat(least, most, inner, flags, greedy=kind is op.MAX_REPEAT)
        elif kind is op.AT:
            self._add("place", _place(str(what), flags))
        else:
            self._add("letter", _test(kind, what, flags))

    def _emit_branches(self, branches: list[Any], flags: int) -> None:
        ends = []
        for branch in branches[:-1]:
            fork = self._add("fork", ())
            self._emit_all(branch, flags)
            ends.append(self._add("fork", ()))
            self._program[fork] = ("fork", (fork + 1, len(self._program)))
        self._emit_all(branches[-1], flags)
        for end in ends:
            self._program[end] = ("fork", (len(self._program),))

    def _emit_repeat(self, least: int, most: Any, inner: Any, flags: int, *, greedy: bool) -> None:
        """`x{2,}` is `xx+` and `x*` is `(x+)?`, as in Go: a repeat of nothing ends there."""
        endless = most is op.MAXREPEAT
        for _ in range(least - endless):
            self._emit_all(inner, flags)
        forks = []
        for _ in range(int(least == 0) if endless else most - least):
            forks.append((self._add("fork", ()), len(self._program)))
            if not endless:
                self._emit_all(inner, flags)
        if endless:
            start = len(self._program)
            self._emit_all(inner, flags)
            forks.append((self._add("fork", ()), start))
        end = len(self._program)
        for fork, further in forks:
            self._program[fork] = ("fork", (further, end) if greedy else (end, further))


def _test(kind: Any, what: Any, flags: int) -> Test:
    """Whether one letter fits."""
    if kind is op.ANY:
        return (lambda letter: True) if flags & re.DOTALL else (lambda letter: letter != "\n")
    if kind not in (op.LITERAL, op.NOT_LITERAL, op.IN):
        raise ValueError(f"{kind} is not supported")
    members = what if kind is op.IN else [(op.LITERAL, what)]
    negated = kind is op.NOT_LITERAL or members[0][0] is op.NEGATE
    tests = [_member(*member) for member in members if member[0] is not op.NEGATE]

    def fits(letter: str) -> bool:
        forms = {letter, letter.lower(), letter.upper()} if flags & re.IGNORECASE else {letter}
        return any(test(form) for test in tests for form in forms if len(form) == 1) is not negated

    return fits


def _member(kind: Any, what: Any) -> Test:
    if kind is op.LITERAL:
        wanted = chr(what)
        return lambda letter: letter == wanted
    if kind is op.RANGE:
        first, last = map(chr, what)
        return lambda letter: first <= letter <= last
    name = str(what).removeprefix("CATEGORY_")
    known, wanted_in = _CATEGORIES[name.removeprefix("NOT_")], not name.startswith("NOT_")
    return lambda letter: (letter in known) is wanted_in


def _place(name: str, flags: int) -> Place:
    """Whether a position is one of those that anchors name."""
    lines = bool(flags & re.MULTILINE)
    if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        lines = lines and name == "AT_BEGINNING"
        return lambda text, at: at == 0 or (lines and text[at - 1] == "\n")
    if name in ("AT_END", "AT_END_STRING"):
        lines = lines and name == "AT_END"
        return lambda text, at: at == len(text) or (lines and text[at] == "\n")
    wanted = name == "AT_BOUNDARY"
    return lambda text, at: ((text[at - 1 : at] in WORD) is not (text[at : at + 1] in WORD)) is wanted
