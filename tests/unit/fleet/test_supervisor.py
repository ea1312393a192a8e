"""A supervisor whose disk is full, or whose folder cannot be written: what starts is up or gone, what is up stays up."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import eventually

from corral.client import kubeconfig
from corral.configuration.fleet import ClusterSpec, FleetSpec
from corral.fleet.folder import FleetFolder, FleetStatus
from corral.fleet.lock import FolderLock
from corral.fleet.starter import Interruptions, NotStarted, await_ready, spawn
from corral.fleet.supervisor import Place, Supervisor
from corral.runtime import logs

FLEET = FleetSpec([ClusterSpec("one", ["worker"])])
DOCUMENT = {"current-context": "c", "contexts": [{"name": "c"}], "clusters": [], "users": []}


def serve(fleet: FleetSpec, spec: ClusterSpec, folder: FleetFolder, place: Place, ready: int) -> None:
    """A cluster that says it is ready, and does nothing until it is told to stop."""
    kubeconfig.write(DOCUMENT, folder.admin_kubeconfig(spec.name))
    os.write(ready, b"https://127.0.0.1:1\n")
    signal.pause()


@pytest.fixture
def folder(tmp_path: Path) -> FleetFolder:
    made = FleetFolder(tmp_path / "state")
    made.create()
    return made


@pytest.fixture
def start(folder: FleetFolder) -> Iterator[Callable[[], int]]:
    started: list[int] = []
    lock = FolderLock(folder.root)

    def supervise() -> None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # not the one that pytest keeps
        logs.set_up(verbosity=1)
        Supervisor(FLEET, folder, lock, serve, lambda fleet, folder: None).run()

    def spawned() -> int:
        started.append(spawn(folder, supervise))
        return started[-1]

    yield spawned
    lock.release()
    for pid in started:
        try:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue
    assert folder.holder() is None, "nothing of it runs"


def cannot_be_written(file: Path) -> Path:
    """Have a file of the folder not be written, also not by root; undone by taking the answer away."""
    obstacle = file.with_name(file.name + ".new")
    obstacle.mkdir()
    return obstacle


def up(folder: FleetFolder, supervisor: int) -> FleetStatus:
    with Interruptions() as interruptions:
        return await_ready(folder, supervisor, interruptions)


def test_a_fleet_that_cannot_say_that_it_starts_does_not(folder: FleetFolder, start: Callable[[], int]) -> None:
    cannot_be_written(folder.status_file)
    with pytest.raises(NotStarted, match=r"the fleet did not start: .*Is a directory"):
        up(folder, start())


def test_a_fleet_whose_kubeconfig_cannot_be_written_does_not_start(
    folder: FleetFolder, start: Callable[[], int]
) -> None:
    cannot_be_written(folder.kubeconfig)
    with pytest.raises(NotStarted, match=r"the fleet did not start: .*Is a directory"):
        up(folder, start())


def test_a_fleet_that_is_up_stays_up_where_nothing_can_be_written(
    folder: FleetFolder, start: Callable[[], int]
) -> None:
    supervisor = start()
    (before,) = up(folder, supervisor).clusters
    obstacle = cannot_be_written(folder.status_file)
    os.kill(before.pid, signal.SIGKILL)
    eventually(lambda: "what runs cannot be written down" in folder.supervisor_log.read_text())
    obstacle.rmdir()
    after = eventually(lambda: (now := up(folder, supervisor).clusters[0]).restarts == 1 and now.pid and now)
    assert after.pid != before.pid
    assert folder.holder() == supervisor
