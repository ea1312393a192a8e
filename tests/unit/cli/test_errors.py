"""What goes wrong on the user's side is told in one line, never as a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from corral.cli.main import main
from corral.fleet.state import FleetFolder


@pytest.mark.parametrize("command", [["up", "--workers", "1"], ["serve", "--kubeconfig", "admin"]])
def test_a_folder_that_cannot_be_made(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main([*command, "--state", str(tmp_path / "file" / "state")])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith(f"Error: {tmp_path / 'file'}")
    assert told.rstrip().endswith(": Not a directory")


def test_what_did_not_start_is_not_come_back_to(tmp_path: Path) -> None:
    file, folder = tmp_path / "fleet.yaml", FleetFolder(tmp_path / "state")
    file.write_text("address: 192.0.2.1\nclusters: [{name: manager, roles: [manager]}]\n")
    command = [sys.executable, "-m", "corral.cli.main", "up", "-f", str(file), "--state", str(folder.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, "Error: the fleet did not start: OSError: no free port on 192.0.2.1\n")
    assert folder.read_spec() is None
    deleted = subprocess.run([*command[:3], "down", "--delete", "--state", str(folder.root)], check=False, timeout=60)
    assert deleted.returncode == 0
    assert not folder.root.exists()
