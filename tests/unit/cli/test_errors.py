"""What goes wrong on the user's side is told in one line, never as a traceback."""

from __future__ import annotations

import socket
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
    assert (done.returncode, done.stderr) == (1, "Error: the fleet did not start: no free port on 192.0.2.1\n")
    assert folder.read_spec() is None
    deleted = subprocess.run([*command[:3], "down", "--delete", "--state", str(folder.root)], check=False, timeout=60)
    assert deleted.returncode == 0
    assert not folder.root.exists()


def test_a_port_in_use_is_named_with_its_cluster(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "fleet.yaml").write_text(f"clusters: [{{name: manager, roles: [manager], port: {port}}}]\n")
        command = [sys.executable, "-m", "corral.cli.main", "up", "-f", str(tmp_path / "fleet.yaml")]
        command += ["--state", str(tmp_path / "state")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    why = f"port {port} of cluster manager is in use on 127.0.0.1"
    assert (done.returncode, done.stderr) == (1, f"Error: the fleet did not start: {why}\n")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["upp"], "No such command 'upp'. Did you mean up?"),
        (["queue", "lst"], "No such command 'lst'. Did you mean list?"),
        (["fleet", "zzz"], "No such command 'zzz'. There are approve, describe"),
        (["clusters", "drian", "w1"], "Did you mean drain?"),
    ],
)
def test_a_misspelt_command_is_answered_with_those_there_are(
    words: list[str], answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert answer in capsys.readouterr().err


def test_a_fleet_that_does_not_answer_is_one_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        f"""
        current-context: c
        contexts: [{{name: c, context: {{cluster: c}}}}]
        clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
        """
    )
    with pytest.raises(SystemExit) as ended:
        main(["explain", "job/x", "--kubeconfig", str(kubeconfig)])
    assert ended.value.code == 1
    assert "`corral status` shows whether a fleet runs here, `corral up` starts it" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", shell])
    assert ended.value.code == 0
    assert "_CORRAL_COMPLETE" in capsys.readouterr().out
