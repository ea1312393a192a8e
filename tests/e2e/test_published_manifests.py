"""The manifests of the published pages, applied with kubectl from files as they are printed there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.started import PATIENCE_S, started
from tests.published import FOLDER

VALID = [
    "resource-flavor",
    "cluster-queue",
    "namespace",
    "cluster-placement",
    "local-queue",
    "jobs",
    "placements",
    "cluster-training-runtime",
    "trainjob",
]
"""In the order of the pages: later ones need earlier ones."""
FLEET = """
clusters:
  - name: one
    roles: [manager, worker, hub]
    nodes: [{cpu: 8}]
queues: false
"""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("published")
    (folder / "fleet.yaml").write_text(FLEET)
    with started(folder / "state", "-f", str(folder / "fleet.yaml")) as state:
        yield state


def apply(state: Path, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}
    command = ["kubectl", "apply", *options, "-f", str(FOLDER / f"{name}.yaml")]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)


def test_every_manifest_is_accounted_for() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.yaml")) == sorted([*VALID, "tfjob"])


def test_valid_manifests_are_taken_as_they_are(state: Path) -> None:
    for name in VALID:
        done = apply(state, name)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        assert "created" in done.stdout
        again = apply(state, name)
        assert again.returncode == 0, f"{name}, again: {again.stderr}"


@pytest.mark.parametrize("options", [(), ("--server-side",), ("--validate=false",)], ids=["client", "server", "loose"])
def test_replica_specs_in_the_wrong_place_are_told_where_they_belong(state: Path, options: tuple[str, ...]) -> None:
    done = apply(state, "tfjob", *options)
    assert done.returncode != 0
    text = "replica specs belong directly under spec: move spec.runPolicy.tfReplicaSpecs to spec.tfReplicaSpecs"
    assert text in done.stderr
