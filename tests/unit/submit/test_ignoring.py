"""Ignore files as git reads them: what its documentation says, line by line, and any lines at all beside git itself."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from corral.submit.folder import FILE, contents
from corral.submit.ignoring import ignores, rules_of

DOCUMENTED = [
    # A blank line matches nothing; a # begins a comment; a backslash before it makes it a letter.
    ("\n\n", "a", False),
    ("# a", "# a", False),
    ("\\#a", "#a", True),
    # Spaces at the end do not count, unless a backslash is before them.
    ("a  ", "a", True),
    ("a\\ ", "a ", True),
    ("a\\ ", "a", False),
    ("a\\\\ ", "a\\", True),
    # An ! brings back what an earlier line leaves out; a backslash before it makes it a letter.
    ("*.bin\n!keep.bin", "keep.bin", False),
    ("*.bin\n!keep.bin", "other.bin", True),
    ("!keep.bin\n*.bin", "keep.bin", True),
    ("\\!important!.txt", "!important!.txt", True),
    # A slash at the beginning or in the middle ties a line to the folder of its file.
    ("/hello.*", "hello.txt", True),
    ("/hello.*", "a/hello.java", False),
    ("hello.*", "a/hello.java", True),
    ("doc/frotz/", "doc/frotz/", True),
    ("doc/frotz/", "a/doc/frotz/", False),
    ("/doc/frotz", "doc/frotz", True),
    # A slash at the end is about folders only, at any depth.
    ("frotz/", "frotz/", True),
    ("frotz/", "a/frotz/", True),
    ("frotz/", "frotz", False),
    ("frotz", "frotz/", True),
    # * and ? stop at slashes, as do ranges.
    ("foo/*", "foo/test.json", True),
    ("foo/*", "foo/bar/", True),
    ("foo/*", "foo/bar/hello.c", False),
    ("f?o", "foo", True),
    ("f?o", "f/o", False),
    ("a?b/c", "a/b/c", False),
    ("file[a-zA-Z]", "fileQ", True),
    ("file[a-zA-Z]", "file1", False),
    ("file[!a-z]", "file1", True),
    ("file[^a-z]", "filez", False),
    ("a[/]b/c", "a/b/c", False),
    ("[]]x", "]x", True),
    ("[[:digit:]]*", "7a", True),
    ("[[:digit:]]*", "a7", False),
    ("[[:nosuch:]]", "a", False),
    ("[z-a]", "m", False),
    # Two stars: any folders before, everything inside after, any folders between; else stars like others.
    ("**/foo", "foo", True),
    ("**/foo", "a/b/foo", True),
    ("**/foo/bar", "a/foo/bar", True),
    ("abc/**", "abc/d/e", True),
    ("abc/**", "abc/", False),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/x/b", True),
    ("a/**/b", "a/x/y/b", True),
    ("a/**/b", "ab", False),
    ("foo**bar", "foo-bar", True),
    ("a/foo**bar", "a/foo/bar", False),
    ("**", "a", True),
    # What cannot be read fits nothing.
    ("a\\", "a", False),
    ("a[b", "a[b", False),
    # Files of other systems.
    ("\ufeffa\r\nb\r\n", "a", True),
    ("\ufeffa\r\nb\r\n", "b", True),
]


@pytest.mark.parametrize(("text", "path", "left_out"), DOCUMENTED)
def test_a_line_means_what_gits_documentation_says(text: str, path: str, left_out: bool) -> None:
    assert ignores([rules_of(text)], path.removesuffix("/"), path.endswith("/")) is left_out


def test_the_file_of_a_deeper_folder_decides_before_that_of_a_higher_one() -> None:
    files = [rules_of("*.log\n/deep/kept"), rules_of("!*.log\n/kept", "deep/")]
    assert ignores(files, "deep/a.log", False) is False
    assert ignores(files, "deep/kept", False) is True
    assert ignores(files[:1], "a.log", False) is True


NAMES = ("a", "b", "ab", "a b", "a.b", "[a]", "b ", "!a", "#b", "a*")
PIECES = ("a", "b", "ab", "*", "**", "***", "?", "[ab]", "[!a]", "[a-c]b", "\\*", "\\ ", " ", ".", "/", "/", "a*", "*b", "[", "\\")  # fmt: skip


def line(chance: random.Random) -> str:
    """Any line; git itself is of two minds about two stars that follow a letter: not as documented where one is tied to a folder."""
    begin = chance.choice(("", "", "", "/", "!", "!/", "\\!", "**/"))
    middle = "".join(chance.choices(PIECES, k=chance.randint(1, 4))).replace("\\/", "/")
    made = begin + middle + chance.choice(("", "", "", "/", "/**", "/*", " "))
    return re.sub(r"(?<=[^/*!])\*{2,}", "*", made)


def plant(folder: Path, chance: random.Random, depth: int) -> None:
    folder.mkdir()
    for name in chance.sample(NAMES, chance.randint(1, 5)):
        if depth and chance.random() < 0.5:
            plant(folder / name, chance, depth - 1)
        else:
            (folder / name).touch()
    if chance.random() < 0.6:
        (folder / ".gitignore").write_text("\n".join(line(chance) for _ in range(chance.randint(1, 4))))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here to be asked")
@pytest.mark.parametrize("seed", range(4))
def test_of_any_folders_with_any_ignore_files_the_same_is_left_out_as_git_leaves_out(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(100):
        plant(tmp_path / f"case{number}", chance, 3)
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=environment, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"],
        cwd=tmp_path, env=environment, check=True, capture_output=True,
    ).stdout.decode()  # fmt: skip
    ours = [path.name for path in contents(tmp_path) if path.kind == FILE]
    assert sorted(ours) == sorted(filter(None, listed.split("\0")))


@pytest.mark.parametrize(
    "line", ["*a" * 30 + "b", "**/" * 20 + "x", "a/**/" * 12 + "b", "[!b-z]*" * 12 + "z", "?*" * 30 + "b"]
)
def test_no_line_of_a_folder_from_elsewhere_takes_for_ever(line: str) -> None:
    for path in ("a" * 240, "a/" * 100 + "c", "A" * 60):
        assert not ignores([rules_of(line)], path, is_folder=False)
