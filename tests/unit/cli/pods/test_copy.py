"""What `corral cp` sends is what is in the folder, and never what a link in it leads to elsewhere."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from corral.cli.main import corral
from corral.cli.pods.copy import _archive, leading_out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "data").mkdir(parents=True)
    (made / "data" / "a.txt").write_text("a")
    (made / "latest").symlink_to("data")
    (made / "data" / "b.txt").symlink_to(made / "data" / "a.txt")
    (tmp_path / "id_rsa").write_text("secret")
    return made


def sent(local: Path) -> dict[str, tarfile.TarInfo]:
    with (
        _archive(local, "name") as source,
        tarfile.open(fileobj=os.fdopen(source, "rb", closefd=False), mode="r|") as archive,
    ):
        return {member.name: member for member in archive}


def test_links_inside_stay_links(folder: Path) -> None:
    assert leading_out(folder) == []
    found = sent(folder)
    assert found["name/latest"].issym()
    assert found["name/latest"].linkname == "data"
    assert found["name/data/b.txt"].linkname == "a.txt"
    assert found["name/data/a.txt"].isreg()


@pytest.mark.parametrize("leads_to", ["../id_rsa", "/etc/hostname", "..", "data/../../id_rsa"])
def test_a_link_that_leads_out_is_named_and_nothing_is_sent(folder: Path, leads_to: str) -> None:
    (folder / "config").symlink_to(leads_to)
    done = CliRunner().invoke(corral, ["cp", str(folder), "job/train:/workspace"])
    assert done.exit_code == 1
    assert "project/config is a link that leads out of" in done.output


def test_what_a_user_names_himself_is_followed(folder: Path) -> None:
    (folder.parent / "link").symlink_to(folder / "data" / "a.txt")
    assert leading_out(folder.parent / "link") == []
    assert sent(folder.parent / "link")["name"].isreg()
