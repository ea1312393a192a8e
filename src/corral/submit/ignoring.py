"""What ignore files say: lines as in a .gitignore, read and asked as git does, without git.

Each folder may have a file of its own, which is about what is in and below it. Of all lines that fit a path the last of the deepest
file decides; what is in a folder that is left out is not asked about, so that no line brings it back. Lines come with folders that
others have made, so they are matched in linear time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from corral.core import regex

_CLASSES: Final = {
    "alnum": ("09", "AZ", "az"), "alpha": ("AZ", "az"), "blank": ("  ", "\t\t"), "cntrl": ("\x00\x1f", "\x7f\x7f"), "digit": ("09",),
    "graph": ("!~",), "lower": ("az",), "print": (" ~",), "punct": ("!/", ":@", "[`", "{~"), "space": ("  ", "\t\r"),
    "upper": ("AZ",), "xdigit": ("09", "AF", "af"),
}  # fmt: skip
"""The named classes of fnmatch(3), as ranges."""
_NOTHING: Final = r"[^\x{0}-\x{10ffff}]"


@dataclass(frozen=True, slots=True)
class Rule:
    """A line."""

    pattern: str
    brings_back: bool = False
    only_folders: bool = False
    anywhere: bool = False
    """Whether it is about names at any depth, and not about paths from its file's folder."""

    def fits(self, path: str, is_folder: bool) -> bool:
        """Whether it is about something in the folder of its file, or below."""
        if self.only_folders and not is_folder:
            return False
        return regex.fullmatch(self.pattern, path.rpartition("/")[2] if self.anywhere else path)


@dataclass(frozen=True, slots=True)
class Rules:
    """An ignore file, and where it is: empty at the top, else a path that ends with a slash."""

    place: str
    lines: tuple[Rule, ...]


def ignores(files: Sequence[Rules], path: str, is_folder: bool) -> bool:
    """Whether a path is left out; `files` are those of the folders that lead to it, from the top."""
    for file in reversed(files):
        inside = path.removeprefix(file.place)
        for rule in reversed(file.lines):
            if rule.fits(inside, is_folder):
                return not rule.brings_back
    return False


def rules_of(text: str, place: str = "") -> Rules:
    """The lines of an ignore file."""
    read = (_rule(line.removesuffix("\r")) for line in text.removeprefix("\ufeff").split("\n"))
    return Rules(place, tuple(rule for rule in read if rule is not None))


def _rule(line: str) -> Rule | None:
    if line.startswith("#"):
        return None
    line = _without_last_spaces(line)
    brings_back, line = line.startswith("!"), line.removeprefix("!")
    only_folders, line = line.endswith("/"), line.removesuffix("/")
    if not line:
        return None
    try:
        pattern = f"(?s:{''.join(_translated(line.removeprefix('/')))})"
        regex.check(pattern)
    except (
        ValueError
    ):  # an open bracket, or nothing after the last backslash: git takes it for a line that fits nothing
        return None
    return Rule(pattern, brings_back, only_folders, "/" not in line)


def _without_last_spaces(line: str) -> str:
    """Spaces at the end do not count, but one that follows a backslash."""
    kept = line.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return line[: len(kept) + 1] if backslashes % 2 else kept


def _translated(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "*":
            words, at = _stars(pattern, at)
            yield words
        elif letter == "[":
            words, at = _bracket(pattern, at + 1)
            yield words
        elif letter == "?":
            yield "[^/]"
            at += 1
        else:
            literal, at = _literal(pattern, at)
            yield _escaped(literal)


def _escaped(letter: str) -> str:
    return letter if letter.isalnum() and letter.isascii() else f"\\x{{{ord(letter):x}}}"


def _literal(pattern: str, at: int) -> tuple[str, int]:
    """A letter, or the one after a backslash, and where the next begins."""
    if pattern[at] == "\\":
        at += 1
    if at == len(pattern):
        raise ValueError(pattern)
    return pattern[at], at + 1


def _stars(pattern: str, start: int) -> tuple[str, int]:
    """Two between slashes are any number of folders, at the end everything inside; all others stay within a name."""
    end = start
    while pattern[end : end + 1] == "*":
        end += 1
    alone = (start == 0 or pattern[start - 1] == "/") and pattern[end : end + 1] in ("", "/")
    if end - start == 1 or not alone:
        return "[^/]*", end
    return (".+", end) if end == len(pattern) else ("(?:.+/)?", end + 1)


def _bracket(pattern: str, at: int) -> tuple[str, int]:
    """One of several letters, which are never a slash."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    ranges: list[str] = []
    first = at
    while at == first or pattern[at : at + 1] != "]":
        if at >= len(pattern):
            raise ValueError(pattern)
        if pattern.startswith("[:", at) and (end := pattern.find(":]", at + 2)) > 0:
            if (name := pattern[at + 2 : end]) not in _CLASSES:
                raise ValueError(name)
            ranges += _CLASSES[name]
            at = end + 2
            continue
        low, at = _literal(pattern, at)
        high = low
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high, at = _literal(pattern, at + 1)
        ranges.append(low + high)
    inside = "".join(f"{_escaped(each[0])}-{_escaped(each[1])}" for each in _without_slash(ranges))
    if negated:
        return f"[^/{inside}]", at + 1
    return (f"[{inside}]" if inside else _NOTHING), at + 1


def _without_slash(ranges: Sequence[str]) -> Iterator[str]:
    for each in ranges:
        parts = (f"{each[0]}.", f"0{each[1]}") if each[0] <= "/" <= each[1] else (each,)
        yield from (part for part in parts if part[0] <= part[1])
