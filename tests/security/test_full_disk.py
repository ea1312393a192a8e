"""A cluster whose disk is full goes on answering, says what is wrong, and is well again when there is room."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from corral.cli.main import corral
from corral.cli.up import not_ready
from corral.clusters.embedded_api import EmbeddedApi
from corral.core.errors import ApiError
from corral.fleet.folder import ClusterStatus, FleetFolder, FleetStatus
from corral.fleet.lock import FolderLock
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.store import SqliteJournal


def big(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"filling": "x" * 100_000}}


async def fill(cluster: EmbeddedApi) -> None:
    for number in range(20):
        await cluster.client.create(CONFIG_MAPS, big(f"big-{number}"))


async def test_status_says_which_cluster_cannot_write_and_why(tmp_path: Path) -> None:
    folder = FleetFolder(tmp_path / "state")
    folder.create()
    cluster = EmbeddedApi(folder.cluster("one"), name="corral-one")
    await cluster.start()

    async def status() -> str:
        done = await asyncio.to_thread(CliRunner().invoke, corral, ["status", "--state", str(folder.root)])
        return done.stdout.splitlines()[1]  # the cluster logs to the same process's stderr

    try:
        cluster.server.write_kubeconfig(folder.admin_kubeconfig("one"))
        with FolderLock(folder.root):
            entry = ClusterStatus("one", os.getpid(), cluster.server.port, cluster.server.url)
            folder.write_status(FleetStatus(os.getpid(), True, "", [entry]))
            assert (await status()).endswith("ready")
            journal = cluster.store._journal
            assert isinstance(journal, SqliteJournal)
            journal._connection.execute("PRAGMA max_page_count=1")
            with pytest.raises(ApiError, match="database or disk is full"):
                await fill(cluster)
            said = await status()
            assert "not ready: journal failed: the journal could not keep the write: database or disk is full" in said
            (warning,) = await asyncio.to_thread(not_ready, folder, FleetStatus(os.getpid(), True, "", [entry]))
            assert warning.startswith("cluster one is not ready: journal failed: ")
            assert await cluster.client.list(CONFIG_MAPS, "default")
            journal._connection.execute("PRAGMA max_page_count=1000000")
            await cluster.client.create(CONFIG_MAPS, big("after"))
            assert (await status()).endswith("   ready")
    finally:
        await cluster.stop()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = CliRunner().invoke(corral, ["up", "--state", str(tmp_path / "state")])
    tmp_path.chmod(0o700)
    assert done.exit_code == 1
    assert f"Error: the fleet did not start: {tmp_path / 'state'}: Permission denied" in done.output
    assert "name another folder with --state" in done.output
