"""`corral examples`: listed, printed and copied from wherever the package is."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from corral.cli.main import corral

EXAMPLES = Path(__file__).parents[4] / "examples"


def typed(*words: str) -> Result:
    return CliRunner().invoke(corral, ["examples", *words])


def test_every_example_is_listed_with_what_it_shows() -> None:
    rows = typed().output.splitlines()[1:]
    there = [path for path in EXAMPLES.rglob("*") if path.is_file()]
    assert len(rows) == len(there)
    assert all(len(row.split(maxsplit=1)) == 2 for row in rows)
    assert "kubectl" not in typed().output


@pytest.mark.parametrize("name", ["job", "job.yaml"])
def test_one_is_printed_as_it_is(name: str) -> None:
    assert typed("show", name).output == (EXAMPLES / "job.yaml").read_text()


def test_a_folder_of_them_is_printed_as_several_documents() -> None:
    assert typed("show", "fleet-kueue").output.count("\n---\n") >= 9


def test_a_wrong_name_is_answered_with_similar_ones() -> None:
    done = typed("show", "pytorchjb")
    assert done.exit_code == 1
    assert "there is no example pytorchjb; did you mean pytorchjob" in done.output


def test_copies_do_not_replace_what_somebody_changed(tmp_path: Path) -> None:
    to = ["--to", str(tmp_path / "here")]
    assert typed("copy", *to).exit_code == 0
    assert (tmp_path / "here" / "fleet-kueue" / "fleet.yaml").exists()
    (tmp_path / "here" / "job.yaml").write_text("mine")
    done = typed("copy", *to)
    assert done.exit_code == 1
    assert "job.yaml there differ and were kept" in done.output
    assert (tmp_path / "here" / "job.yaml").read_text() == "mine"
    assert typed("copy", "job", "--overwrite", *to).exit_code == 0
    assert (tmp_path / "here" / "job.yaml").read_text() == (EXAMPLES / "job.yaml").read_text()
