"""What runs for an image."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
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
def test_an_image_that_nobody_knows_and_has_no_command_cannot_be_pulled(args: list[str]) -> None:
    with pytest.raises(
        UnknownImageError, match=r"give the container a command, or the image an entry .*corral\.dev/simulate"
    ):
        CATALOG.resolve("example.com/team/train:v1", [], args)


@pytest.mark.parametrize("args", [[], ["--epochs", "3"]])
def test_an_image_that_nobody_knows_is_simulated_by_choice_and_says_so(args: list[str]) -> None:
    program = replace(CATALOG, unknown="simulate").resolve("example.com/team/train:v1", [], args)
    assert "sleep 30" in program.argv[-1]
    assert "echo 'simulated for 30s: image" in program.argv[-1]
    assert program.note.startswith("Simulated for 30s: image")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[[image]]\nmatch = ["a"]\nentrypont = ["x"]\n', ", line 3: unknown key 'entrypont' in [[image]]; did you mean 'entrypoint'?"),
        ("[defaults]\n\nsimulate = 3\n", ", line 3: unknown key 'simulate' in [defaults]; did you mean 'simulate_seconds'?"),
        ("[default]\n", ", line 1: unknown key 'default' in the catalog; did you mean 'defaults'?"),
        ('[defaults]\nunknown = "pretend"\n', ", line 2: unknown is 'pretend'; it is one of command, simulate, fail"),
        ('[[image]]\nmatch = "a"\n', ", line 2: match of [[image]] is 'a'; it must be a list of texts"),
        ('[[image]]\ncmd = ["a"]\n', ", line 2: an [[image]] needs match"),
        ("[image]\n", ", line 1: image is a list of tables: write [[image]]"),
        ('[defaults]\nsimulate_seconds = "long"\n', ", line 2: simulate_seconds of [defaults] is 'long'; it must be a number"),
    ],
)  # fmt: skip
def test_a_misspelt_key_of_a_catalog_is_refused_with_file_and_line(text: str, fault: str, tmp_path: Path) -> None:
    own = tmp_path / "images.toml"
    own.write_text(text)
    with pytest.raises(ValueError, match=re.escape(f"{own}{fault}")):
        Catalog.load(own)


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
