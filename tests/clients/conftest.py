"""One real server process for the client tests; every test gets a namespace of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.client.sync import SyncClient
from corral.kinds.kubernetes.core.kinds import NAMESPACES

_numbers = itertools.count(1)
FRONTS = "2"
"""Processes in front of the server: other people's software must not notice them, and what they hand on is answered as without."""


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a running server whose pods are this machine."""
    state = tmp_path_factory.mktemp("cluster")
    script = Path(__file__).with_name("serve_with_pods.py")
    with (state / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(script), str(state), FRONTS], stdout=subprocess.PIPE, stderr=log
        )
        assert process.stdout is not None
        line = process.stdout.readline().decode().strip()
        assert line, f"the server did not start: {(state / 'log').read_text()}"
        yield Path(line)
        process.terminate()
        process.stdout.close()
        assert process.wait(120) == 0


@pytest.fixture
def namespace(kubeconfig: Path) -> str:
    name = f"client-{next(_numbers)}-{os.getpid()}"
    SyncClient.from_kubeconfig(kubeconfig).create(NAMESPACES, {"metadata": {"name": name}})
    return name


Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(kubeconfig: Path, namespace: str, tmp_path: Path) -> Kubectl:
    """Runs kubectl in the test's namespace and returns what it printed."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("there is no kubectl on the PATH")

    def run(*arguments: str, stdin: str | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [program, f"--cache-dir={tmp_path / 'cache'}", "--namespace", namespace, *arguments]
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=180, env=environment, check=False
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
