"""`corral down --delete` removes what Corral made, and no file of anybody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from corral.cli.main import corral
from corral.configuration.fleet import ClusterSpec, FleetError, FleetSpec
from corral.fleet.folder import FleetFolder, FleetStatus
from corral.fleet.removal import DATABASE, KEYS, NODE_FILES, remove


def made(root: Path, *names: str) -> FleetFolder:
    """The folder of a fleet that has run and was stopped."""
    folder = FleetFolder(root)
    folder.create()
    folder.write_spec(FleetSpec(clusters=[ClusterSpec(name=name) for name in names or ("manager", "worker1")]))
    folder.write_status(FleetStatus(supervisor=2**22 + 1))
    folder.kubeconfig.write_text("{}")
    folder.supervisor_log.write_text("")
    for name in folder.started():
        cluster = folder.cluster(name)
        (cluster / "pki").mkdir(parents=True)
        (cluster / "node" / "pods" / "uid" / "containers" / "main").mkdir(parents=True)
        (cluster / "node" / "claims" / "default" / "data").mkdir(parents=True)
        (cluster / "node" / "claims" / "default" / "data" / "model").write_text("made by a pod")
        files = [*DATABASE, *(f"pki/{file}" for file in KEYS), *(f"node/{file}" for file in NODE_FILES)]
        (cluster / "kept-logs").mkdir()
        (cluster / "kept-logs" / "0a1b").write_text("")
        for file in ("admin.kubeconfig", *files):
            (cluster / file).write_text("")
        folder.log(name).write_text("")
    return folder


def files_in(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink())


def down(root: Path, *words: str) -> str:
    done = CliRunner().invoke(corral, ["down", "--delete", "--state", str(root), *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_project_in_the_folder_of_a_fleet_outlives_it(tmp_path: Path) -> None:
    project = tmp_path / "proj"
    project.mkdir()
    (project / "train.py").write_text("print(1)")
    command = [sys.executable, "-m", "corral.cli.main"]
    for words in (["up", "--state", ".", "--workers", "0"], ["down", "--delete", "--state", "."]):
        done = subprocess.run(
            [*command, *words], cwd=project, capture_output=True, text=True, check=False, timeout=180,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert "The folder stays: it has files that Corral did not make (train.py)" in done.stdout
    assert [path.name for path in project.iterdir()] == ["train.py"]
    assert (project / "train.py").read_text() == "print(1)"


def test_a_folder_with_nothing_else_in_it_goes(tmp_path: Path) -> None:
    root = made(tmp_path / "state").root
    assert f"Deleted {root}." in down(root)
    assert not root.exists()
    assert "Deleted" not in down(root)


FOREIGN = [
    "train.py", "logs/mine.log", "logs/prod.log", "clusters/notes", "clusters/prod/store.db", "clusters/prod/admin.kubeconfig",
    "clusters/manager/notes", "clusters/manager/pki/mine.key", "clusters/worker1/node/notes", ".git/config", "pods/a", "pki/ca.key",
    "node/pods/a", "store.db", "claims/default/data", "kubeconfig.yaml", "status.json.bak", "logs/deep/supervisor.log",
]  # fmt: skip


def test_foreign_files_stay_wherever_they_are(tmp_path: Path) -> None:
    root = made(tmp_path / "state").root
    for name in FOREIGN:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("precious")
    assert "The folder stays" in down(root)
    assert files_in(root) == sorted(FOREIGN)


@pytest.mark.parametrize("variable", ["cwd", "home"])
def test_nobody_loses_the_folder_he_stands_or_lives_in(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(tmp_path / "state").root
    if variable == "cwd":
        monkeypatch.chdir(root)
    else:
        monkeypatch.setenv("HOME", str(root))
    assert f"Deleted the fleet in {root}." in down(root)
    assert root.is_dir()
    assert files_in(root) == []


@pytest.mark.parametrize(
    "link", ["logs", "clusters", "clusters/manager", "clusters/manager/node/claims", "clusters/manager/pki"]
)
def test_what_a_link_leads_to_stays(link: str, tmp_path: Path) -> None:
    folder, elsewhere = made(tmp_path / "state"), tmp_path / "elsewhere"
    (folder.root / link).rename(elsewhere)
    (folder.root / link).symlink_to(elsewhere)
    (elsewhere / "precious").write_text("")
    before = files_in(elsewhere)
    remove(folder)
    assert files_in(elsewhere) == before
    assert files_in(folder.root) == [link]


def test_a_folder_that_is_no_fleets_is_left_alone(tmp_path: Path) -> None:
    for name in ("fleet.json", "kubeconfig", "logs/supervisor.log", "clusters/manager/store.db"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("precious")
    before = files_in(tmp_path)
    assert "is not the folder of a fleet" in down(tmp_path, "--yes")
    assert files_in(tmp_path) == before


def test_a_kubeconfig_that_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("precious")
    with pytest.raises(FleetError, match="not of Corral's making; name another folder with --state"):
        FleetFolder(tmp_path).create()
    assert files_in(tmp_path) == ["kubeconfig"]


@pytest.mark.parametrize(("words", "answer", "stays"), [([], "n\n", True), ([], "y\n", False), (["--yes"], "", False)])
def test_a_terminal_is_asked(words: list[str], answer: str, stays: bool, tmp_path: Path) -> None:
    root = made(tmp_path / "state").root
    master, slave = os.openpty()
    command = [sys.executable, "-m", "corral.cli.main", "down", "--delete", "--state", str(root), *words]
    os.write(master, answer.encode())
    done = subprocess.run(command, stdin=slave, capture_output=True, text=True, check=False, timeout=180)
    os.close(slave)
    os.close(master)
    assert root.exists() is stays
    assert (done.returncode == 0) is not stays
    assert ("Delete the fleet in" in done.stdout) is (not words)
