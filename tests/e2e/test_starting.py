"""A fleet is up or down, never half: two starts at once, Ctrl-C at every moment of a start, a supervisor that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.started import PATIENCE_S, ROOT, corral, eventually, processes

from corral.fleet.folder import FleetFolder

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SMALL = ("--workers", "0", "--simulated")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"
    corral(tmp_path / "state", "down", check=False)


def begin(state: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "corral.cli.main", "up", "--state", str(state), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def test_of_two_starts_at_once_one_wins_and_the_other_says_so(state: Path) -> None:
    both = [begin(state, *SMALL) for _ in range(2)]
    said = [(*process.communicate(timeout=PATIENCE_S), process.returncode) for process in both]
    assert sorted(code for _, _, code in said) == [0, 1]
    loser = next(error for _, error, code in said if code == 1)
    assert f"a fleet in {state}; `corral status" in loser or f"already running in {state}" in loser
    assert "ready" in corral(state, "status").stdout
    assert corral(state, "down").stdout == "Stopped 1 cluster.\n"
    assert processes(state) == []
    corral(state, "up")


def test_what_runs_is_found_without_its_status(state: Path) -> None:
    corral(state, "up", *SMALL)
    FleetFolder(state).status_file.unlink()
    assert "already" in (refused := corral(state, "up", check=False)).stderr or "process" in refused.stderr
    assert "Stopped" in corral(state, "down").stdout
    assert processes(state) == []


def test_a_status_that_names_a_stranger_stops_nobody(state: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    folder = FleetFolder(state)
    folder.create()
    folder.status_file.write_text(f'{{"supervisor": {stranger.pid}, "ready": true}}')
    assert "No fleet is running" in corral(state, "down").stdout
    assert stranger.poll() is None
    stranger.communicate()


PHASES: dict[str, Callable[[FleetFolder], bool]] = {
    "the folder is locked": lambda folder: folder.holder() is not None,
    "the fleet is described": lambda folder: folder.spec_file.exists(),
    "the supervisor runs": lambda folder: folder.supervisor_log.exists(),
    "clusters run": lambda folder: folder.read_status() is not None,
    "clusters serve": lambda folder: (known := folder.read_status()) is not None and bool(known.clusters[0].url),
    "the fleet is ready": lambda folder: (known := folder.read_status()) is not None and known.ready,
}


@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_leaves_a_fleet_that_is_up_or_none(phase: str, state: Path) -> None:
    starting, folder = begin(state, *SMALL), FleetFolder(state)
    while starting.poll() is None and not PHASES[phase](folder):
        pass
    starting.send_signal(signal.SIGINT)
    said, error = starting.communicate(timeout=PATIENCE_S)
    if starting.returncode == 0:
        assert "Ready in" in said
        assert "ready" in corral(state, "status").stdout
    else:
        assert "interrupted; " in error
        assert "no fleet" in error
        assert folder.holder() is None
        assert processes(state) == []
        assert folder.read_spec() is None


def test_the_clusters_of_a_killed_supervisor_stop(state: Path) -> None:
    corral(state, "up", *SMALL)
    supervisor = FleetFolder(state).holder()
    assert supervisor
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: FleetFolder(state).holder() is None)
    assert processes(state) == []
    corral(state, "up")
