"""Folders packed for jobs: the same files are the same bytes, what is ignored stays, what is too large is named."""

from __future__ import annotations

import base64
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from corral.submit.archive import PIECE, Archive, pack
from corral.submit.errors import PackingError


def write(folder: Path, **files: str) -> None:
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def names(archive: Archive) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as opened:
        return opened.getnames()


def test_the_same_files_make_the_same_archive_wherever_and_whenever_they_were_written(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write(tmp_path / folder, train="x", lib__a="1", lib__b="2")
    (tmp_path / "two" / "train").touch()
    assert pack(tmp_path / "one").digest == pack(tmp_path / "two").digest


def test_caches_environments_and_what_an_ignore_file_names_stay_at_home(tmp_path: Path) -> None:
    write(tmp_path, train="x", venv__bin__python="x", __pycache____a="x", data__big="x", logs__a="x", deep__logs__b="x")
    (tmp_path / ".corralignore").write_text("# data stays\n/data\nlogs/\n*.tmp\n!keep.tmp\n")
    write(tmp_path, **{"a.tmp": "x", "keep.tmp": "x"})
    assert names(pack(tmp_path)) == [".corralignore", "deep", "keep.tmp", "train"]


def test_a_line_brings_back_what_usually_stays_at_home(tmp_path: Path) -> None:
    write(tmp_path, venv__notes="x")
    (tmp_path / ".gitignore").write_text("!venv\n")
    assert names(pack(tmp_path)) == [".gitignore", "venv/notes"]


def test_a_folder_that_is_too_large_is_refused_with_its_largest_files(tmp_path: Path) -> None:
    write(tmp_path, small="x", large="y" * 100_000)
    with pytest.raises(PackingError, match=r"the largest files are large \(98 KiB\), small \(0 KiB\)") as said:
        pack(tmp_path, limit=1000)
    assert "--in-place runs it in the folder itself, however large" in str(said.value)


def test_what_is_packed_is_unpacked_the_same_by_the_tar_of_any_machine(tmp_path: Path) -> None:
    write(tmp_path / "project", train="x", data__v1__a="1")
    (tmp_path / "project" / "out").mkdir()
    (tmp_path / "project" / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "project" / "run.sh").chmod(0o700)
    (tmp_path / "project" / "latest").symlink_to(tmp_path / "project" / "data" / "v1")
    (tmp_path / "project" / "same").hardlink_to(tmp_path / "project" / "train")
    (tmp_path / "there").mkdir()
    subprocess.run(["tar", "-xzf", "-", "-C", tmp_path / "there"], input=pack(tmp_path / "project").content, check=True)
    there = tmp_path / "there"
    assert (there / "out").is_dir()
    assert (there / "latest").readlink() == Path("data/v1")
    assert (there / "latest" / "a").read_text() == "1"
    assert (there / "same").read_text() == "x"
    assert os.access(there / "run.sh", os.X_OK)
    assert pack(there).digest == pack(tmp_path / "project").digest


def test_pieces_put_together_in_the_order_of_their_names_are_the_archive() -> None:
    archive = Archive(bytes(range(256)) * 8192, frozenset())
    maps = archive.config_maps("default")
    assert len(maps) == -(-len(archive.content) // PIECE) > 1
    parts = {name: value for found in maps for name, value in found["binaryData"].items()}
    assert b"".join(base64.b64decode(parts[name]) for name in sorted(parts)) == archive.content
    assert all(found["immutable"] for found in maps)
