"""The tutorials on jobs and dispatch, command by command: a manager and its workers as processes, real kubectl."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.e2e.started import ROOT
from tests.waiting import eventually

TUTORIALS = ROOT / "docs" / "tutorials"
_CACHED = Path("~/.cache/corral/kube/bin").expanduser()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        shutil.which("kubectl") is None and not (_CACHED / "kubectl").exists(),
        reason="kubectl is not installed; `make kube-tools` fetches it",
    ),
]


CHANGES = re.compile(r"\b(export|create|apply|label|patch|delete|resume|up|down|corral run|corral submit)\b")
"""Commands that are run once. Whatever only asks is asked again until it prints what the page says: a machine may be slow."""


class Step(NamedTuple):
    command: str
    expected: list[str]


def steps(text: str) -> Iterator[Step]:
    """The commands of the console blocks, each with the lines printed below it."""
    for needs, block in re.findall(r"(?:<!-- needs: (\w+) -->\n)?```console\n(.*?)```", text, flags=re.DOTALL):
        if needs and importlib.util.find_spec(needs) is None:
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *expected = part.rstrip("\n").split("\n")
            yield Step(command, expected)


def matches(expected: str, printed: list[str]) -> bool:
    pattern = ".*".join(re.escape(piece) for piece in expected.split("…"))
    return any(re.fullmatch(pattern, line) for line in printed) or expected == "…"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home of its own with `corral` on the path; no fleet is left running in it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "corral").write_text(f'#!/bin/sh\nexec {sys.executable} -m corral.cli.main "$@"\n')
    (programs / "corral").chmod(0o755)
    yield tmp_path
    run(tmp_path, "corral down")


@pytest.fixture
def empty(home: Path) -> Path:
    """A folder of its own, for a page that needs no checkout."""
    folder = home / "project"
    folder.mkdir()
    return folder


def run(home: Path, command: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(home / "bin"), os.environ.get("PATH", ""), str(_CACHED)])
    environment = {**os.environ, "HOME": str(home), "PATH": path, "KUBECONFIG": str(home / ".corral" / "kubeconfig")}
    return subprocess.run(
        ["bash", "-c", command], env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=320
    )


@pytest.mark.parametrize(
    "tutorial", ["first-job.md", "waiting-jobs.md", "job-kinds.md", "multikueue.md", "multikueue-jobs.md"]
)
def test_every_command_of_the_tutorial_prints_what_it_says(home: Path, tutorial: str) -> None:
    follow(TUTORIALS / tutorial, home, ROOT)


def test_every_command_of_the_first_page_prints_what_it_says_where_there_is_nothing_but_corral(
    home: Path, empty: Path
) -> None:
    page = TUTORIALS / "first-script.md"
    assert "$ kubectl" not in page.read_text()
    follow(page, home, empty)


def follow(page: Path, home: Path, folder: Path) -> None:
    """Do what a page says, and see what it says."""
    for step in steps(page.read_text()):

        def is_as_said(step: Step = step) -> bool:
            wrong = difference(step, run(home, step.command, folder))
            assert not wrong, wrong
            return True

        if CHANGES.search(step.command):
            is_as_said()
        else:
            eventually(is_as_said, what=step.command)


def difference(step: Step, done: subprocess.CompletedProcess[str]) -> tuple[object, ...]:
    """What a command did otherwise than the page says; nothing when it did the same."""
    printed = (done.stdout + done.stderr).splitlines()
    missing = [line for line in step.expected if not matches(line, printed)]
    return (step.command, done.returncode, missing, printed) if done.returncode or missing else ()
