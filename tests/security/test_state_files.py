"""What a cluster keeps on disk is readable by its owner alone, also in a folder that everybody can enter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.clusters.embedded_api import EmbeddedApi
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.node.process.logfile import LogFile


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable_by_others(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & 0o077)


async def test_state_files_are_private_in_a_public_folder(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    (state / "store.db").touch(0o644)  # as an earlier version has left it
    (state / "audit.log").touch(0o644)
    cluster = EmbeddedApi(state, audit=state / "audit.log")
    await cluster.start()
    try:
        await cluster.client.create(SECRETS, {"metadata": {"name": "s", "namespace": "default"}, "data": {"k": "dg=="}})
        assert {"store.db", "store.db-wal", "audit.log"} <= {path.name for path in state.iterdir()}
        assert readable_by_others(state) == []
    finally:
        await cluster.stop()
    assert readable_by_others(state) == []


def test_logs_of_containers_are_private(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", max_bytes=10)
    for _ in range(3):
        log.write("stdout", b"some text\n")
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1"]
    assert readable_by_others(tmp_path) == []
