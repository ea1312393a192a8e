"""Whose Python runs a script."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from corral.submit.errors import SubmitError
from corral.submit.interpreter import command_of, local_python, search_path


def environment(folder: Path) -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    return str(folder / "bin" / "python")


def test_a_named_interpreter_wins_over_the_active_environment(tmp_path: Path) -> None:
    environment(tmp_path / "venv")
    assert local_python(sys.executable, {"VIRTUAL_ENV": str(tmp_path / "venv")}, tmp_path) == sys.executable


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_active_environment_wins_over_the_folder_s_own(tmp_path: Path, variable: str) -> None:
    environment(tmp_path / ".venv")
    python = environment(tmp_path / "active")
    assert local_python("", {variable: str(tmp_path / "active")}, tmp_path) == python


def test_the_folder_s_own_environment_is_found(tmp_path: Path) -> None:
    python = environment(tmp_path / ".venv")
    assert local_python("", {}, tmp_path) == python


@pytest.mark.parametrize("name", ["venv", "env", "of-uv"])
def test_the_folder_s_own_environment_is_found_by_what_people_call_it(tmp_path: Path, name: str) -> None:
    python = environment(tmp_path / name)
    assert local_python("", {"UV_PROJECT_ENVIRONMENT": "of-uv"}, tmp_path) == python


def test_the_base_environment_of_conda_is_meant_only_where_there_is_no_other(tmp_path: Path) -> None:
    base = environment(tmp_path / "conda")
    active = {"CONDA_PREFIX": str(tmp_path / "conda"), "CONDA_DEFAULT_ENV": "base"}
    assert local_python("", active, tmp_path) == base
    own = environment(tmp_path / ".venv")
    assert local_python("", active, tmp_path) == own
    assert local_python("", {**active, "CONDA_DEFAULT_ENV": "torch"}, tmp_path) == base


def test_programs_are_looked_for_beside_the_interpreter_then_as_in_the_users_shell(tmp_path: Path) -> None:
    python = environment(tmp_path / ".venv")
    beside = str(Path(python).parent)
    path = search_path(python, {"PATH": f"/opt/mine:{beside}::/usr/bin"}).split(":")
    assert path[:3] == [beside, "/opt/mine", "/usr/bin"]
    assert path[3:] == [str(Path(sys.executable).parent)]


def test_an_interpreter_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SubmitError, match="there is no Python at /nowhere/python"):
        local_python("/nowhere/python", {}, tmp_path)


@pytest.mark.parametrize(
    ("program", "command"),
    [
        (("train.py", "--lr", "1"), ("py", "-u", "train.py", "--lr", "1")),
        (("-m", "package.train"), ("py", "-u", "-m", "package.train")),
        (("go.sh",), ("sh", "go.sh")),
        (("echo", "hello"), ("echo", "hello")),
    ],
)
def test_what_runs_a_program(program: tuple[str, ...], command: tuple[str, ...]) -> None:
    assert command_of(program[0], program[1:], "py") == command
