"""Files and options of users that make no sense are answered with a sentence, by every command, and never silently left aside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from corral.cli.main import main
from corral.configuration.fleet import ClusterSpec, FleetSpec
from corral.fleet.folder import FleetFolder
from corral.node.images import Catalog

FILES = {
    "binary": bytes(range(256)) * 8,
    "cut": "clusters: [{name: é".encode("utf-16")[:-1],
    "latin": "clusters: [{name: é}]".encode("latin-1"),
    "zeros": bytes(2000),
    "deep": b"[" * 100_000,
    "dates": b"clusters: 2001-99-99",
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "empty": b"",
}
READERS = {
    "up": ["up", "--state", "{state}", "-f", "{file}"],
    "simulate": ["simulate", "-f", "{file}"],
    "controllers run": ["controllers", "run", "--config", "{file}", "--kubeconfig", "{file}"],
    "kubeconfig": ["queue", "list", "--kubeconfig", "{file}"],
    "restore": ["restore", "{file}", "--state", "{state}"],
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_text_is_answered_with_a_sentence(
    name: str, reader: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_bytes(FILES[name])
    words = [word.format(file=file, state=tmp_path / "state") for word in READERS[reader]]
    with pytest.raises(SystemExit) as ended:
        main(words)
    said = capsys.readouterr().err
    assert ended.value.code in (1, 2)
    assert "Error: " in said
    assert len(said) < 2000
    assert not (tmp_path / "state" / "fleet.json").exists()


def test_standard_input_that_is_no_text_is_answered_with_a_sentence() -> None:
    command = [sys.executable, "-m", "corral.cli.main", "simulate", "-f", "-"]
    done = subprocess.run(command, input=FILES["binary"], capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_every_encoding_with_a_byte_order_mark_is_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "images.toml").write_bytes('[[image]]\nmatch = ["é"]\nentrypoint = ["true"]\n'.encode(encoding))
    assert Catalog.load(tmp_path / "images.toml").find("é") is not None


def test_a_broken_catalog_is_named(tmp_path: Path) -> None:
    (tmp_path / "images.toml").write_text("[[image")
    with pytest.raises(ValueError, match=r"images\.toml is not TOML"):
        Catalog.load(tmp_path / "images.toml")


@pytest.mark.parametrize(
    "words",
    [["--cpu", "-4"], ["--memory", "-1Gi"], ["--gpu", "nvidia.com/gpu=-1"], ["--cpu", "many"], ["--nodes", "-1"]],
)
def test_nodes_with_less_than_nothing_are_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["up", "--state", str(tmp_path / "state"), "--workers", "1", *words])
    assert ended.value.code in (1, 2)
    assert (words[1].partition("=")[2] or words[1]) in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


OPTIONS = [["--bare"], ["--simulated"], ["--cpu", "4"], ["--memory", "1Gi"], ["--gpu", "a.b/c=1"], ["--nodes", "2"]]


@pytest.mark.parametrize("words", [*OPTIONS, ["--workers", "1"], ["--fleet", "1"]])
def test_options_beside_a_file_are_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet.yaml").write_text("clusters: [{name: one}]")
    with pytest.raises(SystemExit) as ended:
        main(["up", "--state", str(tmp_path / "state"), "-f", str(tmp_path / "fleet.yaml"), *words])
    assert (ended.value.code, f"{words[0]} has no effect here" in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("words", OPTIONS)
def test_options_that_would_not_change_the_fleet_that_comes_back_are_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = FleetFolder(tmp_path)
    folder.create()
    folder.write_spec(FleetSpec(clusters=[ClusterSpec(name="one")]))
    with pytest.raises(SystemExit) as ended:
        main(["up", "--state", str(tmp_path), *words])
    assert (ended.value.code, "comes back as it was" in capsys.readouterr().err) == (2, True)
