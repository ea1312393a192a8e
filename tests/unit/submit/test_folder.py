"""What of a folder travels: empty folders too, links that stay inside, and a sentence for all that cannot."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corral.submit.archive import pack
from corral.submit.errors import PackingError
from corral.submit.folder import FILE, FOLDER, LINK, contents

NOBODY = 65534


def found(folder: Path) -> dict[str, str]:
    return {entry.name: entry.target or entry.kind for entry in contents(folder)}


def test_empty_folders_travel_and_those_left_out_do_not(tmp_path: Path) -> None:
    (tmp_path / "out" / "models").mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    (tmp_path / ".gitignore").write_text("logs/\n")
    assert found(tmp_path) == {".gitignore": FILE, "out/models": FOLDER}


def test_each_folder_may_have_a_file_of_its_own_of_which_corrals_counts_first(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "deep/a.log", "deep/b.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("*.log")
    (tmp_path / "deep" / ".gitignore").write_text("nothing")
    (tmp_path / "deep" / ".corralignore").write_text("!/a.log")
    kept = [name for name in found(tmp_path) if name.endswith(".log")]
    assert kept == ["deep/a.log"]


def test_an_ignore_file_may_be_written_by_powershell_and_must_be_text(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    (tmp_path / ".corralignore").write_text("data\r\n", encoding="utf-16")
    assert found(tmp_path) == {".corralignore": FILE}
    (tmp_path / ".corralignore").write_bytes(b"\xff\x00\xff")
    with pytest.raises(PackingError, match=r"\.corralignore cannot be read.*not a text file"):
        contents(tmp_path)


@pytest.mark.parametrize(
    ("place", "written", "kept"),
    [
        ("link", "data/a", "data/a"),
        ("link", "data", "data"),
        ("link", "not/there", "not/there"),
        ("link", "link", "link"),
        ("data/link", "../data/a", "../data/a"),
        ("data/link", "{top}/data/a", "a"),
        ("data/link", "../../{name}/data/a", "a"),
        ("link", "alias/data", "alias/data"),
        ("link", ".", "."),
    ],
)
def test_a_link_inside_the_folder_stays_one_and_leads_to_the_same_wherever_the_folder_is(
    tmp_path: Path, place: str, written: str, kept: str
) -> None:
    top = tmp_path / "project"
    (top / "data").mkdir(parents=True)
    (top / "data" / "a").touch()
    (top / "alias").symlink_to(".")
    (top / place).symlink_to(written.format(top=top, name=top.name))
    (entry,) = (entry for entry in contents(top) if entry.name == place)
    assert (entry.kind, entry.target) == (LINK, kept)


@pytest.mark.parametrize("written", ["..", "../home/secret", "/etc/passwd", "away/secret", "../project2"])
def test_a_link_out_of_the_folder_is_refused_unless_it_is_left_out(tmp_path: Path, written: str) -> None:
    top = tmp_path / "project"
    top.mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "project2").mkdir()
    (top / "away").symlink_to(tmp_path / "home")
    (top / "link").symlink_to(written)
    (top / ".corralignore").write_text("away\n")
    with pytest.raises(PackingError, match=rf"^link is a link to {written}, which is not in .*\(/link\)"):
        contents(top)
    (top / ".corralignore").write_text("away\n/link\n")
    assert found(top) == {".corralignore": FILE}


@contextmanager
def without_rights() -> Iterator[None]:
    """As a user who may not read everything, which the superuser may."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that others may look into."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("closed", ["key", "keys"])
def test_what_cannot_be_read_is_named(readable: Path, closed: str) -> None:
    (readable / "key").touch()
    (readable / "keys").mkdir()
    (readable / closed).chmod(0)
    with without_rights(), pytest.raises(PackingError, match=rf"/{closed} cannot be read.*: Permission denied; let it"):
        pack(readable)
    (readable / closed).chmod(0o700)


def test_what_is_no_file_is_not_sent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert contents(tmp_path) == []
