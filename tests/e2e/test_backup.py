"""`corral backup` of a fleet that is being written to, `corral restore`, and a database that is damaged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.started import client, corral, started

from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, SECRETS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SMALL = ("--workers", "0", "--simulated")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    with started(tmp_path / "state", *SMALL) as state:
        yield state


class Writer(threading.Thread):
    """Creates one ConfigMap after the other until told to stop; `written` have been acknowledged."""

    def __init__(self, state: Path) -> None:
        super().__init__()
        self.client, self.written, self.enough = client(state), 0, threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            metadata = {"name": f"entry-{self.written}", "namespace": "default"}
            self.client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"filling": "x" * 2000}})
            self.written += 1


def entries(state: Path) -> set[str]:
    names = {item["metadata"]["name"] for item in client(state).list(CONFIG_MAPS, "default")["items"]}
    return {name for name in names if name.startswith("entry-")}


def test_a_backup_under_load_is_whole_and_brings_a_damaged_fleet_back(state: Path, tmp_path: Path) -> None:
    file, database = tmp_path / "fleet.tar.gz", state / "clusters" / "manager" / "store.db"
    secret = {"metadata": {"name": "token", "namespace": "default"}, "stringData": {"key": "value"}}
    client(state).create(SECRETS, secret)
    writer = Writer(state)
    writer.start()
    try:
        while writer.written < 50:
            assert writer.is_alive()
        before = writer.written
        assert "Wrote manager" in corral(state, "backup", str(file)).stdout
        after = writer.written
    finally:
        writer.enough.set()
        writer.join()
    assert after > before
    assert file.stat().st_mode & 0o777 == 0o600
    refused = corral(state, "restore", "--replace", str(file), check=False)
    assert (refused.returncode, "already running" in refused.stderr) == (1, True)
    corral(state, "down")

    refused = corral(state, "restore", str(file), check=False)
    assert (refused.returncode, "has a fleet already; --replace" in refused.stderr) == (1, True)
    content = bytearray(database.read_bytes())
    content[4096 * 4 : 4096 * 12] = bytes(4096 * 8)
    database.write_bytes(content)
    failed = corral(state, "up", check=False)
    assert failed.returncode == 1
    assert f"{database} is damaged" in failed.stderr
    assert "`corral restore FILE` brings back a backup" in failed.stderr

    corral(state, "restore", "--replace", str(file))
    corral(state, "up")
    found = entries(state)
    # As of one moment: all that was acknowledged before it, and without a gap whatever came after.
    assert before <= len(found) <= writer.written
    assert found == {f"entry-{number}" for number in range(len(found))}
    assert client(state).get(SECRETS, "token", "default")["data"] == {"key": "dmFsdWU="}
