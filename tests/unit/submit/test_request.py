"""What is asked for begins with files that travel: one that does not is named before anything is submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.submit.errors import SubmitError
from corral.submit.request import Request


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    for name in ("train.py", "src/train.py", "needs.txt", "../outside.py"):
        (folder / name).touch()
    (folder / "alias").symlink_to("src")
    return folder


@pytest.mark.parametrize("script", ["train.py", "./train.py", "src/train.py", "alias/train.py", "echo", "/outside.py"])
def test_a_script_of_the_folder_goes_with_the_job(project: Path, script: str) -> None:
    assert Request(program=(script,), folder=project, requirements="needs.txt").archive()


@pytest.mark.parametrize("request_of", [
    lambda folder: Request(program=("train.py",), folder=folder),
    lambda folder: Request(program=("./train.py",), folder=folder),
    lambda folder: Request(program=("alias/train.py",), folder=folder),
    lambda folder: Request(program=("echo",), folder=folder, requirements="needs.txt"),
])  # fmt: skip
def test_what_the_job_begins_with_is_not_left_out(project: Path, request_of: object) -> None:
    assert callable(request_of)
    (project / ".gitignore").write_text("*.py\n*.txt\n")
    with pytest.raises(SubmitError, match=r"does not go with the job.*`!/\S+` at the end of .corralignore"):
        request_of(project).archive()


def test_an_absolute_path_into_the_folder_is_the_script_that_goes_with_it(project: Path) -> None:
    request = Request(program=(str(project / "src" / "train.py"), "--lr"), folder=project)
    assert request.script == "src/train.py"
    assert request.archive()
    (project / ".gitignore").write_text("*.py\n")
    with pytest.raises(SubmitError, match=r"src/train\.py does not go with the job"):
        request.archive()
    assert Request(program=(str(project.parent / "outside.py"),), folder=project).script == str(
        project.parent / "outside.py"
    )


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("train", r"there is no program train; did you mean train\.py\?"),
        ("src", "src is a folder; name a script or a command"),
        ("own-tool", r"own-tool is a file of the folder, and no program is called that: \./own-tool runs it"),
        ("package", "package is a package: `-m package` runs it"),
        ("look.ipynb", r"look\.ipynb is a notebook: `jupyter nbconvert --to script look\.ipynb` makes a script of it"),
    ],
)
def test_what_looks_like_a_program_is_answered_with_what_is_one(project: Path, word: str, says: str) -> None:
    (project / "package").mkdir()
    (project / "package" / "__main__.py").touch()
    (project / "look.ipynb").touch()
    (project / "own-tool").touch()
    with pytest.raises(SubmitError, match=says):
        Request(program=(word,), folder=project).check()


def test_a_script_beside_the_folder_is_not_in_it(project: Path) -> None:
    with pytest.raises(SubmitError, match=r"\.\./outside\.py is not in \S+project, the folder that goes with the job"):
        Request(program=("../outside.py",), folder=project).archive()
