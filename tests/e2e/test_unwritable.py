"""A state folder on a file system that is read-only, or full: a sentence that says so, and nothing that runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.started import ROOT, processes
from tests.waiting import PATIENCE_S

from corral.configuration.fleet import standard
from corral.fleet.folder import FleetFolder

FULL = 'mount -t tmpfs -o size=200k none "$0" && exec "$@"'
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def may_mount() -> bool:
    if os.geteuid() or shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return tried.returncode == 0


pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not may_mount(), reason="mounting needs root and a mount namespace of one's own"),
]


def command(mount: str, folder: Path, *arguments: str) -> tuple[int, str]:
    """How a command ends, and what it says, where `folder` is mounted in such a way."""
    words = ["unshare", "-m", "sh", "-c", mount, str(folder), sys.executable, "-m", "corral.cli.main", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=ROOT)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def nothing_yet(folder: FleetFolder) -> None:
    folder.root.mkdir()


def a_fleet_that_was(folder: FleetFolder) -> None:
    folder.create()
    folder.write_spec(standard(runtime="simulated"))


def a_fleet_that_ran(folder: FleetFolder) -> None:
    a_fleet_that_was(folder)
    (folder.root / "fleet.lock").touch()


@pytest.mark.parametrize("before", [nothing_yet, a_fleet_that_was, a_fleet_that_ran])
def test_no_fleet_starts_where_nothing_can_be_written(tmp_path: Path, before: Callable[[FleetFolder], None]) -> None:
    folder = FleetFolder(tmp_path / "state")
    before(folder)
    known = sorted(path.name for path in folder.root.iterdir())
    code, said = command(READ_ONLY, folder.root, "up", "--state", str(folder.root))
    assert code == 1
    assert f"Error: the fleet did not start: {folder.root}/" in said
    assert "Read-only file system" in said
    assert "name another folder with --state" in said
    assert sorted(path.name for path in folder.root.iterdir()) == known
    assert folder.holder() is None


def test_no_fleet_starts_where_no_space_is_left(tmp_path: Path) -> None:
    code, said = command(FULL, tmp_path, "up", "--state", str(tmp_path / "state"), "--workers", "0", "--simulated")
    left = processes(tmp_path)
    for process in left:
        os.kill(process, signal.SIGTERM)
    assert code == 1
    assert re.search(r"Error: .*(no space (is )?left|disk is full)", said, re.IGNORECASE)
    assert left == []


def test_a_server_says_that_it_cannot_keep_its_state(tmp_path: Path) -> None:
    code, said = command(
        READ_ONLY, tmp_path, "serve", "--state", str(tmp_path / "state"), "--kubeconfig", "/tmp/unused"
    )
    assert code == 1
    assert "Read-only file system" in said
