"""client-go, unmodified, in a small Go program: what operators and other projects' suites are made of."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "client_go"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go on the PATH")
    built = tmp_path_factory.mktemp("go") / "client"
    environment = {**os.environ, "GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOSUMDB": "off"}
    source = built.with_name("source")
    shutil.copytree(PROGRAM, source)
    done = subprocess.run(
        [go, "build", "-p", "1", "-o", str(built), "."],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("the Go modules of client-go are not on this machine")
    return built


def test_client_go(program: Path, kubeconfig: Path) -> None:
    done = subprocess.run([str(program), str(kubeconfig)], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok   namespace gone" in done.stdout
