"""A backup may come from somebody else: it is a whole fleet or refused, and does nothing outside the folder that was not allowed by name."""

from __future__ import annotations

import io
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from corral.fleet.backup import BackupError, read
from corral.fleet.folder import FleetFolder
from corral.fleet.networks import Claims, network
from corral.store.integrity import SCHEMA

JOURNAL = "clusters/manager/store.db"
SPEC: dict[str, Any] = {"clusters": [{"name": "manager"}]}
PROVIDER = ["/opt/wrap", "a key"]


def database(tmp_path: Path, script: str) -> bytes:
    path = tmp_path / "made.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as made:
        made.executescript(script)
    return path.read_bytes()


def backup(tmp_path: Path, changed: dict[str, bytes | None]) -> Path:
    """A backup with these files in it, beside the usual ones."""
    usual = {
        ".corral-fleet.json": b'["manager"]',
        "fleet.json": msgspec.json.encode(SPEC),
        JOURNAL: database(tmp_path, SCHEMA),
        "clusters/manager/pki/ca.key": b"key" * 10_000,
    }
    file = tmp_path / "file"
    with tarfile.open(file, "w:gz") as archive:
        for name, content in {**usual, **changed}.items():
            if content is not None:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return file


def described(**fields: object) -> dict[str, bytes | None]:
    return {"fleet.json": msgspec.json.encode({**SPEC, **fields})}


def cluster(**fields: object) -> dict[str, object]:
    return {"clusters": [{"name": "manager", **fields}]}


def fleet(tmp_path: Path) -> FleetFolder:
    folder = FleetFolder(tmp_path / "state")
    folder.create()
    folder.cluster("manager").mkdir()
    (folder.cluster("manager") / "store.db").write_bytes(b"what is there")
    return folder


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def refused(tmp_path: Path, file: Path, why: str) -> None:
    folder = fleet(tmp_path)
    before = files(folder.root)
    with pytest.raises(BackupError, match=why):
        read(folder, file)
    assert files(folder.root) == before


def test_a_backup_without_surprises_is_taken(tmp_path: Path) -> None:
    assert read(fleet(tmp_path), backup(tmp_path, {})) == ["manager"]


@pytest.mark.parametrize(
    "script",
    [
        "",
        "CREATE TABLE holidays (day)",
        f"{SCHEMA} CREATE TABLE more (column);",
        f"{SCHEMA} CREATE TRIGGER gone AFTER INSERT ON log BEGIN DELETE FROM log; END;",
        "CREATE TABLE meta (name, value); CREATE VIEW log AS SELECT 1 AS revision",
    ],
)
def test_what_is_no_journal_replaces_none(script: str, tmp_path: Path) -> None:
    refused(tmp_path, backup(tmp_path, {JOURNAL: database(tmp_path, script)}), "cluster manager.*not a journal")


@pytest.mark.parametrize(("content", "why"), [(b"", "not a journal"), (b"no database" * 500, "not a database")])
def test_bytes_that_are_no_database_replace_none(content: bytes, why: str, tmp_path: Path) -> None:
    refused(tmp_path, backup(tmp_path, {JOURNAL: content}), why)


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    file = backup(tmp_path, {})
    content = bytearray(file.read_bytes())
    content[-8] ^= 1  # of the checksum: a whole archive comes before it
    file.write_bytes(content)
    refused(tmp_path, file, "not a whole backup")


@pytest.mark.parametrize("at", range(20, 300, 40))
def test_changed_bytes_are_noticed_anywhere(at: int, tmp_path: Path) -> None:
    file = backup(tmp_path, {})
    content = bytearray(file.read_bytes())
    content[at : at + 8] = bytes(8)
    file.write_bytes(content)
    refused(tmp_path, file, "not a whole backup|not the backup")


def test_a_file_that_is_longer_than_what_was_sent_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with tarfile.open(file, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo(JOURNAL)
        info.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 24)}
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    refused(tmp_path, file, "is not the backup of a fleet: it has")


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"encryptionProvider": PROVIDER}, "/opt/wrap 'a key'"),
        ({"address": "0.0.0.0"}, "0.0.0.0"),
        ({"address": "a.example"}, "a.example"),
        ({"images": "/tmp/programs.toml"}, "/tmp/programs.toml"),
        (cluster(config="/tmp/config.yaml"), "/tmp/config.yaml"),
        (cluster(auditLog={"path": "/home/you/.bashrc"}), "/home/you/.bashrc"),
        (cluster(auditLog={"path": "../../../.bashrc"}), "../../../.bashrc"),
        (cluster(webhookNetworks=["127.0.0.1/32"]), "127.0.0.1/32"),
    ],
)
def test_what_a_fleet_does_outside_its_folder_is_allowed_by_name_or_not_done(
    fields: dict[str, object], what: str, tmp_path: Path
) -> None:
    file = backup(tmp_path, described(**fields))
    refused(tmp_path, file, "if that is meant, say --allow")
    with pytest.raises(BackupError):
        read(fleet(tmp_path / "other"), file, ["something else"])
    assert read(fleet(tmp_path / "third"), file, [what]) == ["manager"]


def test_what_stays_in_the_folder_needs_no_word(tmp_path: Path) -> None:
    fields = {**cluster(auditLog={"path": "audit/log"}), "address": "127.0.0.2"}
    assert read(fleet(tmp_path), backup(tmp_path, described(**fields))) == ["manager"]


@pytest.mark.parametrize("text", [b"{}", b"[]", b"\xff", b'{"clusters": []}', b'{"clusters": [{"name": "../.."}]}'])
def test_a_description_that_cannot_be_started_is_refused(text: bytes, tmp_path: Path) -> None:
    refused(tmp_path, backup(tmp_path, {"fleet.json": text}), "what to start")


def test_no_name_in_a_backup_is_a_path(tmp_path: Path) -> None:
    folder = fleet(tmp_path)
    read(folder, backup(tmp_path, {".corral-fleet.json": b'["../../elsewhere", "manager"]'}))
    assert folder.started() == ["manager"]  # `corral down --delete` removes what is below these


def test_no_kubeconfig_comes_out_of_a_backup(tmp_path: Path) -> None:
    folder = fleet(tmp_path)
    program = b"users: [{name: a, user: {exec: {command: /opt/run}}}]"
    read(folder, backup(tmp_path, {"kubeconfig": program, "clusters/manager/admin.kubeconfig": program}))
    assert program not in files(folder.root).values()


@pytest.mark.parametrize("status", [b"[]", b'{"supervisor": 1, "clusters": [{"name": "manager", "port": 70000}]}'])
def test_a_status_that_leads_nowhere_is_refused(status: bytes, tmp_path: Path) -> None:
    refused(tmp_path, backup(tmp_path, {"status.json": status}), "its status")


@pytest.mark.parametrize("wanted", ["0.0.0.0/0", "127.0.0.0/8", "nothing"])
def test_pods_live_in_networks_of_ours_whatever_a_status_says(wanted: str) -> None:
    claims = Claims()
    try:
        assert claims.claim([wanted]) in {network(number) for number in range(256)}
    finally:
        claims.release()
