"""`corral version` always answers, with or without a cluster."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from corral import __version__
from corral.cli.main import corral


def test_a_cluster_that_is_not_there_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/config")
    said = CliRunner().invoke(corral, ["version"])
    assert said.exit_code == 0
    assert said.output.splitlines()[0] == f"corral    {__version__}"
    assert "server    none: KUBECONFIG names /nonexistent/config" in said.output
    assert json.loads(CliRunner().invoke(corral, ["version", "-o", "json"]).output)["corral"] == __version__


def test_the_package_can_be_run() -> None:
    done = subprocess.run([sys.executable, "-m", "corral", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"corral, version {__version__}\n"
