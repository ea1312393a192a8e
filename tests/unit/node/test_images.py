"""What runs for an image."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from corral.node import agnhost
from corral.node.images import Catalog, UnknownImageError

CATALOG = Catalog.load()
PYTHON = sys.executable
AGNHOST = agnhost.__file__


@pytest.mark.parametrize(
    ("image", "command", "args", "want"),
    [
        ("ubuntu:22.04", ["/bin/bash", "-c", "echo"], [], ("/bin/bash", "-c", "echo")),
        ("docker.io/library/busybox:1.36", [], [], ("sh",)),
        ("busybox", [], ["echo", "hi"], ("echo", "hi")),
        ("python:3.12-slim", [], [], (PYTHON,)),
        ("python:3.12-slim", ["python", "train.py"], [], (PYTHON, "train.py")),
        ("registry.k8s.io/pause:3.10", [], [], (PYTHON, AGNHOST, "hold")),
        ("registry.k8s.io/e2e-test-images/agnhost:2.53@sha256:abc", [], ["netexec"], (PYTHON, AGNHOST, "netexec")),
        ("e2e-test-images/agnhost:2.53", ["/agnhost", "pause"], [], (PYTHON, AGNHOST, "pause")),
        ("nginx:latest", [], [], (PYTHON, AGNHOST, "serve")),
        ("pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime", ["torchrun", "a.py"], [], ("torchrun", "a.py")),
        ("tensorflow/tensorflow:latest", ["python"], ["x.py"], (PYTHON, "x.py")),
        ("localhost:5000/mine", ["./run"], ["--fast"], ("./run", "--fast")),
    ],
)  # fmt: skip
def test_resolve(image: str, command: list[str], args: list[str], want: tuple[str, ...]) -> None:
    program = CATALOG.resolve(image, command, args)
    assert program.argv == want
    assert program.note == ""


@pytest.mark.parametrize("args", [[], ["--epochs", "3"]])
def test_image_nobody_knows_is_simulated_and_says_so(args: list[str]) -> None:
    program = CATALOG.resolve("example.com/team/train:v1", [], args)
    assert program.argv == ("sleep", "30")
    assert "simulating it for 30s" in program.note


def test_own_entries_come_first(tmp_path: Path) -> None:
    own = tmp_path / "images.toml"
    own.write_text(
        '[defaults]\nunknown = "fail"\n[[image]]\nmatch = ["team/*"]\nentrypoint = ["/opt/train"]\n'
        'env = { MODE = "local" }\nworkdir = "/srv"\n[[image]]\nmatch = ["busybox"]\ncmd = ["zsh"]\n'
    )
    catalog = Catalog.load(own)
    program = catalog.resolve("example.com/team/train:v1", [], ["-v"])
    assert (program.argv, program.env, program.workdir) == (("/opt/train", "-v"), {"MODE": "local"}, "/srv")
    assert catalog.resolve("busybox", [], []).argv == ("zsh",)
    assert catalog.resolve("alpine", [], []).argv == ("sh",)
    with pytest.raises(UnknownImageError):
        catalog.resolve("nobody/knows", ["x"], [])
