"""What is not a whole backup is refused before anything is touched."""

from __future__ import annotations

import io
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from corral.configuration.fleet import ClusterSpec, FleetSpec
from corral.fleet.backup import BackupError, read, write
from corral.fleet.folder import FleetFolder
from corral.store.integrity import SCHEMA


def made(root: Path) -> FleetFolder:
    folder = FleetFolder(root)
    folder.create()
    folder.write_spec(FleetSpec(clusters=[ClusterSpec(name="manager")]))
    (folder.cluster("manager") / "pki").mkdir(parents=True)
    (folder.cluster("manager") / "pki" / "ca.key").write_text("key")
    with closing(sqlite3.connect(folder.cluster("manager") / "store.db")) as database:
        database.executescript(SCHEMA)
    return folder


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    folder, copy = made(tmp_path / "one"), FleetFolder(tmp_path / "other")
    assert write(folder, tmp_path / "file") == ["manager"]
    copy.create()
    copy.add_started(["worker9"])
    assert read(copy, tmp_path / "file") == ["manager"]
    assert copy.read_spec() == folder.read_spec()
    assert copy.started() == ["manager", "worker9"]
    assert (copy.cluster("manager") / "pki" / "ca.key").read_text() == "key"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_folder_without_a_fleet_has_nothing_to_write(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="there is no fleet in"):
        write(FleetFolder(tmp_path), tmp_path / "file")
    assert files(tmp_path) == {}


@pytest.mark.parametrize(
    "name", ["../out", "/etc/out", "clusters/../../x/store.db", "fleet.json.new", "clusters/a/run.sh"]
)
def test_foreign_names_are_refused(name: str, tmp_path: Path) -> None:
    folder = made(tmp_path / "state")
    write(folder, tmp_path / "good")
    with tarfile.open(tmp_path / "good") as good, tarfile.open(tmp_path / "bad", "w:gz") as bad:
        for member in good:
            bad.addfile(member, good.extractfile(member))
        info = tarfile.TarInfo(name)
        info.size = 1
        bad.addfile(info, io.BytesIO(b"x"))
    before = files(tmp_path)
    with pytest.raises(BackupError, match="is not the backup of a fleet"):
        read(folder, tmp_path / "bad")
    assert files(tmp_path) == before


def test_links_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bad", "w:gz") as bad:
        info = tarfile.TarInfo("kubeconfig")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        bad.addfile(info)
    folder = made(tmp_path / "state")
    with pytest.raises(BackupError):
        read(folder, tmp_path / "bad")


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_cut_file_is_refused(keep: int, tmp_path: Path) -> None:
    folder = made(tmp_path / "state")
    write(folder, tmp_path / "file")
    (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:keep])
    before = files(tmp_path)
    with pytest.raises(BackupError):
        read(folder, tmp_path / "file")
    assert files(tmp_path) == before
