"""`corral serve` as a person runs it: one line when ready, a private kubeconfig, state that survives, a clean end."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from corral.client.sync import SyncClient
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS

pytestmark = pytest.mark.e2e


def _start(state: Path, kubeconfig: Path) -> subprocess.Popen[str]:
    code = "from corral.cli.main import main; main()"
    command = [sys.executable, "-c", code, "serve", "--state", str(state), "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "is ready at https://127.0.0.1:" in line, process.stderr.read() if process.stderr else line
    return process


def _stop(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    return errors


def test_serve_keeps_its_state_and_its_identity(tmp_path: Path) -> None:
    state, kubeconfig = tmp_path / "state", tmp_path / "kubeconfig"
    process = _start(state, kubeconfig)
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    SyncClient.from_kubeconfig(kubeconfig).create(
        CONFIG_MAPS, {"metadata": {"name": "kept", "namespace": "default"}, "data": {"a": "b"}}
    )
    assert _stop(process) == ""
    authority = (state / "pki" / "ca.crt").read_bytes()
    process = _start(state, kubeconfig)
    kept = SyncClient.from_kubeconfig(kubeconfig).get(CONFIG_MAPS, "kept", "default")
    assert kept["data"] == {"a": "b"}
    assert (state / "pki" / "ca.crt").read_bytes() == authority
    assert stat.S_IMODE((state / "pki" / "ca.key").stat().st_mode) == 0o600
    assert _stop(process) == ""


def test_two_servers_cannot_share_a_state(tmp_path: Path) -> None:
    process = _start(tmp_path / "state", tmp_path / "kubeconfig")
    code = "from corral.cli.main import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "serve",
        "--state",
        str(tmp_path / "state"),
        "--kubeconfig",
        str(tmp_path / "k"),
    ]
    second = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert second.returncode == 1
    assert "another process" in second.stderr
    assert "Traceback" not in second.stderr
    _stop(process)
